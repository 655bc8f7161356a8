//! The program's own pipeline caches: bytes in, bytes out, and fetches that brought nothing new.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use ash::vk::Handle;
use towpath_ledger::{Counter, Outcome};

use super::NO_DEVICE;
use crate::abi;
use crate::device::{self, Device};
use crate::record::{self, At, Started, start};
use crate::wall;

/// What is known of each of the program's caches.
#[derive(Debug, Default)]
pub(crate) struct Caches(Mutex<BTreeMap<u64, Seen>>);

/// Sizes of one cache, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Of the data that the program read at creation or fetched last.
    saved: usize,
}

impl Caches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `vkCreatePipelineCache`.
pub(crate) unsafe extern "system" fn create(
    handle: vk::Device,
    info: *const vk::PipelineCacheCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::PipelineCache,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_cache) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, info, alloc, out) };
    wall::beside(|| {
        let size = abi::get(info).map_or(0, |info| info.initial_data_size);
        let bytes = u64::try_from(size).unwrap_or(u64::MAX);
        device
            .recorder
            .call(At::CreateCache, started, bytes, Outcome::Observed);
        record::count(Counter::CacheBytesRead, bytes);
        if let (vk::Result::SUCCESS, Some(made)) = (answer, abi::get(out)) {
            device
                .caches
                .lock()
                .insert(made.as_raw(), Seen { saved: size });
        }
    });
    answer
}

/// `vkDestroyPipelineCache`.
pub(crate) unsafe extern "system" fn destroy(
    handle: vk::Device,
    cache: vk::PipelineCache,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    if let Some((device, next)) = device::next(handle, |next| next.destroy_cache) {
        wall::beside(|| {
            device.caches.lock().remove(&cache.as_raw());
        });
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(handle, cache, alloc) };
    }
}

/// `vkGetPipelineCacheData`.
pub(crate) unsafe extern "system" fn data(
    handle: vk::Device,
    cache: vk::PipelineCache,
    size: *mut usize,
    out: *mut c_void,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.cache_data) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, cache, size, out) };
    if answer.as_raw() >= 0 {
        let size = abi::get(size).copied().unwrap_or(0);
        wall::beside(|| fetched(device, started, cache, size, out.is_null()));
    }
    answer
}

fn fetched(device: &Device, started: Started, cache: vk::PipelineCache, size: usize, asks: bool) {
    if asks {
        device
            .recorder
            .call(At::CacheSize, started, 0, Outcome::Observed);
        return;
    }
    let mut caches = device.caches.lock();
    let seen = caches.entry(cache.as_raw()).or_default();
    let before = std::mem::replace(&mut seen.saved, size);
    drop(caches);
    let bytes = u64::try_from(size).unwrap_or(u64::MAX);
    let at = if before == size {
        At::CacheUnchanged
    } else {
        At::CacheData
    };
    device.recorder.call(at, started, bytes, Outcome::Observed);
    record::count(Counter::CacheBytesFetched, bytes);
    if before == size {
        record::count(Counter::CacheBytesUnchanged, bytes);
    }
}

/// `vkMergePipelineCaches`.
pub(crate) unsafe extern "system" fn merge(
    handle: vk::Device,
    into: vk::PipelineCache,
    count: u32,
    from: *const vk::PipelineCache,
) -> vk::Result {
    let Some((_device, next)) = device::next(handle, |next| next.merge_caches) else {
        return NO_DEVICE;
    };
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, into, count, from) }
}
