//! Why a ledger could not be made or read.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What was tried with a ledger.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Making the file.
    Create,
    /// Allocating its room.
    Allocate,
    /// Mapping it.
    Map,
    /// Marking memory to be wiped at fork.
    WipeOnFork,
    /// Opening it for reading.
    Open,
    /// Reading.
    Read,
    /// Writing the control word.
    Switch,
    /// Removing it.
    Remove,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "make",
            Self::Allocate => "allocate room for",
            Self::Map => "map",
            Self::WipeOnFork => "guard against fork",
            Self::Open => "open",
            Self::Read => "read",
            Self::Switch => "switch fixes in",
            Self::Remove => "remove",
        })
    }
}

/// Why a ledger could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    #[error("cannot {operation} the ledger {}", path.display())]
    Io {
        /// What was tried.
        operation: Operation,
        /// On which file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file is shorter than a ledger.
    #[error("the ledger {} is cut off: {found} of {expected} bytes", path.display())]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// Its length, in bytes.
        found: usize,
        /// A ledger's length, in bytes.
        expected: usize,
    },
    /// The file is a ledger of another version.
    #[error("the ledger {} is of version {found}, this towpath reads {expected}", path.display())]
    WrongVersion {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version read here.
        expected: u32,
    },
    /// The file is something else.
    #[error("{} is not a ledger", path.display())]
    NotALedger {
        /// Which file.
        path: PathBuf,
    },
}
