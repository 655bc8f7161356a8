//! Watches whether a fix still wins inside a program.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts losses against wins; past a limit the fix stays off for the rest of the program.
#[derive(Debug, Default)]
pub struct Guard {
    losses: AtomicU32,
}

impl Guard {
    /// Judges one call: a loss if it took more than forwarding did when it was measured.
    ///
    /// Threads may lose a count to each other; the guard is then a call later.
    pub fn judge(&self, forward_ns: u64, took_ns: u64) {
        let losses = self.losses.load(Ordering::Relaxed);
        if losses >= LOSSES_MAX {
            return;
        }
        let now = if took_ns > forward_ns {
            losses + 1
        } else {
            losses.saturating_sub(1)
        };
        self.losses.store(now, Ordering::Relaxed);
    }

    /// Whether the fix is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.losses.load(Ordering::Relaxed) >= LOSSES_MAX
    }
}

/// Eight more losses than wins: a fix that wins nine calls in ten practically never gets there, one that
/// loses every call is off after eight.
const LOSSES_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_losses_among_wins_keep_it_on() {
        let guard = Guard::default();
        for call in 0..10_000_u64 {
            guard.judge(100, if call % 5 == 0 { 150 } else { 50 });
        }
        assert!(!guard.is_off());
        for _ in 0..8 {
            guard.judge(100, 101);
        }
        assert!(guard.is_off());
        guard.judge(100, 1);
        assert!(guard.is_off());
    }
}
