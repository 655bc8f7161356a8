//! One caller at a time, where the program's own function is called inside.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::boundary::Answer;
use crate::status::tp_status as Status;

/// Lets one thread in at a time, and says so where a thread would wait for itself.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inside: AtomicUsize,
    lock: Mutex<()>,
}

/// A thread inside; out when dropped.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    gate: &'a Gate,
    _lock: MutexGuard<'a, ()>,
}

impl Gate {
    /// Waits until no other thread is inside.
    ///
    /// TP_ERROR_BUSY: this thread is, further up its stack.
    pub(crate) fn enter(&self) -> Answer<Entered<'_>> {
        let own = own();
        // Relaxed: only this thread writes this value, so it sees whether it did.
        if self.inside.load(Ordering::Relaxed) == own {
            return Err(Status::TP_ERROR_BUSY);
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.inside.store(own, Ordering::Relaxed);
        Ok(Entered {
            gate: self,
            _lock: lock,
        })
    }

    /// Whether anybody is inside, as far as this thread knows.
    pub(crate) fn is_busy(&self) -> bool {
        self.inside.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.gate.inside.store(0, Ordering::Relaxed);
    }
}

/// A number that no two living threads share, and not 0.
fn own() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_that_it_would_wait_for_itself() {
        let gate = Gate::default();
        let entered = gate.enter().unwrap();
        assert_eq!(gate.enter().err(), Some(Status::TP_ERROR_BUSY));
        assert!(gate.is_busy());
        drop(entered);
        assert!(!gate.is_busy() && gate.enter().is_ok());
        std::thread::scope(|scope| {
            let entered = gate.enter().unwrap();
            let other = scope.spawn(|| gate.enter().is_ok());
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(entered);
            assert!(other.join().unwrap());
        });
    }
}
