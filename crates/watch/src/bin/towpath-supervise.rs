//! The supervisor alone; see `towpath_watch::supervise`.

use std::process::ExitCode;

fn main() -> ExitCode {
    towpath_watch::supervise::enter_if_asked().unwrap_or(ExitCode::FAILURE)
}
