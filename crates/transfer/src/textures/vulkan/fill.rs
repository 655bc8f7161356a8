//! New images: their layout, and zeros in them.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use ash::vk;

use super::super::error::Result;
use super::super::plan::{Direction, Plan, Region, Request};
use super::super::shape::Texture;
use super::backend::Vulkan;
use super::commands::{record, slot};
use super::image::{Held, VulkanImage};

impl Vulkan {
    /// Brings a new image into its one layout, with zeros in it.
    pub(super) fn clear(&mut self, image: &VulkanImage, texture: &Texture) -> Result<()> {
        let slot = slot(&mut self.slots, &mut self.next);
        slot.begin()?;
        let device = &self.device.raw;
        match &image.held {
            Held::Buffer(buffer) => {
                // Filled in words; `zero` writes what is left over.
                let whole = buffer.len / 4 * 4;
                if whole > 0 {
                    // SAFETY: inside the buffer, at whole words.
                    unsafe { device.cmd_fill_buffer(slot.commands, buffer.raw, 0, whole, 0) };
                }
            }
            Held::Image(held) => {
                let range = vk::ImageSubresourceRange::default()
                    .aspect_mask(vk::ImageAspectFlags::COLOR)
                    .level_count(vk::REMAINING_MIP_LEVELS)
                    .layer_count(vk::REMAINING_ARRAY_LAYERS);
                let barrier = [vk::ImageMemoryBarrier::default()
                    .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE)
                    .old_layout(vk::ImageLayout::UNDEFINED)
                    .new_layout(vk::ImageLayout::GENERAL)
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .image(held.raw)
                    .subresource_range(range)];
                let stage = vk::PipelineStageFlags::TRANSFER;
                let none = vk::DependencyFlags::empty();
                let start = vk::PipelineStageFlags::TOP_OF_PIPE;
                // SAFETY: recording was begun; the image is new.
                unsafe {
                    device.cmd_pipeline_barrier(
                        slot.commands,
                        start,
                        stage,
                        none,
                        &[],
                        &[],
                        &barrier,
                    );
                };
                if texture.format.block_width() == 1 {
                    let zero = vk::ClearColorValue { uint32: [0; 4] };
                    let general = vk::ImageLayout::GENERAL;
                    // SAFETY: a colour image in this layout.
                    unsafe {
                        device.cmd_clear_color_image(
                            slot.commands,
                            held.raw,
                            general,
                            &zero,
                            &[range],
                        );
                    };
                }
            }
        }
        slot.submit()
    }

    /// Writes zeros where no clear command reaches: blocks, and the end of a buffer.
    pub(super) fn zero(&mut self, image: &VulkanImage, texture: &Texture) -> Result<()> {
        for level in 0..texture.levels {
            let Some(extent) = texture.extent(level) else {
                continue;
            };
            let request = Request {
                level,
                region: Region {
                    x: 0,
                    y: 0,
                    z: 0,
                    width: extent.width,
                    height: extent.height,
                    depth: extent.layers,
                },
                offset: 0,
                stride: 0,
                layer_stride: 0,
                direction: Direction::Upload,
            };
            let plan = Plan::new(texture, &request, u64::MAX)?;
            let slot = slot(&mut self.slots, &mut self.next);
            let staging = slot.staging(plan.payload())?;
            staging.bytes().fill(0);
            let buffer = staging.raw;
            record(&self.device, slot, image, &plan, buffer, 0, (0, 0))?;
        }
        Ok(())
    }
}
