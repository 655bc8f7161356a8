//! Scripted OpenCL driver for tests: a complete small ICD that moves real bytes on worker threads,
//! counts what it sees and fails on demand.
//!
//! Load it with `OCL_ICD_VENDORS=/path/libtowpath_fake_opencl.so`. Each command queue has a thread of
//! its own, so non-blocking reads write to the program's memory asynchronously, as real drivers do.
//!
//! Knobs ([`Knob`]) are set by environment variables (`TOWPATH_FAKE_<NAME>`) or, from the same process,
//! by the exported C function `towpath_fake_set(name, value)`; counts ([`Count`]) are read by
//! `towpath_fake_get(name)`. Open the library by its path to reach them: the loader has loaded it too.
//!
//! # What it does not do
//!
//! No programs and no kernels: `clEnqueueFillBuffer` with [`Knob::FillNs`] is its "GPU work". Commands
//! of an out-of-order queue run in order, which the specification allows.

mod boundary;
mod create;
mod device_copies;
mod enqueue;
mod event;
mod host_copies;
mod icd;
mod images;
mod info;
mod knobs;
mod maps;
mod memory;
mod object;
mod queue;

pub use knobs::{Count, Knob};
