//! The lock and the futex for model checkers, made of the checker's own mutex and condition variable.
//!
//! Compiled as a part of `loom.rs` and of `shuttle.rs`, which say whose `sync` it is.

use super::sync::atomic::{AtomicU32, Ordering};
use super::sync::{Condvar, Mutex, MutexGuard};
use crate::time::Deadline;

pub(crate) type Guard<'a, T> = MutexGuard<'a, T>;

#[derive(Debug)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// A futex as a mutex and a condition variable. The compare and the sleep are one step, as the
/// kernel makes them; a wake-up is a notification under the mutex.
#[derive(Debug)]
pub(crate) struct Futex {
    word: AtomicU32,
    queue: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            queue: Mutex::new(()),
            sleepers: Condvar::new(),
        }
    }

    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// No signal comes in a model.
    pub(crate) fn wait(&self, expected: u32, deadline: Deadline, _interruptible: bool) -> bool {
        if deadline.has_passed() {
            return false;
        }
        let Ok(guard) = self.queue.lock() else {
            return false;
        };
        if self.word.load(Ordering::SeqCst) == expected {
            let _answer = self.sleepers.wait(guard);
        }
        false
    }

    /// Wakes at once: a model has no stale addresses.
    pub(crate) fn token(&self) -> Token {
        let _guard = self.queue.lock();
        self.sleepers.notify_all();
        Token
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token;

impl Token {
    pub(crate) fn wake(self) {}
}
