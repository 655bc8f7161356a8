//! Vulkan layer: pipeline cache, waits and frame log for unmodified programs.
//!
//! The layer's name is `VK_LAYER_TOWPATH_host`. `towpath_vulkan_layer.json` beside this crate is its
//! manifest; `library_path` in it is relative, so it goes beside `libtowpath_vulkan_layer.so`.
//! To enable it by hand: `VK_ADD_LAYER_PATH=FOLDER VK_INSTANCE_LAYERS=VK_LAYER_TOWPATH_host`.
//!
//! # What this crate does
//!
//! - Records what pipelines, caches, submissions, waits and presents cost, per device, into the ledger.
//! - Writes a frame log (`TOWPATH_FRAMES_CSV`).
//! - Finds maps of uncached memory that is read, and cache data fetched though nothing changed.
//!
//! # What it does not do
//!
//! - It intercepts nothing that it does not record or fix: the application gets the next layer's
//!   pointer, and with neither ledger nor fix nor frame log that is nearly everything.
//! - It wraps no handles, prints nothing, sets no signal handler.
//!
//! # Invariants
//!
//! - A call is passed on first and recorded afterwards; no panic of ours leaves (see `wall`).
//! - Devices are found by dispatch key without a lock (see `table`).

mod abi;
mod calls;
mod device;
mod fix;
mod fork;
mod frames;
#[cfg(test)]
mod hot;
mod instance;
mod lock;
mod next;
mod proc_addr;
mod process;
mod record;
mod repeat;
mod table;
mod wall;

pub use proc_addr::vkNegotiateLoaderLayerInterfaceVersion;

/// The layer's name, for `VK_INSTANCE_LAYERS`.
pub const NAME: &str = "VK_LAYER_TOWPATH_host";
