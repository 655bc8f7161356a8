//! Textures as Vulkan has them.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::sync::Arc;

use ash::vk;

use super::super::error::{Error, Result};
use super::super::plan::Plan;
use super::super::shape::{Dimension, Format, Texture};
use super::device::Device;
use super::failed;
use super::memory::Buffer;

/// A texture or buffer of a Vulkan device.
pub struct VulkanImage {
    pub(super) held: Held,
    /// Rows of arrays: `z` counts layers; of blocks: slices.
    dimension: Dimension,
    pub(super) host_copy: bool,
}

impl std::fmt::Debug for VulkanImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanImage")
            .field("dimension", &self.dimension)
            .finish_non_exhaustive()
    }
}

/// What it is made of.
pub(super) enum Held {
    Buffer(Buffer),
    Image(Image),
}

/// An image and its memory.
pub(super) struct Image {
    device: Arc<Device>,
    pub(super) raw: vk::Image,
    memory: vk::DeviceMemory,
}

impl VulkanImage {
    pub(super) fn new(
        device: &Arc<Device>,
        texture: &Texture,
        ways_host_copy: bool,
    ) -> Result<Self> {
        texture.check()?;
        if texture.dimension == Dimension::Buffer {
            return Ok(Self {
                held: Held::Buffer(Buffer::local(device, u64::from(texture.width))?),
                dimension: texture.dimension,
                host_copy: false,
            });
        }
        let format = format(texture.format).ok_or(NO_FORMAT)?;
        let mut host_copy = ways_host_copy && device.copy.is_some();
        let mut create = describe(texture, format, host_copy);
        if host_copy && !device.takes(&create) {
            host_copy = false;
            create = describe(texture, format, false);
        }
        if !device.takes(&create) {
            return Err(NO_FORMAT);
        }
        Ok(Self {
            held: Held::Image(Image::new(device, &create)?),
            dimension: texture.dimension,
            host_copy,
        })
    }

    /// Whether `z` counts slices of a block and not layers.
    pub(super) const fn is_block(&self) -> bool {
        matches!(self.dimension, Dimension::D3)
    }

    /// The place of a plan's region: offset, extent and layers.
    pub(super) fn place(
        &self,
        plan: &Plan,
    ) -> (vk::ImageSubresourceLayers, vk::Offset3D, vk::Extent3D) {
        let region = &plan.region;
        let is_block = self.dimension == Dimension::D3;
        let layers = vk::ImageSubresourceLayers::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .mip_level(plan.level)
            .base_array_layer(if is_block { 0 } else { region.z })
            .layer_count(if is_block { 1 } else { region.depth });
        let offset = vk::Offset3D {
            x: region.x.cast_signed(),
            y: region.y.cast_signed(),
            z: if is_block { region.z.cast_signed() } else { 0 },
        };
        let extent = vk::Extent3D {
            width: region.width,
            height: region.height,
            depth: if is_block { region.depth } else { 1 },
        };
        (layers, offset, extent)
    }
}

impl Image {
    fn new(device: &Arc<Device>, create: &vk::ImageCreateInfo<'_>) -> Result<Self> {
        // SAFETY: `takes` said that the device makes such images.
        let raw =
            unsafe { device.raw.create_image(create, None) }.map_err(failed("make an image"))?;
        let mut image = Self {
            device: Arc::clone(device),
            raw,
            memory: vk::DeviceMemory::null(),
        };
        // SAFETY: an image of this device.
        let needs = unsafe { device.raw.get_image_memory_requirements(raw) };
        let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let bits = needs.memory_type_bits;
        let kind = device
            .memory_type(bits, local)
            .or_else(|| device.memory_type(bits, vk::MemoryPropertyFlags::empty()));
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(kind.ok_or(NO_FORMAT)?);
        // SAFETY: a type that the device has.
        image.memory = unsafe { device.raw.allocate_memory(&allocate, None) }
            .map_err(failed("allocate memory"))?;
        // SAFETY: memory of the size and kind that the image asked for.
        unsafe { device.raw.bind_image_memory(raw, image.memory, 0) }
            .map_err(failed("bind memory"))?;
        Ok(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the backend waited for its last use before it dropped the image.
        unsafe { self.device.raw.destroy_image(self.raw, None) };
        // SAFETY: as above.
        unsafe { self.device.raw.free_memory(self.memory, None) };
    }
}

fn describe(
    texture: &Texture,
    format: vk::Format,
    host_copy: bool,
) -> vk::ImageCreateInfo<'static> {
    let kind = match texture.dimension {
        Dimension::Buffer | Dimension::D1 | Dimension::D1Array => vk::ImageType::TYPE_1D,
        Dimension::D3 => vk::ImageType::TYPE_3D,
        _ => vk::ImageType::TYPE_2D,
    };
    let is_cube = matches!(texture.dimension, Dimension::Cube | Dimension::CubeArray);
    let mut usage = vk::ImageUsageFlags::TRANSFER_SRC
        | vk::ImageUsageFlags::TRANSFER_DST
        | vk::ImageUsageFlags::SAMPLED;
    if host_copy {
        usage |= vk::ImageUsageFlags::HOST_TRANSFER_EXT;
    }
    vk::ImageCreateInfo::default()
        .flags(if is_cube {
            vk::ImageCreateFlags::CUBE_COMPATIBLE
        } else {
            vk::ImageCreateFlags::empty()
        })
        .image_type(kind)
        .format(format)
        .extent(vk::Extent3D {
            width: texture.width,
            height: texture.height,
            depth: texture.depth,
        })
        .mip_levels(texture.levels)
        .array_layers(texture.layers)
        .samples(vk::SampleCountFlags::TYPE_1)
        .tiling(vk::ImageTiling::OPTIMAL)
        .usage(usage)
        .initial_layout(vk::ImageLayout::UNDEFINED)
}

/// A format with such blocks. What the texels mean does not matter to a transfer.
fn format(format: Format) -> Option<vk::Format> {
    let sides = (format.block_width(), format.block_height());
    match (sides, format.block_bytes()) {
        ((1, 1), 1) => Some(vk::Format::R8_UNORM),
        ((1, 1), 2) => Some(vk::Format::R8G8_UNORM),
        ((1, 1), 4) => Some(vk::Format::R8G8B8A8_UNORM),
        ((1, 1), 8) => Some(vk::Format::R16G16B16A16_UINT),
        ((1, 1), 16) => Some(vk::Format::R32G32B32A32_UINT),
        ((4, 4), 8) => Some(vk::Format::BC1_RGBA_UNORM_BLOCK),
        ((4, 4), 16) => Some(vk::Format::BC3_UNORM_BLOCK),
        _ => None,
    }
}

const NO_FORMAT: Error = Error::Texture {
    reason: "a format or size that the device does not have",
};
