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
//! # What a layer does to stage
//!
//! One `opencl::Staging` per context and device, on a queue of its own made by `Cl::on_context`. For a
//! blocking read or write that may be staged (`docs/readback.md`, "When a call may be staged"):
//!
//! 1. Describe the call as an `opencl::Transfer`.
//! 2. `Staging::read` or `Staging::write`. On any error forward the program's call as it is.
//! 3. For a read with an event, forward `Staged::rest` with the program's event, then `Staged::finish`.
//! 4. When the program releases the context, drop the `Staging` first.
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
pub mod policy;
pub mod readback;
pub mod textures;
