//! The lock of what is not hot: the state of caches, of mapped memory, of the frame log.
//!
//! In a forked child a lock may be held for ever, by a thread that only the parent has: there it is
//! tried, and what it guards goes without the change.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::fork;

/// A state behind a mutex. A panic of ours while it was held left counts behind, nothing broken.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(state: T) -> Self {
        Self(Mutex::new(state))
    }

    /// Runs `work` on the state; the default answer in a forked child that finds it locked.
    pub(crate) fn with<R: Default>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(test)]
        TAKEN.set(TAKEN.get() + 1);
        self.guard()
            .map_or_else(R::default, |mut state| work(&mut state))
    }

    fn guard(&self) -> Option<MutexGuard<'_, T>> {
        if !fork::is_child() {
            return Some(self.0.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match self.0.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
thread_local! {
    static TAKEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many locks the present thread has taken.
#[cfg(test)]
pub(crate) fn taken() -> usize {
    TAKEN.get()
}
