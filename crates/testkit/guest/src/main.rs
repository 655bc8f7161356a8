//! `towpath-guest-run`: downloads kernels, or runs one static program on one or more of them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use towpath_guest::{Kernel, Machine};

/// Runs a static program in a guest, on one kernel or on several to compare.
#[derive(Debug, Parser)]
#[command(
    after_help = "Example:\n  towpath-guest-run --kernel 6.12 --kernel 6.1 -- target/guest/x86_64-unknown-linux-gnu/debug/guest-memory all"
)]
struct Args {
    /// Kernel to boot: 6.12 or 6.1. Several are run one after the other.
    #[arg(long = "kernel", value_parser = parse_kernel)]
    kernels: Vec<Kernel>,
    /// Downloads and unpacks the kernels, and runs nothing.
    #[arg(long)]
    fetch: bool,
    /// Huge pages of 2 MiB to reserve.
    #[arg(long, default_value_t = 0)]
    huge_pages: u32,
    /// Also prints the kernel's console.
    #[arg(long)]
    console: bool,
    /// The program and its arguments.
    #[arg(last = true)]
    command: Vec<String>,
}

fn parse_kernel(name: &str) -> Result<Kernel, String> {
    Kernel::from_name(name).ok_or_else(|| format!("no kernel {name}: 6.12 or 6.1"))
}

#[expect(clippy::print_stdout, reason = "the program's output")]
fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut kernels = args.kernels;
    if kernels.is_empty() {
        kernels.extend(Kernel::ALL);
    }
    if args.fetch {
        for kernel in kernels {
            let files = kernel.fetch()?;
            println!(
                "{} {} {}",
                kernel.name(),
                files.release,
                files.image.display()
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (program, rest) = args.command.split_first().context("no program given")?;
    let mut all_good = true;
    for kernel in kernels {
        let report = Machine::new(kernel)
            .program(PathBuf::from(program))
            .args(rest)
            .huge_pages(args.huge_pages)
            .run()?;
        println!("== {} ({})", kernel.name(), report.release);
        if args.console {
            println!("{}", report.console);
        }
        print!("{}", report.output);
        println!(
            "== exit {:?}, booted in {:.1} s, {:.1} s in all",
            report.exit,
            report.booted.unwrap_or_default().as_secs_f64(),
            report.wall.as_secs_f64()
        );
        all_good &= report.is_success();
    }
    Ok(if all_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
