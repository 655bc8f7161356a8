//! Maps of memory that the CPU reads without its caches.
//!
//! A layer cannot see reads. What it can see is a buffer that transfers write, in memory that the CPU
//! can see but does not cache, and a map of it: that is read, and 40-87 times slower than it need be.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use core::ffi::c_void;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use ash::vk;
use ash::vk::Handle;
use towpath_ledger::Outcome;

use super::NO_DEVICE;
use crate::abi;
use crate::device::{self, Device};
use crate::lock::Lock;
use crate::record::{At, start};
use crate::wall;

/// Buffers and memory that a finding may come of. Programs bind and map in the middle of frames: while
/// there is nothing to find, no lock is taken.
#[derive(Debug)]
pub(crate) struct Memories {
    types: Vec<vk::MemoryPropertyFlags>,
    state: Lock<State>,
    // Sizes of the sets below, and how much memory has such a buffer. Relaxed: Vulkan has the program
    // order the making of an object before its use.
    readback_buffers: AtomicUsize,
    uncached: AtomicUsize,
    to_find: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// Buffers that transfers write, which nothing else of the GPU reads.
    readback_buffers: BTreeSet<u64>,
    /// Uncached memory: its size, and whether such a buffer is bound to it.
    uncached: BTreeMap<u64, (u64, bool)>,
    /// How much of it has one.
    bound: usize,
}

impl State {
    fn forget(&mut self, memory: u64) {
        if let Some((_, true)) = self.uncached.remove(&memory) {
            self.bound -= 1;
        }
    }
}

impl Memories {
    pub(crate) fn new(types: Vec<vk::MemoryPropertyFlags>) -> Self {
        Self {
            types,
            state: Lock::default(),
            readback_buffers: AtomicUsize::new(0),
            uncached: AtomicUsize::new(0),
            to_find: AtomicUsize::new(0),
        }
    }

    fn change(&self, work: impl FnOnce(&mut State)) {
        self.state.with(|state| {
            work(state);
            self.to_find.store(state.bound, Ordering::Relaxed);
            self.uncached.store(state.uncached.len(), Ordering::Relaxed);
            self.readback_buffers
                .store(state.readback_buffers.len(), Ordering::Relaxed);
        });
    }

    /// Size and whether a readback buffer is bound, of uncached memory.
    fn find(&self, memory: vk::DeviceMemory) -> Option<(u64, bool)> {
        if is_zero(&self.to_find) {
            return None;
        }
        self.state
            .with(|state| state.uncached.get(&memory.as_raw()).copied())
    }

    fn is_uncached(&self, index: u32) -> bool {
        let flags = usize::try_from(index)
            .ok()
            .and_then(|index| self.types.get(index));
        flags.is_some_and(|flags| {
            flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE)
                && !flags.contains(vk::MemoryPropertyFlags::HOST_CACHED)
        })
    }

    fn bound(&self, buffer: vk::Buffer, memory: vk::DeviceMemory) {
        if is_zero(&self.readback_buffers) || is_zero(&self.uncached) {
            return;
        }
        self.change(|state| {
            if state.readback_buffers.contains(&buffer.as_raw())
                && let Some(found) = state.uncached.get_mut(&memory.as_raw())
                && !std::mem::replace(&mut found.1, true)
            {
                state.bound += 1;
            }
        });
    }
}

fn is_zero(count: &AtomicUsize) -> bool {
    count.load(Ordering::Relaxed) == 0
}

/// `vkAllocateMemory`.
pub(crate) unsafe extern "system" fn allocate(
    handle: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DeviceMemory,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.allocate_memory) else {
        return NO_DEVICE;
    };
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, info, alloc, out) };
    if let (vk::Result::SUCCESS, Some(info), Some(made)) = (answer, abi::get(info), abi::get(out)) {
        wall::beside(|| {
            if device.memories.is_uncached(info.memory_type_index) {
                let entry = (info.allocation_size, false);
                device.memories.change(|state| {
                    state.forget(made.as_raw());
                    state.uncached.insert(made.as_raw(), entry);
                });
            }
        });
    }
    answer
}

/// `vkFreeMemory`.
pub(crate) unsafe extern "system" fn free(
    handle: vk::Device,
    memory: vk::DeviceMemory,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    if let Some((device, next)) = device::next(handle, |next| next.free_memory) {
        if !is_zero(&device.memories.uncached) {
            wall::beside(|| {
                device
                    .memories
                    .change(|state| state.forget(memory.as_raw()));
            });
        }
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(handle, memory, alloc) };
    }
}

/// `vkMapMemory`.
pub(crate) unsafe extern "system" fn map(
    handle: vk::Device,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    flags: vk::MemoryMapFlags,
    out: *mut *mut c_void,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.map_memory) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, memory, offset, size, flags, out) };
    wall::beside(|| {
        if let Some((whole, true)) = device.memories.find(memory) {
            let bytes = if size == vk::WHOLE_SIZE {
                whole.saturating_sub(offset)
            } else {
                size
            };
            device
                .recorder
                .call(At::MapUncached, started, bytes, Outcome::Observed);
        }
    });
    answer
}

/// `vkCreateBuffer`.
pub(crate) unsafe extern "system" fn create_buffer(
    handle: vk::Device,
    info: *const vk::BufferCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Buffer,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_buffer) else {
        return NO_DEVICE;
    };
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, info, alloc, out) };
    if let (vk::Result::SUCCESS, Some(info), Some(made)) = (answer, abi::get(info), abi::get(out))
        && is_readback(info)
    {
        wall::beside(|| {
            device.memories.change(|state| {
                state.readback_buffers.insert(made.as_raw());
            });
        });
    }
    answer
}

/// A buffer that also feeds the GPU is more likely an upload buffer.
fn is_readback(info: &vk::BufferCreateInfo<'_>) -> bool {
    // Where it is in the chain, the field of old counts for nothing.
    let wide = abi::chained::<vk::BufferUsageFlags2CreateInfoKHR<'_>>(info.p_next);
    let usage = wide.map_or(u64::from(info.usage.as_raw()), |wide| wide.usage.as_raw());
    usage == u64::from(vk::BufferUsageFlags::TRANSFER_DST.as_raw())
}

/// `vkDestroyBuffer`.
pub(crate) unsafe extern "system" fn destroy_buffer(
    handle: vk::Device,
    buffer: vk::Buffer,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    if let Some((device, next)) = device::next(handle, |next| next.destroy_buffer) {
        if !is_zero(&device.memories.readback_buffers) {
            wall::beside(|| {
                device.memories.change(|state| {
                    state.readback_buffers.remove(&buffer.as_raw());
                });
            });
        }
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(handle, buffer, alloc) };
    }
}

/// `vkBindBufferMemory`.
pub(crate) unsafe extern "system" fn bind_buffer(
    handle: vk::Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.bind_buffer) else {
        return NO_DEVICE;
    };
    wall::beside(|| device.memories.bound(buffer, memory));
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, buffer, memory, offset) }
}

/// `vkBindBufferMemory2`.
pub(crate) unsafe extern "system" fn bind_buffer2(
    handle: vk::Device,
    count: u32,
    infos: *const vk::BindBufferMemoryInfo<'_>,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.bind_buffer2) else {
        return NO_DEVICE;
    };
    wall::beside(|| bound_all(device, abi::list(infos, count)));
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, count, infos) }
}

fn bound_all(device: &Device, infos: &[vk::BindBufferMemoryInfo<'_>]) {
    for info in infos {
        device.memories.bound(info.buffer, info.memory);
    }
}
