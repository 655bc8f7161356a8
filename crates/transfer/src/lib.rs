//! Host and device transfers: what moves, which mechanism is worth it, and the mechanisms.
//!
//! # What this crate does
//!
//! - [`readback`] turns the arguments of a read into its exact host footprint, decides by the rule
//!   table of `docs/readback.md` whether the destination's pages should be brought in first, and does it.
//! - [`textures`] moves textures and buffers between a guest's scattered memory and a device.
//!
//! # What a layer does
//!
//! For each read of the program, on the program's own thread:
//!
//! 1. Make a [`readback::Footprint`] from the call's arguments. If that fails, forward the call.
//! 2. [`readback::prepare`] with the fixes in force. It changes nothing.
//! 3. If [`readback::Plan::is_prefault`], and the call is blocking, flush the queue, so that earlier
//!    work runs meanwhile. Then [`readback::Plan::run`], which cannot fail: it says what it did.
//! 4. Forward the program's call unchanged, then [`readback::wrote`] if it succeeded.
//! 5. Record cold bytes, wall time and outcome.
//!
//! # What it does not do
//!
//! - It prints nothing, reads no settings, and keeps no thread that nobody asked for.
//! - It never changes a byte that the program did not ask to be changed.
//!
//! # Invariants
//!
//! - A prefault touches only pages that hold a byte of the footprint.
//! - Small and warm calls allocate nothing and take no lock.

pub mod engine;
#[cfg(feature = "opencl")]
pub mod opencl;
pub mod readback;
pub mod textures;
