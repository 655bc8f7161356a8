//! Many regions: the device fetches a texture's bytes from the guest's memory piece by piece.
//!
//! The guest's memory is imported once, as it is mapped, and one copy command names every stretch of a row that
//! lies in one piece. Nothing is mapped for it and the processor touches no byte; the device works through as
//! many regions as there are pieces. A stretch that does not begin and end at whole texels cannot be named, and
//! the caller gathers.

use ash::vk;

use super::super::backing::Backing;
use super::super::plan::{Lines, Plan};
use super::image::VulkanImage;

/// Regions of one transfer; kept for the next.
#[derive(Default)]
pub(super) struct Regions {
    /// For images.
    pub(super) texels: Vec<vk::BufferImageCopy>,
    /// For buffers.
    pub(super) bytes: Vec<vk::BufferCopy>,
}

/// More would cost the driver more than a copy costs us.
const REGIONS_MAX: usize = 8192;

/// A stretch of a row in one piece: where it lies in the import, and in the row.
#[derive(Clone, Copy)]
struct Stretch {
    offset: u64,
    layer: u64,
    row: u64,
    /// First byte of the row, and bytes.
    at: u64,
    len: u64,
}

impl Regions {
    /// The regions of `plan` between an import that begins at address `base` and a buffer.
    pub(super) fn of_buffer(
        &mut self,
        plan: &Plan,
        backing: &Backing,
        range: (usize, usize),
    ) -> bool {
        self.bytes.clear();
        let bytes = &mut self.bytes;
        stretches(&plan.guest, backing, range, |stretch| {
            let place = plan.image.row(stretch.layer, stretch.row) + stretch.at;
            bytes.push(
                vk::BufferCopy::default()
                    .src_offset(stretch.offset)
                    .dst_offset(place)
                    .size(stretch.len),
            );
            bytes.len() <= REGIONS_MAX
        })
    }

    /// The regions of `plan` between an import and an image; `false` if some stretch cannot be named.
    pub(super) fn of_image(
        &mut self,
        plan: &Plan,
        image: &VulkanImage,
        backing: &Backing,
        range: (usize, usize),
    ) -> bool {
        self.texels.clear();
        let texels = &mut self.texels;
        let (layers, first, _) = image.place(plan);
        let block = u64::from(plan.block_bytes.max(1));
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        stretches(&plan.guest, backing, range, |stretch| {
            let is_whole = stretch.at.is_multiple_of(block) && stretch.len.is_multiple_of(block);
            let is_aligned = stretch.offset.is_multiple_of(block.max(4));
            if !is_whole || !is_aligned || !block.max(4).is_multiple_of(block) {
                return false;
            }
            let x = narrow(stretch.at / block) * plan.block_width;
            let y = narrow(stretch.row) * plan.block_height;
            // Blocks at the level's edge reach past it.
            let width = (narrow(stretch.len / block) * plan.block_width).min(plan.region.width - x);
            let height = plan.block_height.min(plan.region.height - y);
            let is_block = image.is_block();
            let layer = narrow(stretch.layer);
            let subresource = if is_block {
                layers
            } else {
                layers
                    .base_array_layer(plan.region.z + layer)
                    .layer_count(1)
            };
            texels.push(
                vk::BufferImageCopy::default()
                    .buffer_offset(stretch.offset)
                    .image_subresource(subresource)
                    .image_offset(vk::Offset3D {
                        x: first.x + x.cast_signed(),
                        y: first.y + y.cast_signed(),
                        z: first.z + if is_block { layer.cast_signed() } else { 0 },
                    })
                    .image_extent(vk::Extent3D {
                        width,
                        height,
                        depth: 1,
                    }),
            );
            texels.len() <= REGIONS_MAX
        })
    }
}

/// Hands every stretch of every row to `add`, until that says `false`, which is the answer then. `range` is what
/// is imported: addresses from the first up to the second.
fn stretches(
    lines: &Lines,
    backing: &Backing,
    (base, end): (usize, usize),
    mut add: impl FnMut(Stretch) -> bool,
) -> bool {
    let mut cursor = backing.cursor();
    let mut is_good = true;
    for layer in 0..lines.layers {
        for row in 0..lines.rows {
            let mut at = 0;
            let fits = cursor.visit(lines.row(layer, row), lines.row_bytes, |part| {
                let (start, len) = (part.bytes.as_ptr().addr(), part.bytes.len());
                let is_inside = start >= base && start.checked_add(len).is_some_and(|to| to <= end);
                is_good = is_good
                    && is_inside
                    && add(Stretch {
                        offset: (start - base.min(start)) as u64,
                        layer,
                        row,
                        at,
                        len: len as u64,
                    });
                at += len as u64;
            });
            if !fits || !is_good {
                return false;
            }
        }
    }
    true
}
