//! The one table of settings, and the files in which calibrations are kept.
//!
//! # What this crate does
//!
//! - Reads the environment once, in one place ([`Settings::from_environment`]), by one table
//!   ([`TABLE`]) from which help, man page and reference page come.
//! - Names the fixes and how each is switched ([`Fixes`]).
//! - Keeps a library in a foreign process from printing its panics ([`hush_panics`]).
//! - Keeps what was measured about a machine and device ([`calibration`]).
//!
//! # What it does not do
//!
//! - It never fails over a bad value: the default is used and a [`Problem`] says so.
//! - It does not know what a calibration means; `transfer` and `cache` do.
//!
//! # Invariants
//!
//! - No variable is named twice in the table (tested).
//! - A calibration file is replaced whole or not at all; a damaged one is never half read.

#![forbid(unsafe_code)]

pub mod calibration;
mod fixes;
mod quiet;
mod table;
mod value;

pub use fixes::{Fix, FixError, Fixes, Mode};
pub use quiet::hush_panics;
pub use table::{Problem, Setting, Settings, TABLE};
pub use value::{CacheMode, TransferWay, Value};
