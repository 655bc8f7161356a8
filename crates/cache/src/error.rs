//! Why the store could not do something.

use std::fmt;
use std::io;

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store operation did not happen. A missing or damaged entry is not an error but a miss.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused a file operation.
    #[error("cannot {operation} {name}")]
    File {
        /// What was tried.
        operation: Operation,
        /// On which file, or which folder.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The store cannot be written here: read-only folder, or memory only.
    #[error("the store {name} takes no data: {reason}")]
    ReadOnly {
        /// The store's folder.
        name: String,
        /// Why nothing is written.
        reason: String,
    },
    /// The caller gave something that the format cannot hold.
    #[error("{what} is {given} bytes; the format takes {limit}")]
    TooLarge {
        /// Which part.
        what: &'static str,
        /// Its length in bytes.
        given: u64,
        /// The longest in bytes.
        limit: u64,
    },
    /// Something stands where the store's folder or file should be.
    #[error("{name} is not usable: {reason}")]
    InTheWay {
        /// The path.
        name: String,
        /// What is there instead.
        reason: String,
    },
    /// Another process compacts or prunes this store now.
    #[error("another process tidies {name} now")]
    Busy {
        /// The store's folder.
        name: String,
    },
    /// The driver refused, or its answer cannot be used.
    #[error("the driver's {call} {problem}")]
    Driver {
        /// The Vulkan call.
        call: &'static str,
        /// What it answered, with the number.
        problem: String,
    },
}

impl Error {
    /// Makes a closure for `map_err` that says what failed on what.
    pub(crate) fn file(operation: Operation, name: &str) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File {
            operation,
            name: name.to_owned(),
            source,
        }
    }

    /// This error and its cause on one line, for a log.
    #[must_use]
    pub fn one_line(&self) -> String {
        use std::error::Error as _;
        match self.source() {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}

/// A file operation, for error texts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Making a file or folder.
    Create,
    /// Adding bytes at the end of a file.
    Append,
    /// Waiting until the disk has it.
    Sync,
    /// Giving a file its final name.
    Rename,
    /// Taking a file away.
    Remove,
    /// Listing a folder.
    List,
    /// Reading or mapping a file.
    Read,
    /// Taking a file for oneself.
    Claim,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Append => "append to",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::List => "list",
            Self::Read => "read",
            Self::Claim => "lock",
        })
    }
}
