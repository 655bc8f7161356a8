//! The intercepted calls: each passes on first and records afterwards.
//!
//! Contract: these functions are handed out by `proc_addr` only, for devices that were entered, and get
//! the application's arguments. They hand them on unchanged, and look at them only as the driver does.

pub(crate) mod caches;
pub(crate) mod memory;
pub(crate) mod pipelines;
pub(crate) mod queue;
pub(crate) mod waits;

/// The answer where a call reaches us for a device that nobody entered: only a broken chain does that.
pub(crate) const NO_DEVICE: ash::vk::Result = ash::vk::Result::ERROR_DEVICE_LOST;
