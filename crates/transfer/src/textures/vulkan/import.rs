//! Memory of the process or of a dma-buf as a buffer of the device, without a copy.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::ffi::c_void;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _};
use std::sync::Arc;

use ash::vk;
use towpath_memory::volatile::VolatileBytes;

use super::super::error::{Error, Result};
use super::device::Device;
use super::failed;

/// What is imported.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the two that Linux has")]
pub enum Handle<'a> {
    /// Pages of the process, whole ones.
    Host(VolatileBytes<'a>),
    /// A dma-buf of so many bytes.
    DmaBuf(BorrowedFd<'a>, u64),
}

/// A buffer of the device over somebody's memory.
pub struct Import {
    device: Arc<Device>,
    pub(super) raw: vk::Buffer,
    memory: vk::DeviceMemory,
    len: u64,
}

impl std::fmt::Debug for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Import {
    /// Imports memory. The driver pins its pages until the import is dropped.
    ///
    /// # Cost
    ///
    /// On an NVIDIA H200 about 75 us per MiB (research, section 8), so keep imports.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] with the driver's code; code 0 where the device has no such import or the memory
    /// does not consist of whole blocks of the device's alignment.
    ///
    /// # Safety
    ///
    /// The memory stays mapped until the import is dropped.
    pub unsafe fn new(device: &Arc<Device>, handle: Handle<'_>) -> Result<Self> {
        match handle {
            Handle::Host(bytes) => Self::of_host(device, bytes),
            Handle::DmaBuf(fd, len) => Self::of_dma_buf(device, fd, len),
        }
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn of_host(device: &Arc<Device>, bytes: VolatileBytes<'_>) -> Result<Self> {
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let host = device.host.as_ref().ok_or(NOT_OFFERED)?;
        let unit = device.offer().host_import.unwrap_or(1).max(1);
        let (start, len) = (bytes.as_ptr().addr() as u64, bytes.len() as u64);
        if len == 0 || !start.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(NOT_ALIGNED);
        }
        let pointer: *mut c_void = bytes.as_ptr().cast();
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let ask = host.fp().get_memory_host_pointer_properties_ext;
        // SAFETY: mapped memory, whole blocks of the device's alignment.
        unsafe {
            ask(
                host.device(),
                kind,
                pointer.cast_const(),
                &raw mut properties,
            )
        }
        .result()
        .map_err(failed("look at host memory"))?;
        let mut info = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(kind)
            .host_pointer(pointer);
        Self::bind(device, len, kind, properties.memory_type_bits, &mut info)
    }

    fn of_dma_buf(device: &Arc<Device>, fd: BorrowedFd<'_>, len: u64) -> Result<Self> {
        let kind = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
        let calls = device.fd.as_ref().ok_or(NOT_OFFERED)?;
        let mut properties = vk::MemoryFdPropertiesKHR::default();
        // SAFETY: an open descriptor.
        unsafe { calls.get_memory_fd_properties(kind, fd.as_raw_fd(), &mut properties) }
            .map_err(failed("look at a dma-buf"))?;
        let own = fd.try_clone_to_owned().map_err(|source| Error::System {
            operation: "duplicate a descriptor",
            source,
        })?;
        let number = own.into_raw_fd();
        let mut info = vk::ImportMemoryFdInfoKHR::default()
            .handle_type(kind)
            .fd(number);
        let made = Self::bind(device, len, kind, properties.memory_type_bits, &mut info);
        if made.is_err() {
            // A driver that refuses leaves the descriptor to us. One that took it and failed later in
            // `bind` has closed it with the memory; closing a number twice would be worse than a leak,
            // so it is closed only where the allocation itself was refused.
            if matches!(&made, Err(Error::Device { operation, .. }) if *operation == IMPORT) {
                // SAFETY: the number is ours and nobody else's.
                let _closed = unsafe { libc::close(number) };
            }
        }
        made
    }

    fn bind<T: vk::ExtendsMemoryAllocateInfo>(
        device: &Arc<Device>,
        len: u64,
        kind: vk::ExternalMemoryHandleTypeFlags,
        bits: u32,
        info: &mut T,
    ) -> Result<Self> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(kind);
        let create = vk::BufferCreateInfo::default()
            .size(len)
            .usage(usage)
            .push_next(&mut external);
        // SAFETY: a whole structure; the handle type belongs to an extension that is on.
        let raw =
            unsafe { device.raw.create_buffer(&create, None) }.map_err(failed("make a buffer"))?;
        let mut import = Self {
            device: Arc::clone(device),
            raw,
            memory: vk::DeviceMemory::null(),
            len,
        };
        // SAFETY: a buffer of this device.
        let needs = unsafe { device.raw.get_buffer_memory_requirements(raw) };
        let both = bits & needs.memory_type_bits;
        let any = vk::MemoryPropertyFlags::empty();
        let index = device.memory_type(both, any).ok_or(Error::Device {
            operation: IMPORT,
            code: 0,
        })?;
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(len)
            .memory_type_index(index)
            .push_next(info);
        // SAFETY: the caller promises that the memory stays; size and type are what the driver named.
        import.memory =
            unsafe { device.raw.allocate_memory(&allocate, None) }.map_err(failed(IMPORT))?;
        // SAFETY: a type that both sides named.
        unsafe { device.raw.bind_buffer_memory(raw, import.memory, 0) }
            .map_err(failed("bind memory"))?;
        Ok(import)
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // SAFETY: the owner waited for its last use.
        unsafe { self.device.raw.destroy_buffer(self.raw, None) };
        // SAFETY: as above; the pages themselves are not ours.
        unsafe { self.device.raw.free_memory(self.memory, None) };
    }
}

const IMPORT: &str = "import memory";
const NOT_OFFERED: Error = Error::Device {
    operation: "import this kind of memory",
    code: 0,
};
const NOT_ALIGNED: Error = Error::Device {
    operation: "import memory that is not aligned",
    code: 0,
};
