//! Memory, buffers and images: real bytes behind maps, no meaning beyond.

use core::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use ash::vk;

use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::call;

/// Words, so that a map is aligned to 16 bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    words: Mutex<Vec<u128>>,
}

static MEMORY: Registry<Memory> = Registry::new(Kind::Memory);
static BUFFERS: Registry<u64> = Registry::new(Kind::Buffer);
/// Size in bytes of each image.
pub(crate) static IMAGES: Registry<u64> = Registry::new(Kind::Image);

pub(crate) extern "system" fn allocate(
    _device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DeviceMemory,
) -> vk::Result {
    let Some(info) = ffi::get(info) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    call!(
        "vkAllocateMemory",
        "bytes={} type={}",
        info.allocation_size,
        info.memory_type_index
    );
    let Ok(words) = usize::try_from(info.allocation_size.div_ceil(16)) else {
        return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
    };
    ffi::put(
        out,
        MEMORY.add(Memory {
            words: Mutex::new(vec![0; words]),
        }),
    );
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn free(
    _device: vk::Device,
    memory: vk::DeviceMemory,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkFreeMemory");
    MEMORY.remove("vkFreeMemory", memory);
}

pub(crate) extern "system" fn map(
    _device: vk::Device,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    _size: vk::DeviceSize,
    _flags: vk::MemoryMapFlags,
    out: *mut *mut c_void,
) -> vk::Result {
    call!("vkMapMemory");
    let Some(memory) = MEMORY.get("vkMapMemory", memory) else {
        return vk::Result::ERROR_MEMORY_MAP_FAILED;
    };
    let mut words = memory.words.lock().unwrap_or_else(PoisonError::into_inner);
    let start = words.as_mut_ptr().cast::<u8>();
    ffi::put(
        out,
        start
            .wrapping_add(usize::try_from(offset).unwrap_or(0))
            .cast(),
    );
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn unmap(_device: vk::Device, memory: vk::DeviceMemory) {
    call!("vkUnmapMemory");
    let _checked = MEMORY.get("vkUnmapMemory", memory);
}

pub(crate) extern "system" fn flush(
    _device: vk::Device,
    _count: u32,
    _ranges: *const vk::MappedMemoryRange<'_>,
) -> vk::Result {
    call!("vkFlushMappedMemoryRanges");
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn invalidate(
    _device: vk::Device,
    _count: u32,
    _ranges: *const vk::MappedMemoryRange<'_>,
) -> vk::Result {
    call!("vkInvalidateMappedMemoryRanges");
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn create_buffer(
    _device: vk::Device,
    info: *const vk::BufferCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Buffer,
) -> vk::Result {
    call!("vkCreateBuffer");
    ffi::put(out, BUFFERS.add(ffi::get(info).map_or(0, |info| info.size)));
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy_buffer(
    _device: vk::Device,
    buffer: vk::Buffer,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyBuffer");
    BUFFERS.remove("vkDestroyBuffer", buffer);
}

fn requirements(size: u64) -> vk::MemoryRequirements {
    vk::MemoryRequirements {
        size: size.next_multiple_of(256).max(256),
        alignment: 256,
        memory_type_bits: 0b111,
    }
}

pub(crate) extern "system" fn buffer_requirements(
    _device: vk::Device,
    buffer: vk::Buffer,
    out: *mut vk::MemoryRequirements,
) {
    let size = BUFFERS
        .get("vkGetBufferMemoryRequirements", buffer)
        .map_or(0, |size| *size);
    ffi::put(out, requirements(size));
}

pub(crate) extern "system" fn bind_buffer(
    _device: vk::Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    _offset: vk::DeviceSize,
) -> vk::Result {
    let _checked = BUFFERS.get("vkBindBufferMemory", buffer);
    let _checked = MEMORY.get("vkBindBufferMemory", memory);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn create_image(
    _device: vk::Device,
    info: *const vk::ImageCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Image,
) -> vk::Result {
    call!("vkCreateImage");
    let size = ffi::get(info).map_or(0, |info| {
        u64::from(info.extent.width)
            * u64::from(info.extent.height)
            * u64::from(info.extent.depth)
            * 4
    });
    ffi::put(out, IMAGES.add(size));
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy_image(
    _device: vk::Device,
    image: vk::Image,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyImage");
    IMAGES.remove("vkDestroyImage", image);
}

pub(crate) extern "system" fn image_requirements(
    _device: vk::Device,
    image: vk::Image,
    out: *mut vk::MemoryRequirements,
) {
    let size = IMAGES
        .get("vkGetImageMemoryRequirements", image)
        .map_or(0, |size| *size);
    ffi::put(out, requirements(size));
}

pub(crate) extern "system" fn bind_image(
    _device: vk::Device,
    image: vk::Image,
    memory: vk::DeviceMemory,
    _offset: vk::DeviceSize,
) -> vk::Result {
    let _checked = IMAGES.get("vkBindImageMemory", image);
    let _checked = MEMORY.get("vkBindImageMemory", memory);
    vk::Result::SUCCESS
}
