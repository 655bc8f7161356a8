//! The errors of the engine.

/// The result of the engine's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a copy did not happen, or not to its end.
///
/// After any of these the destination may hold a part of the data: forward the whole call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver gave no pinned memory, or the pool's limit is reached.
    #[error("no pinned memory for {bytes} bytes")]
    NoPinnedMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The driver refused a call.
    #[error("{call} was refused with code {code}")]
    Driver {
        /// The call's name.
        call: &'static str,
        /// The driver's code.
        code: i32,
    },
    /// A function that this needs is missing in the driver or loader.
    #[error("the driver has no {call}")]
    Missing {
        /// The call's name.
        call: &'static str,
    },
    /// The library that holds the driver's functions cannot be loaded.
    #[error("cannot load {library}: {reason}")]
    Library {
        /// Its name.
        library: String,
        /// What the loader said.
        reason: String,
    },
    /// The arguments do not fit one another.
    #[error("{bytes} bytes from {offset} do not fit a device buffer of {capacity} bytes")]
    OutOfBounds {
        /// First byte on the device.
        offset: usize,
        /// Bytes to move.
        bytes: usize,
        /// What the buffer holds.
        capacity: usize,
    },
    /// Rows that do not fit the host memory given for them.
    #[error("{rows} rows of {row_bytes} bytes, {pitch_bytes} apart, do not fit {len} bytes")]
    Rows {
        /// How many rows.
        rows: usize,
        /// Bytes of a row.
        row_bytes: usize,
        /// Bytes from row to row.
        pitch_bytes: usize,
        /// Bytes of host memory.
        len: usize,
    },
    /// The system gave no memory.
    #[error("no host memory for {bytes} bytes")]
    NoHostMemory {
        /// Bytes asked for.
        bytes: usize,
    },
}
