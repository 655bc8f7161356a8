//! What the programs in the test guest share: a table of checks, one line of output per check.

use std::fmt::Display;
use std::process::ExitCode;

/// A check: its name, and what it does. The answer's text is printed beside the name.
pub type Check = (&'static str, fn() -> Result<String, String>);

/// Runs every check whose name starts with the first argument (all without one) and prints a line each:
/// `ok NAME TEXT` or `FAILED NAME TEXT`.
#[expect(clippy::print_stdout, reason = "the report of the guest")]
#[must_use]
pub fn run(checks: &[Check]) -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let mut code = ExitCode::SUCCESS;
    for (name, check) in checks.iter().filter(|(name, _)| name.starts_with(&wanted)) {
        match check() {
            Ok(text) => println!("ok {name} {text}"),
            Err(text) => {
                println!("FAILED {name} {text}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// `Ok` if both are the same, else both as text.
///
/// # Errors
///
/// The text.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: &T, right: &T) -> Result<(), String> {
    if seen == right {
        return Ok(());
    }
    Err(format!("{what}: {seen:?}, not {right:?}"))
}

/// Turns an error into a line, with what was tried.
pub fn say<E: Display>(what: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// The error number of a failed call; a text if it did not fail.
///
/// # Errors
///
/// The text.
pub fn errno<T>(what: &str, answer: std::io::Result<T>) -> Result<i32, String> {
    match answer {
        Ok(_unexpected) => Err(format!("{what} succeeded")),
        Err(error) => error
            .raw_os_error()
            .ok_or_else(|| format!("{what}: {error}")),
    }
}
