//! A buffer with memory of its own, mapped where the processor may see it.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use towpath_memory::volatile::VolatileBytes;

use super::super::error::{Error, Result};
use super::device::Device;
use super::failed;

/// A buffer and its memory.
pub(super) struct Buffer {
    device: Arc<Device>,
    pub(super) raw: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: Option<NonNull<u8>>,
    pub(super) len: u64,
}

// SAFETY: the mapping belongs to the process; Vulkan objects are used from one owner at a time.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of the device.
    pub(super) fn local(device: &Arc<Device>, len: u64) -> Result<Self> {
        let flags = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        Self::new(
            device,
            len,
            &[flags, vk::MemoryPropertyFlags::empty()],
            false,
        )
    }

    /// A buffer that the processor sees, cached if possible: downloads read it.
    pub(super) fn staging(device: &Arc<Device>, len: u64) -> Result<Self> {
        let visible =
            vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let cached = visible | vk::MemoryPropertyFlags::HOST_CACHED;
        Self::new(device, len, &[cached, visible], true)
    }

    fn new(
        device: &Arc<Device>,
        len: u64,
        kinds: &[vk::MemoryPropertyFlags],
        is_mapped: bool,
    ) -> Result<Self> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let create = vk::BufferCreateInfo::default().size(len).usage(usage);
        // SAFETY: a whole structure; a length over 0 is the callers' concern and checked by plans.
        let raw =
            unsafe { device.raw.create_buffer(&create, None) }.map_err(failed("make a buffer"))?;
        let mut buffer = Self {
            device: Arc::clone(device),
            raw,
            memory: vk::DeviceMemory::null(),
            mapped: None,
            len,
        };
        // SAFETY: a buffer of this device.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(raw) };
        let kind = kinds
            .iter()
            .find_map(|flags| device.memory_type(needs.memory_type_bits, *flags));
        let kind = kind.ok_or(NO_MEMORY)?;
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(kind);
        // SAFETY: a type that the device has.
        buffer.memory = unsafe { device.raw.allocate_memory(&allocate, None) }
            .map_err(failed("allocate memory"))?;
        // SAFETY: memory of the size and kind that the buffer asked for.
        unsafe { device.raw.bind_buffer_memory(raw, buffer.memory, 0) }
            .map_err(failed("bind memory"))?;
        if is_mapped {
            let flags = vk::MemoryMapFlags::empty();
            // SAFETY: host-visible memory of ours, mapped once.
            let start = unsafe { device.raw.map_memory(buffer.memory, 0, len, flags) };
            buffer.mapped = NonNull::new(start.map_err(failed("map memory"))?.cast());
        }
        Ok(buffer)
    }

    /// The bytes, if the processor sees them.
    pub(super) fn bytes(&self) -> VolatileBytes<'_> {
        let len = usize::try_from(self.len).unwrap_or(0);
        match self.mapped {
            // SAFETY: mapped for `len` bytes until `self` is dropped; no references are made.
            Some(start) => unsafe { VolatileBytes::new(start, len) },
            None => VolatileBytes::empty(),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the owner waited for its last use.
        unsafe { self.device.raw.destroy_buffer(self.raw, None) };
        // SAFETY: as above; freeing unmaps.
        unsafe { self.device.raw.free_memory(self.memory, None) };
    }
}

const NO_MEMORY: Error = Error::Device {
    operation: "find memory of the right kind",
    code: 0,
};
