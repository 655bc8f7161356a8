//! One copy between a buffer and an image, recorded and submitted.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use ash::vk;

use super::super::error::Result;
use super::super::plan::{Direction, Plan};
use super::device::Device;
use super::image::{Held, VulkanImage};
use super::staging::Slot;

/// The slot whose turn it is: the one submitted longest ago.
pub(super) fn slot<'a>(slots: &'a mut [Slot; 2], next: &mut usize) -> &'a mut Slot {
    let [first, second] = slots;
    *next ^= 1;
    if *next == 0 { first } else { second }
}

/// Records and submits one copy between a buffer and the image.
pub(super) fn record(
    device: &Device,
    slot: &mut Slot,
    image: &VulkanImage,
    plan: &Plan,
    buffer: vk::Buffer,
    offset: u64,
    strides: (u32, u32),
) -> Result<()> {
    slot.begin()?;
    let raw = &device.raw;
    let commands = slot.commands;
    match (&image.held, plan.direction) {
        (Held::Buffer(held), Direction::Upload) => {
            let region = [between(offset, plan.image.offset, plan.payload())];
            // SAFETY: the plan's bytes lie inside both.
            unsafe { raw.cmd_copy_buffer(commands, buffer, held.raw, &region) };
        }
        (Held::Buffer(held), Direction::Download) => {
            let region = [between(plan.image.offset, offset, plan.payload())];
            // SAFETY: as above.
            unsafe { raw.cmd_copy_buffer(commands, held.raw, buffer, &region) };
        }
        (Held::Image(held), direction) => {
            let (layers, at, extent) = image.place(plan);
            let region = [vk::BufferImageCopy::default()
                .buffer_offset(offset)
                .buffer_row_length(strides.0)
                .buffer_image_height(strides.1)
                .image_subresource(layers)
                .image_offset(at)
                .image_extent(extent)];
            let layout = vk::ImageLayout::GENERAL;
            if direction == Direction::Upload {
                // SAFETY: the plan's texels lie inside the level, its rows inside the buffer.
                unsafe {
                    raw.cmd_copy_buffer_to_image(commands, buffer, held.raw, layout, &region);
                };
            } else {
                // SAFETY: as above.
                unsafe {
                    raw.cmd_copy_image_to_buffer(commands, held.raw, layout, buffer, &region);
                };
            }
        }
    }
    slot.submit()
}

fn between(from: u64, to: u64, len: u64) -> vk::BufferCopy {
    vk::BufferCopy::default()
        .src_offset(from)
        .dst_offset(to)
        .size(len)
}
