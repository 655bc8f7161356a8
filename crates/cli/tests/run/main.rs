//! `towpath run` and `towpath fix`, end to end, with programs that behave and programs that do not.
//!
//! The programs under test are shells and this test program itself: an ignored test is started by name
//! and plays a program whose layer writes a ledger.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::exit,
    reason = "tests; helpers stand outside of test functions, and some play programs"
)]

mod common;
mod ends;
mod hostile;
mod layers;
mod players;
mod reports;
mod signals;
