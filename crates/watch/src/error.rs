//! Why a program could not be started or watched.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why a program could not be started or watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is not there.
    #[error("program not found: {program:?}")]
    NotFound {
        /// As it was asked for.
        program: OsString,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The program is there and cannot be executed.
    #[error("cannot execute {program:?}")]
    NotExecutable {
        /// As it was asked for.
        program: OsString,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file for the program's output cannot be made.
    #[error("cannot write the program's output to {}", path.display())]
    Output {
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The supervisor cannot be started or watched.
    #[error("cannot {operation} the supervisor {}", supervisor.display())]
    Supervisor {
        /// What was tried.
        operation: &'static str,
        /// Its program.
        supervisor: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The supervisor ended without a report, most likely killed from outside.
    #[error("the supervisor of {} ended without a report", program.display())]
    SupervisorLost {
        /// The program that it watched.
        program: OsString,
    },
}

impl Error {
    /// The exit code that shells use for it: 127 not found, 126 not executable, 1 otherwise.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 1,
        }
    }

    /// The error of starting `program`, by the kernel's number.
    pub(crate) fn of_exec(program: OsString, errno: i32) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        match errno {
            libc::ENOENT | libc::ENOTDIR => Self::NotFound { program, source },
            _ => Self::NotExecutable { program, source },
        }
    }
}
