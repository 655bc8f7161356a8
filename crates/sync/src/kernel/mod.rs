//! The kernel's face on any provider: handles, descriptors, ioctls and error codes as
//! `drm_syncobj.c`, `sync_file.c` and `sw_sync.c` have them, where there is no `/dev/dri`.
//!
//! A [`Device`] is what a render node names; each [`Client`] is one opened file of it, with handles
//! of its own. Requests come as a number and the bytes of the struct, arrays in them as addresses in
//! this process, read and written by system calls that answer `EFAULT` where nothing is mapped.
//!
//! Followed where kernels differ: Linux 6.16 and later (the TIMELINE flag of descriptors; `point`
//! ignored without it; a wait on no objects succeeds; unknown flags of TRANSFER are refused).
//!
//! Known differences: a wait is exact to the nanosecond, not to the scheduler tick; fences of a
//! software timeline end when the next call notices that its last descriptor is closed; a sync file made
//! from an object lists one fence, whatever was imported there.

mod arrays;
mod client;
mod files;
mod memory;
mod parts;
mod sync_file;

pub use client::Client;
pub use files::{Description, Device};

/// Lets this thread serve a request that a signal handler makes while a request of the same thread sleeps:
/// returns whether it does sleep, and takes it as awake until [`sleeps_again`].
#[must_use]
pub fn wakes_for_handler() -> bool {
    crate::asleep::set(false)
}

/// Takes back [`wakes_for_handler`] before the handler goes on.
pub fn sleeps_again() {
    crate::asleep::set(true);
}

/// A code of `errno.h`.
pub type Code = i32;

/// What the kernel's functions return.
pub(crate) type Answer<T> = Result<T, Code>;
