//! The engine on OpenCL.
//!
//! - [`Functions`]: the calls, from the system's loader or from a layer's next table.
//! - [`devices`]: which devices there are.
//! - [`Cl`]: the [`Backend`](crate::engine::Backend), with an in-order queue of its own.
//! - [`Staging`]: whole reads and writes of a program, atomic to whatever else is in its queue.
//!
//! # Invariants
//!
//! - In the program's queue there is never more than one command of ours per call, so that no other
//!   thread's command can come between two halves of a copy.
//! - Every event and memory object made here is released here.

mod abi;
mod backend;
mod calibrate;
mod call;
mod device;
mod staging;

pub use abi::{FALSE, Functions, Handle, ImageDescription, ImageFormat, SUCCESS, TRUE};
pub use backend::{Buffer, Cl, Flight, Image, Slot};
pub use calibrate::{Options, calibrate};
pub use call::{HostRows, Region, Transfer};
pub use device::{Device, devices};
pub use staging::{Staged, Staging};
