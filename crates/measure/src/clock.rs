//! The clock: the one place of this crate that asks the system for something.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::units::Nanos;

/// A source of moments that never goes back.
pub trait Clock: Send + Sync {
    /// The moment now. Only differences between moments of one clock mean anything.
    fn now(&self) -> Nanos;
}

/// `CLOCK_MONOTONIC`: one time line for all processes of a machine; stands still in suspend.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    /// # Cost
    ///
    /// About 23 ns through the vDSO; no system call, no allocation.
    #[inline]
    fn now(&self) -> Nanos {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        // Counted from boot: never negative, and in 64 bits for 584 years.
        let seconds = time.tv_sec.cast_unsigned();
        let nanos = time.tv_nsec.cast_unsigned();
        Nanos(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos))
    }
}

/// A clock that tests move by hand.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub const fn new(start: Nanos) -> Self {
        Self {
            now_ns: AtomicU64::new(start.0),
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: Nanos) {
        // Relaxed: a test's threads agree by other means on when the clock moved.
        self.now_ns.fetch_add(span.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.now_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let moments: Vec<Nanos> = (0..1_000).map(|_| MonotonicClock.now()).collect();
        assert!(moments.is_sorted());
        assert!(moments[0] > Nanos::ZERO);
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = ManualClock::new(Nanos(5));
        assert_eq!(clock.now(), Nanos(5));
        clock.advance(Nanos(7));
        assert_eq!(clock.now(), Nanos(12));
    }
}
