//! The primitives of the relay: nothing else in the engine names a lock between threads, so that the
//! model (`--cfg loom`) checks the very code that runs.

#[cfg(not(loom))]
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
