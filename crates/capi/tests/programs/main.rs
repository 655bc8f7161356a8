//! C and C++ programs against the library: the examples, wrong calls, and what else is in the process.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod beside;
mod calls;
mod common;
mod every;
mod examples;
mod misuse;
mod vulkan;
