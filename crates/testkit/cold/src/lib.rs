//! Counts cold pages and faults, for drivers and layers of tests.
//!
//! Written apart from `towpath-memory` and `towpath-transfer` on purpose: what checks a fix must not
//! share its mistakes.

mod rows;
mod scan;

pub use rows::Rows;
pub use scan::{Pages, pages, thread_faults};

/// Bytes of a page; x86-64 and the common configuration of aarch64.
pub const PAGE: usize = 4096;
