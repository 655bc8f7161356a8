//! Why an operation on sync objects did not happen.

use std::io;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on sync objects did not happen.
///
/// That a wait's time is over is an error here, as in the kernel: nothing was waited for to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The deadline passed first (`ETIME`).
    #[error("the wait for {objects} objects ended at its deadline")]
    TimedOut {
        /// How many objects were waited for.
        objects: usize,
    },
    /// A signal came first (`EINTR`), and the wait was one that
    /// [signals end](crate::WaitFor::interruptible).
    #[error("the wait was ended by a signal")]
    Interrupted,
    /// A point has no fence yet, and the call is not one that waits for it (`EINVAL`).
    #[error("nothing was submitted at point {point} of object {index}")]
    NotSubmitted {
        /// Which of the call's objects.
        index: usize,
        /// The point asked for.
        point: u64,
    },
    /// Every process that could signal this is gone (`EOWNERDEAD`). The object stays as it is.
    #[error("all signallers of object {index} are gone")]
    SignallerDead {
        /// Which of the call's objects.
        index: usize,
    },
    /// Shared memory holds what no process of ours writes there: the object is refused from now on.
    #[error("shared memory is damaged: {what}")]
    Damaged {
        /// What was found.
        what: &'static str,
    },
    /// A table of fixed size is full: objects, pending points or processes (`ENOSPC`).
    #[error("no room for one more {what}")]
    Full {
        /// What there are too many of.
        what: &'static str,
    },
    /// The descriptor is not what the call needs (`EINVAL`).
    #[error("the descriptor is not {what}")]
    WrongDescriptor {
        /// What was needed.
        what: &'static str,
    },
    /// The system refused a call.
    #[error("cannot {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// The code that the kernel's sync objects give for this.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::TimedOut { .. } => libc::ETIME,
            Self::Interrupted => libc::EINTR,
            Self::NotSubmitted { .. } | Self::WrongDescriptor { .. } => libc::EINVAL,
            Self::SignallerDead { .. } => libc::EOWNERDEAD,
            Self::Damaged { .. } => libc::EUCLEAN,
            Self::Full { .. } => libc::ENOSPC,
            Self::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}
