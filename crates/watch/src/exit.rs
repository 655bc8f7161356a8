//! How a program ended and what it used.

use towpath_measure::Nanos;

/// How a program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// By itself, with this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// A number, or why there is none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Known<T> {
    /// It is known.
    Value(T),
    /// It is not, for this reason.
    Unavailable(String),
}

impl<T> Known<T> {
    /// The value, if it is known.
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }

    /// The value turned into another; the reason stays.
    pub fn map<U>(self, turn: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Self::Value(value) => Known::Value(turn(value)),
            Self::Unavailable(reason) => Known::Unavailable(reason),
        }
    }
}

/// What went to and came from storage.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DiskIo {
    /// Bytes that were fetched from storage.
    pub read_bytes: u64,
    /// Bytes that were made dirty and are to reach storage.
    pub write_bytes: u64,
    /// Bytes of those that were truncated away before they did.
    pub cancelled_bytes: u64,
}

/// How a program ended and what it used, its descendants that it waited for included, and those that
/// it left behind as far as they had ended by then.
#[derive(Clone, Debug)]
pub struct Exit {
    /// How it ended.
    pub end: End,
    /// Whether it was ended because its time was up.
    pub timed_out: bool,
    /// The signal that came to us from outside or the terminal meanwhile, if one did.
    pub interrupted_by: Option<i32>,
    /// From its start to its end.
    pub wall: Nanos,
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub sys: Nanos,
    /// Page faults served without storage.
    pub minor_faults: u64,
    /// Page faults that waited for storage.
    pub major_faults: u64,
    /// Times it gave the CPU up.
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Largest resident set of it or one of its descendants.
    pub max_rss_bytes: u64,
    /// What went to and came from storage.
    pub disk: Known<DiskIo>,
    /// Time that its main thread was ready to run and did not.
    pub run_queue_wait: Known<Nanos>,
    /// Descendants that were still running when it ended.
    pub left_running: u64,
}

impl Exit {
    /// The exit code that passes the end on: the program's own, or 128 + signal.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self.end {
            End::Code(code) => code,
            End::Signal(signal) => u8::try_from(signal & 0x7f).unwrap_or(0) | 0x80,
        }
    }

    /// Whether it ended by itself with code 0 and in time.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.end == End::Code(0) && !self.timed_out
    }

    /// CPU time in all.
    #[must_use]
    pub fn cpu(&self) -> Nanos {
        self.user.saturating_add(self.sys)
    }
}
