//! Why a calibration could not be read or written.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What was tried with a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Making the folder.
    MakeFolder,
    /// Listing the folder.
    List,
    /// Reading.
    Read,
    /// Writing the new bytes beside the old file.
    Write,
    /// Putting the new file in the old one's place.
    Publish,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MakeFolder => "make the folder",
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Publish => "replace",
        })
    }
}

/// Why a calibration could not be read or written. One that is not there is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused a file operation.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried.
        operation: Operation,
        /// On which path.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file is cut, changed, or no calibration at all.
    #[error("{} is no usable calibration: {reason}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A value does not have the form that was asked for.
    #[error("a calibration has another form")]
    Form {
        /// Where it differs.
        source: serde_json::Error,
    },
    /// Neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
    #[error("no folder for state: neither XDG_STATE_HOME nor HOME is an absolute path")]
    NoFolder,
}
