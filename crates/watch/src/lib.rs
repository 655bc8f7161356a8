//! Starts programs and watches them from outside.
//!
//! # What this crate does
//!
//! - [`Command`] starts a program under a small supervisor, passes terminal and signals through, and
//!   gives its [`Exit`]: how it ended, and what it used.
//! - [`Pressure`], [`WriteWatch`] and [`DiskProbe`] watch the machine beside it: what waited, what was
//!   written below a folder, how long storage takes to answer.
//! - [`supervise`] is that supervisor, entered by the same program.
//!
//! # What it does not do
//!
//! - It looks into no program: no tracing, no preloading. Layers do that.
//! - It never prints.
//!
//! # Invariants
//!
//! - Peak RSS, times and faults are the program's own and its descendants', never the launcher's: the
//!   kernel lets a program inherit the peak of the process that starts it, so that a small one does.
//! - The program stays in the terminal's foreground group: what is typed reaches it, not us.
//! - What could not be read is absent with a reason, never 0.

mod command;
mod error;
mod exit;
mod launch;
mod pressure;
mod probe;
mod protocol;
mod signals;
pub mod supervise;
mod throttle;
mod writes;

pub use command::{Command, Input, Output, Supervisor};
pub use error::Error;
pub use exit::{DiskIo, End, Exit, Known};
pub use launch::Running;
pub use pressure::{Pressure, Stall};
pub use probe::{DiskProbe, PROBE_BYTES, ProbeRead, Probed};
pub use signals::is_ignored;
pub use throttle::Throttle;
pub use writes::{FileWrite, WriteWatch, Writes};
