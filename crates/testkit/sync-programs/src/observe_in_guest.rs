//! Runs the dynamic conformance program under the observing shim in the guest, on the real render
//! node, and prints what the ledger says: `COUNTER TOTAL` lines, one line for each site.
#![expect(clippy::print_stdout, reason = "a test program reports on its output")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::mount::{MountFlags, mount};
use towpath_ledger::read_folder;

const LEDGERS: &str = "/ledgers";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("observe-in-guest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    fs::create_dir_all(LEDGERS)?;
    mount("tmpfs", LEDGERS, "tmpfs", MountFlags::empty(), None)?;
    let status = Command::new("/ld-linux-x86-64.so.2")
        .args([
            "--library-path",
            "/",
            "--preload",
            "/libtowpath_drm_shim.so",
        ])
        .args([
            "/sync-conformance",
            "/dev/dri/renderD128",
            "--vgem",
            "/dev/dri/card1",
        ])
        .args(["--only", "syncobj_wait"])
        .env("TOWPATH_LEDGER", LEDGERS)
        .status()?;
    let (ledgers, problems) = read_folder(Path::new(LEDGERS));
    for problem in problems {
        println!("problem {problem:?}");
    }
    for ledger in &ledgers {
        for (counter, total) in ledger.counters() {
            println!("{} {total}", counter.name());
        }
        for site in ledger.sites() {
            println!("site {} {}", site.call, site.calls);
        }
        for (histogram, buckets) in ledger.histograms() {
            println!("histogram {} {}", histogram.name(), buckets.total());
        }
    }
    Ok(status.success() && ledgers.len() == 1)
}
