//! The program `towpath`: thin entry, one file per command.

use std::process::ExitCode;

mod commands;

fn main() -> ExitCode {
    commands::main()
}
