//! `cargo xtask deep`: the long forms of what `test` runs short.

use anyhow::Result;

use crate::packages;
use crate::run::{cargo, run_with, say};

/// Long forms; each can be asked for alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds for each fuzz target.
    #[arg(long, default_value_t = 300)]
    fuzz_seconds: u32,
    /// Only this part: loom, false-alarms, fuzz, stress.
    #[arg(long)]
    only: Option<String>,
}

/// Runs every part, or the one asked for.
///
/// # Errors
///
/// If any of them fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |part: &str| args.only.as_deref().is_none_or(|only| only == part);
    if wanted("loom") {
        loom()?;
    }
    if wanted("false-alarms") {
        false_alarms()?;
    }
    if wanted("stress") {
        stress()?;
    }
    if wanted("fuzz") {
        fuzz(args.fuzz_seconds)?;
    }
    Ok(())
}

fn loom() -> Result<()> {
    say("Model checks.");
    // These compile the engine's files beside loom's and shuttle's primitives: no flags.
    let models = ["--test", "loom", "--test", "shuttle", "--", "--ignored"];
    let sync = ["test", "--release", "-p", "towpath-sync"];
    run_with(&cargo(), &[&sync[..], &models].concat(), &[])?;
    let environment = [
        ("RUSTFLAGS", "--cfg loom"),
        ("CARGO_TARGET_DIR", "target/loom"),
    ];
    let ring = [
        "test",
        "--release",
        "-p",
        "towpath-transfer",
        "--lib",
        "--no-default-features",
        "engine::ring::model",
    ];
    run_with(&cargo(), &ring, &environment)
}

fn false_alarms() -> Result<()> {
    say("False alarms and power of every way to a verdict.");
    let example = [
        "run",
        "--release",
        "-p",
        "towpath-measure",
        "--example",
        "false_alarms",
    ];
    run_with(&cargo(), &[&example[..], &["--", "100000"]].concat(), &[])
}

/// Processes killed at random for a minute: `crates/cache/tests/it/many.rs`.
fn stress() -> Result<()> {
    say("Killed processes.");
    let seconds = [("TOWPATH_TEST_SECONDS", "60")];
    let test = [
        "test",
        "--release",
        "-p",
        "towpath-cache",
        "--test",
        "it",
        "many::",
    ];
    run_with(&cargo(), &test, &seconds)
}

fn fuzz(seconds: u32) -> Result<()> {
    packages::cargo_program("cargo-fuzz", "0.13.1", "drives the fuzz targets")?;
    let listed = std::process::Command::new(cargo())
        .args(["fuzz", "list"])
        .current_dir(crate::run::root())
        .output()?;
    // libFuzzer needs the sanitizer flags of a nightly compiler; the stable one takes them when told so.
    let bootstrap = [("RUSTC_BOOTSTRAP", "1")];
    let limit = format!("-max_total_time={seconds}");
    for target in String::from_utf8_lossy(&listed.stdout).lines() {
        run_with(&cargo(), &["fuzz", "run", target, "--", &limit], &bootstrap)?;
    }
    Ok(())
}
