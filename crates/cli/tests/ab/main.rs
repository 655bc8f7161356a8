//! `towpath ab` from outside: exit codes, the result file, failures, interruption, what is left behind.

#![expect(clippy::unwrap_used, reason = "tests")]

mod claims;
mod common;
mod failures;
mod outputs;
mod variants;
