//! Textures on Vulkan: any driver with version 1.1, through the system's loader.
//!
//! - An upload from pieces is gathered into a persistently mapped staging buffer and copied by the device:
//!   one pass of the processor.
//! - An upload from a view is copied by the device straight from the view's pages, imported once
//!   (`VK_EXT_external_memory_host` for stitched views, a dma-buf for udmabuf views): no pass of the
//!   processor. Where the driver refuses the import, or a stride is no whole number of texels, the view is
//!   copied into staging instead.
//! - On request ([`Ways::regions`]) an upload from pieces is copied by the device too: the guest's memory is
//!   imported once as it is mapped, and one command names every stretch.
//! - With `VK_EXT_host_image_copy` the processor can also write the image itself.

mod backend;
mod commands;
mod device;
mod fill;
mod image;
mod import;
mod memory;
mod regions;
mod staging;

pub use backend::{Counts, Vulkan, Ways};
pub use device::{Device, Offer};
pub use image::VulkanImage;
pub use import::{Handle, Import};

use super::error::Error;

/// Names a driver's refusal.
fn failed(operation: &'static str) -> impl FnOnce(ash::vk::Result) -> Error {
    move |code| Error::Device {
        operation,
        code: code.as_raw(),
    }
}
