//! Absolute deadlines.

use std::time::Duration;

/// When a wait gives up: absolute `CLOCK_MONOTONIC` nanoseconds, as the kernel's sync objects take.
///
/// Absolute, so that a wait that a signal cut short is repeated with the same value. Compared in
/// nanoseconds; nothing here rounds to a scheduler tick.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Deadline(i64);

impl Deadline {
    /// Looks once and returns.
    pub const POLL: Self = Self(0);
    /// Waits until it is done.
    pub const NEVER: Self = Self(i64::MAX);

    /// The time at `nanoseconds` of `CLOCK_MONOTONIC`. Zero and less have passed; `i64::MAX` never does.
    #[must_use]
    pub const fn at_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// `span` from now. Cost: one clock read.
    #[must_use]
    pub fn after(span: Duration) -> Self {
        let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        Self(now().saturating_add(span))
    }

    /// Absolute `CLOCK_MONOTONIC` nanoseconds.
    #[must_use]
    pub const fn as_nanoseconds(self) -> i64 {
        self.0
    }

    /// Whether the time is over. Cost: one clock read, none for [`Self::POLL`] and [`Self::NEVER`].
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.0 <= 0 || (self.0 != i64::MAX && now() >= self.0)
    }

    /// The time left, for calls that take a span; `None` is never. Cost: one clock read.
    pub(crate) fn left(self) -> Option<rustix::time::Timespec> {
        (self.0 != i64::MAX).then(|| {
            let left = self.0.saturating_sub(now()).max(0);
            rustix::time::Timespec {
                tv_sec: left / 1_000_000_000,
                tv_nsec: left % 1_000_000_000,
            }
        })
    }

    /// For the kernel; `None` is never.
    pub(crate) fn timespec(self) -> Option<rustix::thread::Timespec> {
        (self.0 != i64::MAX).then(|| rustix::thread::Timespec {
            tv_sec: self.0.max(0) / 1_000_000_000,
            tv_nsec: self.0.max(0) % 1_000_000_000,
        })
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec)
}
