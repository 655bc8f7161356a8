//! `cargo xtask ci`: what `.ci/run` calls.

use anyhow::Result;

use crate::packages::{self, Set};
use crate::run::{cargo, run as start, run_with};
use crate::test;

/// Cheap checks first, tests last.
///
/// # Errors
///
/// If any of them fails.
pub(crate) fn run() -> Result<()> {
    let cargo = cargo();
    start(&cargo, &["fmt", "--all", "--check"])?;
    packages::install(Set::All)?;
    packages::cargo_program("cargo-deny", "0.20.2", "checks licences, bans and sources")?;
    test::nextest()?;
    start(
        &cargo,
        &["deny", "--offline", "check", "bans", "licenses", "sources"],
    )
    .or_else(|_offline| start(&cargo, &["deny", "check", "bans", "licenses", "sources"]))?;
    start(
        &cargo,
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    )?;
    // A workspace of its own: what it uses may change without it. `deep` runs the targets.
    let fuzz = ["check", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
    start(
        &cargo,
        &[&fuzz[..], &["--bins", "--target-dir", "target"]].concat(),
    )?;
    run_with(
        &cargo,
        &["doc", "--workspace", "--no-deps"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    test::run_profile("ci", &[])
}
