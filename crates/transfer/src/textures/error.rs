//! Why a transfer does not happen.

/// Why a texture, a backing or a transfer was refused. Nothing was read or written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A texture's description is impossible.
    #[error("no such texture: {reason}")]
    Texture {
        /// Which part of it.
        reason: &'static str,
    },
    /// A request asks for something outside the texture, or for rows that cannot be.
    #[error("the request does not fit the texture: {reason}")]
    Request {
        /// Which part of it.
        reason: &'static str,
    },
    /// The rows do not fit the backing.
    #[error("the transfer needs {needed} bytes of backing, there are {present}")]
    Backing {
        /// Bytes up to the end of the last row; `u64::MAX` if the sum does not fit 64 bits.
        needed: u64,
        /// Bytes of the backing.
        present: u64,
    },
    /// A guest address is not in guest memory.
    #[error("{len} bytes at guest address {address:#x} are not guest memory")]
    NotGuestMemory {
        /// The address.
        address: u64,
        /// The length asked for.
        len: u64,
    },
    /// A list of pieces is too long, or too long in bytes.
    #[error("a backing of {entries} entries is refused")]
    TooManyPieces {
        /// Entries given.
        entries: usize,
    },
    /// The memory behind a backing was taken away.
    #[error("the backing's memory is gone")]
    Revoked,
    /// The backend's device failed.
    #[error("the device cannot {operation}: code {code}")]
    Device {
        /// What was tried.
        operation: &'static str,
        /// The driver's code.
        code: i32,
    },
    /// The system refused a resource.
    #[error("cannot {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// An answer of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;
