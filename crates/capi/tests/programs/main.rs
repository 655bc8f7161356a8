//! C and C++ programs against the library: the examples, wrong calls, and what else is in the process.

#![expect(clippy::unwrap_used, reason = "tests")]

mod calls;
mod common;
mod examples;
mod misuse;
