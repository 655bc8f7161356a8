//! `cargo xtask test`: installs what is missing, builds everything, runs every test.

use anyhow::Result;

use crate::packages::{self, Set};
use crate::run::{cargo, run as start, say};

/// Runs every test; `--` passes words on to the runner.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leaves the system's packages as they are.
    #[arg(long)]
    no_install: bool,
    /// Words for `cargo nextest run`, such as a filter.
    #[arg(last = true)]
    runner: Vec<String>,
}

/// Documentation tests first, so that the runner's summary closes the output.
///
/// # Errors
///
/// If anything fails to install, build or pass.
pub(crate) fn run_profile(profile: &str, runner: &[String]) -> Result<()> {
    // cdylibs and programs are not built by a test run, and the tests load them.
    start(&cargo(), &["build", "--workspace"])?;
    // Two kernels of Debian for the guest machine; kept for the next time.
    start(
        &cargo(),
        &["run", "--quiet", "-p", "towpath-guest", "--", "--fetch"],
    )
    .or_else(|error| {
        say(&format!(
            "{error:#}: the guest's tests will say what they lack"
        ));
        Ok::<(), anyhow::Error>(())
    })?;
    start(&cargo(), &["test", "--workspace", "--doc", "--quiet"])?;
    let mut words = vec!["nextest", "run", "--workspace", "--profile", profile];
    words.extend(runner.iter().map(String::as_str));
    start(&cargo(), &words)
}

/// Runs `cargo xtask test`.
///
/// # Errors
///
/// As [`run_profile`].
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.no_install {
        say("Not installing anything; tests whose needs are not met say so.");
    } else {
        packages::install(Set::All)?;
    }
    nextest()?;
    run_profile("default", &args.runner)
}

/// The runner: one process per test, which the layers need.
///
/// # Errors
///
/// If it is missing and cannot be built.
pub(crate) fn nextest() -> Result<()> {
    packages::cargo_program(
        "cargo-nextest",
        "0.9.143",
        "runs each test in a process of its own",
    )
}
