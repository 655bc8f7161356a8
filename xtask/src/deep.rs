//! `cargo xtask deep`: the long forms of what `test` runs short.

use anyhow::{Result, ensure};

use crate::run::{cargo, root, run_with, say};
use crate::{dist, layer32, packages};

/// Long forms; each can be asked for alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds for each fuzz target.
    #[arg(long, default_value_t = 300)]
    fuzz_seconds: u32,
    /// Only this part: loom, false-alarms, dist, fuzz, stress, layer32.
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
    if wanted("dist") {
        say("What is installed, from the release build.");
        dist::run(&dist::Args::default())?;
    }
    if wanted("fuzz") {
        fuzz(args.fuzz_seconds)?;
    }
    // Last: it takes a compiler and a system that not every machine can have.
    if wanted("layer32") {
        say("The Vulkan layer in 32-bit processes.");
        layer32::run(&layer32::Args::TEST)?;
    }
    Ok(())
}

fn loom() -> Result<()> {
    say("Model checks.");
    // By nextest, for which a name that finds no test is a failure.
    // These compile the engine's files beside loom's and shuttle's primitives: no flags.
    let models = ["--test", "loom", "--test", "shuttle"];
    let sync = ["nextest", "run", "--release", "-p", "towpath-sync"];
    let ignored = ["--run-ignored", "ignored-only"];
    run_with(&cargo(), &[&sync[..], &models, &ignored].concat(), &[])?;
    let environment = [
        ("RUSTFLAGS", "--cfg loom"),
        ("CARGO_TARGET_DIR", "target/loom"),
    ];
    let relay = [
        "nextest",
        "run",
        "--release",
        "-p",
        "towpath-transfer",
        "--lib",
        "--no-default-features",
        "engine::relay::model",
    ];
    run_with(&cargo(), &relay, &environment)
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

/// Every target of `fuzz/Cargo.toml`, from the seeds in `fuzz/seeds` and what earlier runs found in
/// `fuzz/corpus`.
fn fuzz(seconds: u32) -> Result<()> {
    packages::cargo_program("cargo-fuzz", "0.13.1", "drives the fuzz targets")?;
    // libFuzzer needs the sanitizer flags of a nightly compiler; the stable one takes them when told so.
    let bootstrap = [("RUSTC_BOOTSTRAP", "1")];
    let limit = format!("-max_total_time={seconds}");
    for target in fuzz_targets()? {
        say(&format!("Fuzz target {target}."));
        let corpus = format!("fuzz/corpus/{target}");
        std::fs::create_dir_all(root().join(&corpus))?;
        let seeds = format!("fuzz/seeds/{target}");
        let mut words = vec!["fuzz", "run", &target, &corpus];
        if root().join(&seeds).is_dir() {
            words.push(&seeds);
        }
        words.extend(["--", &limit, "-rss_limit_mb=2048", "-timeout=10"]);
        run_with(&cargo(), &words, &bootstrap)?;
    }
    Ok(())
}

/// What `cargo fuzz` can run; each source file must be among them.
fn fuzz_targets() -> Result<Vec<String>> {
    let listed = std::process::Command::new(cargo())
        .args(["fuzz", "list"])
        .current_dir(root())
        .output()?;
    ensure!(
        listed.status.success(),
        "cargo fuzz list failed: {}",
        String::from_utf8_lossy(&listed.stderr).trim_end()
    );
    let listed = String::from_utf8_lossy(&listed.stdout);
    let targets: Vec<String> = listed.lines().map(|line| line.trim().to_owned()).collect();
    for file in std::fs::read_dir(root().join("fuzz/fuzz_targets"))? {
        let path = file?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        ensure!(
            targets.iter().any(|target| *target == name),
            "fuzz/Cargo.toml has no [[bin]] for {}",
            path.display()
        );
    }
    Ok(targets)
}
