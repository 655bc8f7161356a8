//! The layer between real programs and real loaders: PoCL and the fake driver, each run a process of
//! its own.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod counts;
mod rights;
mod same;
mod staging;
