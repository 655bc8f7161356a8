//! OpenCL layer: readback and upload for unmodified programs.
//!
//! Loaded by the OpenCL loader through `OPENCL_LAYERS`. It stands between the program and the driver,
//! records what each transfer costs in the ledger, and applies the readback fix that
//! `towpath-transfer` decides on.
//!
//! # What it does not do
//!
//! - It decides nothing: whether and how a destination is brought in is `towpath-transfer`'s answer.
//! - It never changes an argument, a result or an event of the program, unless a staged transfer says so.
//! - It prints nothing, and no panic leaves it.
//!
//! # Invariants
//!
//! - **The program's call is forwarded exactly once**, whatever happens to our own work before it; or it
//!   was staged, by the table in the header of `stage`, and is done.
//! - Without a ledger and with all fixes off the layer's table is empty: calls pass it by.
//! - A small call costs two clock reads and some atomics: no lock, no allocation, no system call.
//! - Inside the program's event callbacks the layer makes no OpenCL call of its own.
//!
//! # Modules
//!
//! `boundary` is the loader's interface and holds what touches the program's pointers; `next` the
//! driver's table; `calls` the thin entry functions; `observe` what happens around a call; `handles` and
//! `devices` what is remembered about the program's objects, lock-free; `stage` the staged copies; `state` the settings and ledger.

mod boundary;
mod calls;
mod devices;
mod environment;
mod footprint;
mod handles;
mod images;
mod inside;
mod next;
mod observe;
mod ranges;
mod stage;
mod state;
