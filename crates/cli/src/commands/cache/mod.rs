//! `towpath cache`: stores and other programs' pipeline cache files, looked at and put in order.

mod driver;
mod inspect;
mod keep;
mod output;
mod transfer;
mod verify;

use std::process::ExitCode;

use anyhow::Result;

/// Looks at pipeline caches of any program, and keeps towpath's own in order.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath cache inspect ~/.cache/mygame/pipelines.bin")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Inspect(inspect::Args),
    Verify(verify::Args),
    Stats(keep::StatsArgs),
    Merge(keep::MergeArgs),
    Prune(keep::PruneArgs),
    Export(transfer::ExportArgs),
    Import(transfer::ImportArgs),
    #[command(hide = true)]
    TryBlobs(driver::TryArgs),
}

/// Damage was found.
pub(super) const DAMAGED: u8 = 2;

/// Runs the subcommand.
///
/// # Errors
///
/// If it could not do its job; damage is exit code 2, not an error.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Inspect(args) => inspect::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Stats(args) => keep::stats(args),
        Command::Merge(args) => keep::merge(args),
        Command::Prune(args) => keep::prune(args),
        Command::Export(args) => transfer::export(args),
        Command::Import(args) => transfer::import(args),
        Command::TryBlobs(args) => driver::try_blobs(args),
    }
}
