//! `cargo xtask setup|demo|test|ci|deep|dist|layer32`: everything a fresh machine needs, in one word each.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod ci;
mod deep;
mod demo;
mod dist;
mod layer32;
mod packages;
mod run;
mod test;

/// Set-up, demo, tests and packaging of towpath.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    after_help = "Example:\n  cargo xtask demo --pairs 10\n  cargo xtask test"
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Installs what is missing for tests and demo, and says what and why.
    Setup,
    /// Runs the main job on an unmodified program: darktable on PoCL, fixes off against fixes on.
    Demo(demo::Args),
    /// Installs what is missing and runs every test.
    Test(test::Args),
    /// Everything that must hold before a change lands: format, lints, docs, licences, tests.
    Ci,
    /// The long forms: fuzz targets, model checks, full-size simulations, crash runs, installed packages.
    Deep(deep::Args),
    /// Makes what is installed: a tree, an archive of it, a Debian package.
    Dist(dist::Args),
    /// Builds the Vulkan layer for 32-bit processes, where the compiler has what that takes.
    Layer32(layer32::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Setup => packages::install(packages::ALL),
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Ci => ci::run(),
        Task::Deep(args) => deep::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Layer32(args) => layer32::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            run::say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
