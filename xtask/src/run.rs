//! Starting other programs, and saying what is done.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Prints one line of progress to stderr.
#[expect(clippy::print_stderr, reason = "a build tool talks to its user")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// Runs `program` to its end with the terminal passed through.
///
/// # Errors
///
/// If it cannot be started or does not succeed.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Result<()> {
    run_with(program, args, &[])
}

/// As [`run`], with variables set.
///
/// # Errors
///
/// If it cannot be started or does not succeed.
pub(crate) fn run_with<S: AsRef<OsStr>>(
    program: &str,
    args: &[S],
    environment: &[(&str, &str)],
) -> Result<()> {
    let shown: Vec<_> = args
        .iter()
        .map(|arg| arg.as_ref().to_string_lossy())
        .collect();
    say(&format!("+ {program} {}", shown.join(" ")));
    let status = Command::new(program)
        .args(args)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} {} failed: {status}", shown.join(" "));
    }
    Ok(())
}

/// The path of cargo that started us.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo names itself to its children this way"
)]
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Whether a program is on the path.
#[expect(
    clippy::disallowed_methods,
    reason = "looks for programs, not for settings"
)]
pub(crate) fn has_program(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).exists()))
}
