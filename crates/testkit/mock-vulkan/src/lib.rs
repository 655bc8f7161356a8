//! A scripted Vulkan driver for tests: it computes nothing, notices wrong use, and writes a journal.
//!
//! # What this crate does
//!
//! - A library that the real Vulkan loader loads as a driver: write [`manifest`] to a file and point
//!   `VK_ICD_FILENAMES` at it.
//! - Instances, devices, queues, shader modules, pipelines of three kinds, pipeline libraries, pipeline
//!   caches with Vulkan's real header, `VK_KHR_pipeline_binary`, creation feedback, fences, binary and
//!   timeline semaphores, headless surfaces and swapchains, memory that can be mapped.
//! - Behaves as a [script](script::Script) says: what cache data looks like, how long a compile takes,
//!   which driver it claims to be, when the device is lost.
//! - Tags handles by kind, so that a wrong or destroyed one is noted as a `fault` instead of passing.
//! - Counts every call and event, and appends each to a file as a line (see `journal`). The export
//!   `mock_vulkan_count` gives the counts of the own process.
//!
//! # What it does not do
//!
//! - Draw, dispatch or copy: command buffers hold nothing.
//! - Check valid usage beyond handles and the few rules that the cache and sync tests need.
//!
//! # Invariants
//!
//! - Raw pointers are followed in `ffi` only; `loader` is the only place that hands out functions.

mod binary;
mod blob;
mod cache;
mod device;
mod ffi;
mod handle;
mod instance;
mod journal;
mod key;
mod loader;
mod memory;
mod objects;
mod physical;
mod pipeline;
mod present;
mod queue;
pub mod script;
mod sync;

pub use journal::count;
pub use loader::{
    mock_vulkan_count, vk_icdGetInstanceProcAddr, vk_icdGetPhysicalDeviceProcAddr,
    vk_icdNegotiateLoaderICDInterfaceVersion,
};

/// The driver's manifest for a library at `library` (an absolute path).
#[must_use]
pub fn manifest(library: &std::path::Path) -> String {
    format!(
        r#"{{"file_format_version": "1.0.1", "ICD": {{"library_path": "{}", "api_version": "1.3.0"}}}}"#,
        library.display()
    )
}
