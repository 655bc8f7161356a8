//! The primitives of the ring: nothing else in the engine names an atomic or a lock, so that the model
//! (`--cfg loom`) checks the very code that runs.

#[cfg(not(loom))]
pub(super) use std::sync::Mutex;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(loom)]
pub(super) use loom::sync::Mutex;
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
