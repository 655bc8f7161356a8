//! The host-cost record shared between layers and the program that reads it.
//!
//! # What this crate does
//!
//! - [`Writer`]: a layer's side. One memory-mapped file per process and library, of fixed size and
//!   layout (`docs/ledger.md`), that survives the death of the process.
//! - [`LedgerFile`]: the reader's side, which takes any bytes.
//! - [`Stack`]: where in the program a call came from, as modules and offsets.
//!
//! # What it does not do
//!
//! - It decides nothing and prints nothing.
//! - It keeps no strings of the program but names of devices, calls and modules.
//!
//! # Invariants
//!
//! - Recording takes no lock, allocates nothing and makes no system call.
//! - A store never raises SIGBUS: all room is allocated before the file is mapped.
//! - After fork the child never writes into its parent's file; it makes its own at its first record.
//! - A reader never trusts a length, an offset or a text of the file.

mod calls;
mod error;
mod folder;
mod layout;
mod map;
mod names;
mod process;
mod reader;
mod size_limit;
mod stack;
mod table;
mod writer;

pub use calls::{Call, SiteId, SiteKey};
pub use error::{Error, Operation};
pub use folder::{Problem, read_folder, remove_dead};
pub use layout::{FILE_BYTES, VERSION};
pub use names::{Counter, Histogram, HostPath, Outcome};
pub use process::Process;
pub use reader::{Buckets, FrameLog, LedgerFile, OutcomeCount, Site, SlowCall, StackFrame};
pub use size_limit::within_size_limit;
pub use stack::{STACK_BYTES_MIN, Stack};
pub use writer::Writer;

#[cfg(target_endian = "big")]
compile_error!("the ledger is little-endian and mapped as it is");
