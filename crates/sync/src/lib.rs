//! Sync objects of GPU work: binary and timeline, with the meaning of the kernel's DRM sync objects.
//!
//! # What this crate does
//!
//! - One interface, [`Provider`], over objects of this process ([`local`]), objects shared between
//!   processes ([`shared`]) and the kernel's ([`drm`]); waits over all of them and a doorbell for event
//!   loops ([`mixed`]).
//! - The kernel's requests and codes where there is no render node ([`kernel`]).
//! - Waits on any or on all of many objects, for points that have a fence and for points that do
//!   not yet, with absolute deadlines in nanoseconds.
//!
//! # What it does not do
//!
//! - It starts no GPU work and knows nothing of Vulkan or OpenCL.
//! - It never spins while it waits.
//!
//! # Invariants
//!
//! - A point is done only when its own fence and those of all points added before it are.
//! - A wait keeps the fence that it found; a later reset or replacement does not change it.
//! - One wake-up for each satisfied waiter.
#![cfg_attr(
    loom,
    expect(dead_code, reason = "models use the in-process engine only")
)]

mod asleep;
pub mod drm;
mod error;
mod forks;
mod inline;
pub mod kernel;
pub mod local;
pub mod mixed;
mod payload;
mod prim;
mod provider;
mod quiet_thread;
pub mod shared;
mod time;
pub mod vtable;

pub use error::{Error, Result};
pub use provider::{Entry, Notice, Progress, Provider, WaitFor, Waited};
pub use time::Deadline;
