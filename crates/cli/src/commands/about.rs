//! `towpath about`: version and licence.

use std::process::ExitCode;

/// Prints version and licence.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints one line.
#[expect(clippy::print_stdout, reason = "the command's output")]
#[expect(clippy::unnecessary_wraps, reason = "every command has one signature")]
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    println!("towpath {} (MIT OR Apache-2.0)", env!("CARGO_PKG_VERSION"));
    Ok(ExitCode::SUCCESS)
}
