//! The command line: one module per command, each with its `Args` and its `run`.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

mod ab;
mod about;
mod bench;
mod cache;
mod compare;
mod doctor;
mod fix;
mod frames;
mod layers;
mod report;
mod run;

/// Finds, fixes and proves the host-side cost of GPU work.
#[derive(Debug, Parser)]
#[command(name = "towpath", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ab(Box<ab::Args>),
    About(about::Args),
    Bench(bench::Args),
    Cache(cache::Args),
    Compare(compare::Args),
    Doctor(doctor::Args),
    Fix(fix::Args),
    Frames(frames::Args),
    Layers(layers::Args),
    Report(report::Args),
    Run(run::Args),
}

/// The whole command line, for man pages and completions.
fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line, runs the command and prints what went wrong, cause by cause.
pub(crate) fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Ab(args) => ab::run(&args),
        Command::About(args) => about::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Fix(args) => fix::run(&args),
        Command::Frames(args) => frames::run(&args),
        Command::Layers(args) => layers::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Run(args) => run::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        #[expect(clippy::print_stderr, reason = "the program's own error line")]
        {
            eprintln!("towpath: {error:#}");
        }
        ExitCode::FAILURE
    })
}
