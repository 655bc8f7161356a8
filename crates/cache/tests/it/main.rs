//! Tests of the store from outside, in one program.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, outside of test functions"
)]

mod common;
mod crash;
#[cfg(feature = "vulkan")]
mod driver;
mod folders;
mod many;
mod model;
mod saving;
mod store;
