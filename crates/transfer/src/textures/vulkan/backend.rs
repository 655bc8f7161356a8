//! The backend: which way a transfer takes on this device.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::ffi::c_void;
use std::sync::Arc;

use ash::vk;
use towpath_memory::view::View;
use towpath_memory::volatile::VolatileBytes;

use super::super::backend::{Backend, Copied, Source};
use super::super::backing::{Backing, Memory};
use super::super::error::Result;
use super::super::gather::Stores;
use super::super::plan::{Direction, Lines, Plan};
use super::super::shape::Texture;
use super::commands::{record, slot};
use super::device::Device;
use super::failed;
use super::image::{Held, VulkanImage};
use super::import::{Handle, Import};
use super::regions::Regions;
use super::staging::Slot;

/// Which ways may be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ways {
    /// Import views.
    pub import: bool,
    /// Let the processor write images from views.
    pub host_image_copy: bool,
    /// Import the guest's memory whole and let the device fetch from the pieces. The memory then stays
    /// mapped until [`Vulkan::forget_memory`].
    pub regions: bool,
}

impl Default for Ways {
    /// Imports; no writing by the processor, which may slow the image's later use; no import of all memory.
    fn default() -> Self {
        Self {
            import: true,
            host_image_copy: false,
            regions: false,
        }
    }
}

/// What happened to views.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Imports made.
    pub imported: u64,
    /// Imports that the driver refused.
    pub refused: u64,
    /// Transfers whose strides or offset the device does not take from an import.
    pub unfit: u64,
    /// Transfers written by the processor.
    pub host_copied: u64,
    /// Transfers fetched from pieces by the device.
    pub regions: u64,
}

/// A mapping of a guest's memory, imported whole; `None` if the driver refused. The import goes first.
struct Imported {
    import: Option<Import>,
    range: (usize, usize),
    memory: Arc<dyn Memory>,
}

/// Textures of a Vulkan device. For one thread.
pub struct Vulkan {
    pub(super) slots: [Slot; 2],
    pub(super) next: usize,
    imports: Vec<(u64, Option<Import>)>,
    memories: Vec<Imported>,
    regions: Regions,
    ways: Ways,
    counts: Counts,
    pub(super) device: Arc<Device>,
}

