//! The command line: one module per command, each with its `Args` and its `run`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod about;
mod bench;
mod cache;
mod doctor;

/// Finds, fixes and proves the host-side cost of GPU work.
#[derive(Debug, Parser)]
#[command(name = "towpath", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    About(about::Args),
    Bench(bench::Args),
    Cache(cache::Args),
    Doctor(doctor::Args),
}

/// Parses the command line, runs the command and prints what went wrong, cause by cause.
pub(crate) fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::About(args) => about::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        #[expect(clippy::print_stderr, reason = "the program's own error line")]
        {
            eprintln!("towpath: {error:#}");
        }
        ExitCode::FAILURE
    })
}
