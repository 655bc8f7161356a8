//! The program `towpath`: thin entry, one file per command.

use std::process::ExitCode;

#[macro_use]
mod say;

mod commands;
mod input;
mod outputs;
mod session;

fn main() -> ExitCode {
    // First of all: as the supervisor of a program, this process must stay small.
    towpath_watch::supervise::enter_if_asked().unwrap_or_else(commands::main)
}