impl std::fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vulkan")
            .field("device", &self.device)
            .field("ways", &self.ways)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Vulkan {
    /// A backend on a device.
    ///
    /// # Errors
    ///
    /// [`Error::Device`](super::super::Error::Device).
    pub fn new(device: Device, ways: Ways) -> Result<Self> {
        Self::on(Arc::new(device), ways)
    }

    /// A backend on a device that others use too, all from one thread.
    ///
    /// # Errors
    ///
    /// [`Error::Device`](super::super::Error::Device).
    pub fn on(device: Arc<Device>, ways: Ways) -> Result<Self> {
        Ok(Self {
            slots: [Slot::new(&device)?, Slot::new(&device)?],
            next: 0,
            imports: Vec::new(),
            memories: Vec::new(),
            regions: Regions::default(),
            ways,
            counts: Counts::default(),
            device,
        })
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// What happened to views.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Changes which ways may be taken from now on; images made before keep theirs.
    pub const fn set_ways(&mut self, ways: Ways) {
        self.ways = ways;
    }

    /// Lets go of imports of guest memory that was taken away, after waiting for their use.
    ///
    /// # Errors
    ///
    /// [`Error::Device`](super::super::Error::Device); they are gone all the same.
    pub fn forget_memory(&mut self, memory: &Arc<dyn Memory>) -> Result<()> {
        let finished = self.finish();
        self.memories
            .retain(|known| !Arc::ptr_eq(&known.memory, memory));
        finished
    }

    /// The import of the mapping in which the backing's first run lies, made at its first use.
    fn whole(&mut self, backing: &Backing) -> Option<(vk::Buffer, (usize, usize))> {
        let memory = backing.memory();
        let first = backing.runs().first()?;
        let known = self.memories.iter().find(|known| {
            let (from, to) = known.range;
            Arc::ptr_eq(&known.memory, memory) && (from..to).contains(&first.address())
        });
        if let Some(known) = known {
            return Some((known.import.as_ref()?.raw, known.range));
        }
        let mapping = memory.mapping(first)?;
        let start = mapping.as_ptr().addr();
        // SAFETY: the entry keeps `memory`, which keeps the mapping, longer than the import.
        let import = unsafe { Import::new(&self.device, Handle::Host(mapping)) }.ok();
        match import {
            Some(_) => self.counts.imported += 1,
            None => self.counts.refused += 1,
        }
        let known = Imported {
            import,
            range: (start, start + mapping.len()),
            memory: Arc::clone(memory),
        };
        let found = known
            .import
            .as_ref()
            .map(|import| (import.raw, known.range));
        self.memories.push(known);
        found
    }

    /// The upload from the pieces by the device; `None` if it cannot name them.
    fn fetch(
        &mut self,
        image: &VulkanImage,
        plan: &Plan,
        backing: &Backing,
    ) -> Result<Option<Copied>> {
        let Some((buffer, range)) = self.whole(backing) else {
            return Ok(None);
        };
        let is_good = match &image.held {
            Held::Buffer(_) => self.regions.of_buffer(plan, backing, range),
            Held::Image(_) => self.regions.of_image(plan, image, backing, range),
        };
        if !is_good {
            self.counts.unfit += 1;
            return Ok(None);
        }
        let slot = slot(&mut self.slots, &mut self.next);
        slot.begin()?;
        let (raw, commands) = (&self.device.raw, slot.commands);
        let general = vk::ImageLayout::GENERAL;
        let (bytes, texels) = (&self.regions.bytes, &self.regions.texels);
        match &image.held {
            Held::Buffer(held) => {
                // SAFETY: every region lies inside both, by the plan and by `range`.
                unsafe { raw.cmd_copy_buffer(commands, buffer, held.raw, bytes) };
            }
            Held::Image(held) => {
                // SAFETY: as above.
                unsafe {
                    raw.cmd_copy_buffer_to_image(commands, buffer, held.raw, general, texels);
                };
            }
        }
        slot.submit()?;
        self.counts.regions += 1;
        Ok(Some(Copied {
            by_cpu: 0,
            imported: true,
        }))
    }

    /// Copies `len` bytes of an import into `target`: shows what the device sees of the memory.
    ///
    /// # Errors
    ///
    /// [`Error::Device`](super::super::Error::Device).
    pub fn read_import(&mut self, import: &Import, target: &mut [u8]) -> Result<()> {
        let len = import.len().min(target.len() as u64);
        let slot = slot(&mut self.slots, &mut self.next);
        let staging = slot.staging(len)?.raw;
        slot.begin()?;
        let region = [vk::BufferCopy::default().size(len)];
        // SAFETY: both buffers hold `len` bytes.
        unsafe {
            self.device
                .raw
                .cmd_copy_buffer(slot.commands, import.raw, staging, &region);
        };
        slot.submit()?;
        slot.wait()?;
        slot.staging(len)?.bytes().copy_to(target);
        Ok(())
    }

    /// The import of a view, made at its first use; `None` if it cannot be.
    fn import(&mut self, view: &View, id: u64) -> Option<vk::Buffer> {
        if let Some((_, import)) = self.imports.iter().find(|(known, _)| *known == id) {
            return import.as_ref().map(|import| import.raw);
        }
        let handle = match view.dma_buf() {
            Some(fd) => Handle::DmaBuf(fd, view.pages().len() as u64),
            None => Handle::Host(view.pages()),
        };
        // SAFETY: the engine keeps the view until it has called `forget` with this number.
        let made = unsafe { Import::new(&self.device, handle) }.ok();
        match made {
            Some(_) => self.counts.imported += 1,
            None => self.counts.refused += 1,
        }
        let raw = made.as_ref().map(|import| import.raw);
        self.imports.push((id, made));
        raw
    }

    /// Where in a view's pages the plan's first row lies, in rows and layers of texels, if the device can
    /// copy from there.
    fn fit(view: &View, plan: &Plan, guest: &Lines) -> Option<(u64, u32, u32)> {
        let (row, height) = plan.texel_strides()?;
        let offset = guest.offset + view.skip() as u64;
        is_copyable(plan, offset).then_some((offset, row, height))
    }

    /// The transfer straight from or to the view, by the device or by the processor; `None` if neither
    /// can.
    fn direct(
        &mut self,
        image: &VulkanImage,
        plan: &Plan,
        view: &View,
        guest: &Lines,
        id: u64,
    ) -> Result<Option<Copied>> {
        let Some((offset, row, height)) = Self::fit(view, plan, guest) else {
            self.counts.unfit += 1;
            return Ok(None);
        };
        if self.ways.host_image_copy && image.host_copy {
            self.finish()?;
            let from = view.bytes();
            self.write_by_processor(image, plan, &from, guest.offset, (row, height))?;
            self.counts.host_copied += 1;
            return Ok(Some(Copied {
                by_cpu: plan.payload(),
                imported: false,
            }));
        }
        if !self.ways.import {
            return Ok(None);
        }
        let Some(buffer) = self.import(view, id) else {
            return Ok(None);
        };
        self.copy(image, plan, buffer, offset, (row, height))?;
        if plan.direction == Direction::Download {
            self.finish()?;
        }
        Ok(Some(Copied {
            by_cpu: 0,
            imported: true,
        }))
    }

    fn write_by_processor(
        &self,
        image: &VulkanImage,
        plan: &Plan,
        bytes: &VolatileBytes<'_>,
        offset: u64,
        strides: (u32, u32),
    ) -> Result<()> {
        let (Some(calls), Held::Image(held)) = (&self.device.copy, &image.held) else {
            return Ok(());
        };
        let (layers, at, extent) = image.place(plan);
        let start = usize::try_from(offset).unwrap_or(0);
        let pointer: *mut c_void = bytes.as_ptr().wrapping_add(start).cast();
        let layout = vk::ImageLayout::GENERAL;
        if plan.direction == Direction::Download {
            let regions = [vk::ImageToMemoryCopyEXT::default()
                .host_pointer(pointer)
                .memory_row_length(strides.0)
                .memory_image_height(strides.1)
                .image_subresource(layers)
                .image_offset(at)
                .image_extent(extent)];
            let info = vk::CopyImageToMemoryInfoEXT::default()
                .src_image(held.raw)
                .src_image_layout(layout)
                .regions(&regions);
            // SAFETY: the plan's rows lie inside the view; the image is idle and in this layout.
            return unsafe { calls.copy_image_to_memory(&info) }
                .map_err(failed("read an image by the processor"));
        }
        let regions = [vk::MemoryToImageCopyEXT::default()
            .host_pointer(pointer.cast_const())
            .memory_row_length(strides.0)
            .memory_image_height(strides.1)
            .image_subresource(layers)
            .image_offset(at)
            .image_extent(extent)];
        let info = vk::CopyMemoryToImageInfoEXT::default()
            .dst_image(held.raw)
            .dst_image_layout(layout)
            .regions(&regions);
        // SAFETY: as above.
        unsafe { calls.copy_memory_to_image(&info) }
            .map_err(failed("write an image by the processor"))
    }

    /// The transfer through staging memory.
    fn staged(
        &mut self,
        image: &VulkanImage,
        plan: &Plan,
        source: Source<'_>,
        stores: Stores,
    ) -> Result<Copied> {
        let packed = plan.guest.packed();
        let slot_now = slot(&mut self.slots, &mut self.next);
        let staging = slot_now.staging(plan.payload())?;
        let buffer = staging.raw;
        if plan.direction == Direction::Upload {
            let memory = staging.bytes();
            source.copy(plan, &memory, &packed, stores)?;
        }
        record(&self.device, slot_now, image, plan, buffer, 0, (0, 0))?;
        if plan.direction == Direction::Download {
            slot_now.wait()?;
            let memory = slot_now.staging(plan.payload())?.bytes();
            source.copy(plan, &memory, &packed, stores)?;
        }
        Ok(Copied {
            by_cpu: plan.payload(),
            imported: false,
        })
    }

    fn copy(
        &mut self,
        image: &VulkanImage,
        plan: &Plan,
        buffer: vk::Buffer,
        offset: u64,
        strides: (u32, u32),
    ) -> Result<()> {
        let slot = slot(&mut self.slots, &mut self.next);
        record(&self.device, slot, image, plan, buffer, offset, strides)
    }
}

impl Backend for Vulkan {
    type Image = VulkanImage;

    fn create(&mut self, texture: &Texture) -> Result<VulkanImage> {
        let image = VulkanImage::new(&self.device, texture, self.ways.host_image_copy)?;
        let is_odd = matches!(&image.held, Held::Buffer(buffer) if buffer.len % 4 != 0);
        self.clear(&image, texture)?;
        if texture.format.block_width() > 1 || is_odd {
            self.zero(&image, texture)?;
        }
        Ok(image)
    }

    fn destroy(&mut self, image: VulkanImage) {
        // A lost device has nothing in flight.
        let _lost = self.finish();
        drop(image);
    }

    fn transfer(
        &mut self,
        image: &mut VulkanImage,
        plan: &Plan,
        source: Source<'_>,
        stores: Stores,
    ) -> Result<Copied> {
        if plan.payload() == 0 {
            return Ok(Copied::default());
        }
        if let Source::View { view, offset, id } = source {
            let guest = plan.guest.from_offset(offset);
            if let Some(copied) = self.direct(image, plan, view, &guest, id)? {
                return Ok(copied);
            }
        }
        // A guest's pages may be in a list twice: regions of a download would overlap then.
        let is_upload = plan.direction == Direction::Upload;
        if let Source::Pieces(backing) = source
            && self.ways.regions
            && is_upload
            && let Some(copied) = self.fetch(image, plan, backing)?
        {
            return Ok(copied);
        }
        self.staged(image, plan, source, stores)
    }

    fn finish(&mut self) -> Result<()> {
        self.slots.iter_mut().try_for_each(Slot::wait)
    }

    fn forget(&mut self, id: u64) {
        if let Some(index) = self.imports.iter().position(|(known, _)| *known == id) {
            // As in `destroy`.
            let _lost = self.finish();
            self.imports.swap_remove(index);
        }
    }

    fn reads_by_cpu(&self) -> bool {
        false
    }

    fn can_import(&self, plan: &Plan) -> bool {
        let offer = self.device.offer();
        let is_offered = offer.host_import.is_some() || offer.dma_buf_import;
        // A driver that took none so far will take none.
        let is_refused = self.counts.refused > 0 && self.counts.imported == 0;
        let may = self.ways.import && !self.ways.host_image_copy && is_offered && !is_refused;
        may && is_copyable(plan, plan.guest.offset)
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // Imports must outlive their use; a lost device has nothing in flight.
        let _lost = self.finish();
    }
}

/// Whether the device can name rows that begin at `offset`.
fn is_copyable(plan: &Plan, offset: u64) -> bool {
    let is_aligned = offset.is_multiple_of(4) && offset.is_multiple_of(u64::from(plan.block_bytes));
    is_aligned && plan.texel_strides().is_some()
}
