//! The OpenCL program of this crate's tests: one behaviour per run, named by the first argument.
//!
//! Prints what a program can see as `see NAME VALUE` lines, which must not depend on the layer, and what
//! the fake driver counted as `count NAME VALUE` lines. A second argument picks the platform by a part of
//! its name; then it also serves as a benchmark: `scene transfers NVIDIA`.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "an OpenCL program of tests; its output is its interface"
)]

mod callbacks;
mod calls;
mod cl;
mod cost;
mod errors;
mod host;
mod kinds;
mod life;
mod processes;
mod staging;

use std::process::ExitCode;

/// A behaviour.
type Scene = fn();

const SCENES: &[(&str, Scene)] = &[
    ("kinds", kinds::kinds),
    ("kinds-cold", kinds::cold),
    ("shapes", kinds::shapes),
    ("counts", kinds::counts),
    ("read-only", kinds::read_only),
    ("bad-arguments", errors::bad_arguments),
    ("driver-errors", errors::driver_errors),
    ("late-errors", errors::late_errors),
    ("events", callbacks::events),
    ("callback", callbacks::callback),
    ("overlap", callbacks::overlap),
    ("async", callbacks::asynchronous),
    ("fork", processes::fork),
    ("close-all", processes::close_all),
    ("child", processes::child),
    ("forks-that-read", processes::forks_that_read),
    ("initialise", processes::initialise),
    ("two-devices", life::two_devices),
    ("again", life::again),
    ("leak", life::leak),
    ("mapped", life::mapped),
    ("staging-rows", staging::rows),
    ("staging-writes", staging::writes),
    ("staging-one-moment", staging::one_moment),
    ("staging-gate", staging::gate),
    ("small-stack", staging::small_stack),
    ("staging-failures", staging::failures),
    ("staging-shortage", staging::shortage),
    ("staging-in-callback", staging::released_in_callback),
    ("staging-reopened", staging::reopened),
    ("small-reads", cost::small_reads),
    ("refused-reads", cost::refused_reads),
    ("transfers", cost::transfers),
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, scene)) = SCENES.iter().find(|(known, _)| *known == name) else {
        for (known, _) in SCENES {
            println!("{known}");
        }
        return ExitCode::FAILURE;
    };
    scene();
    println!("end");
    ExitCode::SUCCESS
}

/// Prints what the program sees.
fn see(name: &str, value: impl std::fmt::Display) {
    println!("see {name} {value}");
}

/// Prints a count of the driver.
fn count(name: &str, value: u64) {
    println!("count {name} {value}");
}
