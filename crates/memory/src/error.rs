//! The errors of this crate.

use std::io;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something about memory could not be done.
///
/// None of these means that content was lost or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused to bring pages in; those before it may be present now.
    #[error("cannot bring in {len} bytes at {address:#x}")]
    Prefault {
        /// First address of the chunk that failed.
        address: usize,
        /// Its length in bytes.
        len: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The time limit passed before all pages were in; the rest is as it was.
    #[error("prefault stopped at its time limit, {left_bytes} bytes left")]
    TimeLimit {
        /// Bytes not brought in.
        left_bytes: usize,
    },
    /// The kernel gave no memory.
    #[error("cannot map {len} bytes")]
    Map {
        /// How many bytes were asked for.
        len: usize,
        /// The kernel's answer.
        source: io::Error,
    },
}
