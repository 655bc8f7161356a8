//! Observes programs on the guest's own render node: the conformance program under the shim, gears
//! under the shim in each way of waiting, and gears under `towpath run`.
//!
//! Prints `COUNTER TOTAL` lines and a line for each site of the first, `gears ARM requests N eventfds M
//! frames F` for the second, and what `towpath run` prints and writes for both.
#![expect(clippy::print_stdout, reason = "a test program reports on its output")]

use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::mount::{MountFlags, mount};
use towpath_ledger::{Counter, LedgerFile, read_folder};

const NODE: &str = "/dev/dri/renderD128";
const CARD: &str = "/dev/dri/card0";
const LEDGERS: &str = "/ledgers";
/// Frames of gears.
const FRAMES: &str = "100";

const CONFORMANCE: [&str; 6] = [
    "/sync-conformance",
    NODE,
    "--vgem",
    "/dev/dri/card1",
    "--only",
    "single-wait",
];
const GEARS: [&str; 6] = ["/gears", NODE, "eventfd", FRAMES, "--present", CARD];

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let outcome = prepare()
        .and_then(|()| conformance())
        .and_then(|()| ["eventfd", "drm", "local"].into_iter().try_for_each(gears))
        .and_then(|()| run("conformance", &CONFORMANCE))
        .and_then(|()| run("gears", &GEARS));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("observe-in-guest: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Dynamic programs find their loader and libraries where they look for them.
fn prepare() -> Outcome {
    fs::create_dir_all("/lib64")?;
    fs::create_dir_all("/lib")?;
    symlink("/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2")?;
    symlink("/", "/lib/x86_64-linux-gnu")?;
    fs::create_dir_all(LEDGERS)?;
    mount("tmpfs", LEDGERS, "tmpfs", MountFlags::empty(), None)?;
    Ok(())
}

/// Runs a program under the shim and reads its ledger.
fn observed(name: &str, program: &str, arguments: &[&str]) -> Result<LedgerFile, Box<dyn Error>> {
    let folder = Path::new(LEDGERS).join(name);
    fs::create_dir_all(&folder)?;
    let status = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", "/libtowpath_drm_shim.so")
        .env("TOWPATH_LEDGER", &folder)
        .status()?;
    let (mut ledgers, problems) = read_folder(&folder);
    for problem in problems {
        println!("problem {problem:?}");
    }
    if !status.success() || ledgers.len() != 1 {
        return Err(format!("{name}: {status}, {} ledgers", ledgers.len()).into());
    }
    Ok(ledgers.remove(0))
}

fn conformance() -> Outcome {
    let [program, arguments @ ..] = CONFORMANCE;
    let ledger = observed("conformance", program, &arguments)?;
    for (counter, total) in ledger.counters() {
        println!("{} {total}", counter.name());
    }
    for site in ledger.sites() {
        println!("site {} {}", site.call, site.calls);
    }
    for (histogram, buckets) in ledger.histograms() {
        println!("histogram {} {}", histogram.name(), buckets.total());
    }
    Ok(())
}

fn gears(arm: &str) -> Outcome {
    let ledger = observed(arm, "/gears", &[NODE, arm, FRAMES, "--present", CARD])?;
    let requests: u64 = ledger.sites().iter().map(|site| site.calls).sum();
    println!(
        "gears {arm} requests {requests} eventfds {} frames {}",
        ledger.counter(Counter::EventfdsMade),
        ledger.counter(Counter::Frames)
    );
    Ok(())
}

/// What a user does.
fn run(name: &str, command: &[&str]) -> Outcome {
    let file = format!("{LEDGERS}/{name}.json");
    let status = Command::new("/towpath")
        .args(["run", "--drm", "--json", &file, "--"])
        .args(command)
        .env("TOWPATH_LAYER_DIR", "/")
        .env("HOME", "/tmp")
        .status()?;
    println!("towpath run {name}: {status}");
    println!("json {}", fs::read_to_string(&file)?);
    if !status.success() {
        return Err("towpath run failed".into());
    }
    Ok(())
}
