//! The program's own pipeline caches: bytes in, bytes out, and fetches that brought nothing new.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use core::ffi::c_void;
use std::collections::BTreeMap;

use ash::vk;
use ash::vk::Handle;
use towpath_cache::policy::Mode;
use towpath_ledger::{Counter, Outcome};

use super::NO_DEVICE;
use crate::abi;
use crate::device::{self, Device};
use crate::fix::takeover::{self, HEADER};
use crate::lock::Lock;
use crate::record::{self, At, Started, start};
use crate::wall;

/// What is known of each of the program's caches.
#[derive(Debug, Default)]
pub(crate) struct Caches(Lock<BTreeMap<u64, Seen>>);

/// Sizes of one cache, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Of the data that the program read at creation or fetched last.
    saved: usize,
    /// Whether the driver's cache has entries of the program's own data (takeover, first start).
    holds_data: bool,
}

impl Caches {
    /// Whether a program's cache has entries that the store has not been loaded with.
    pub(crate) fn hold_data(&self, cache: vk::PipelineCache) -> bool {
        self.0
            .with(|all| all.get(&cache.as_raw()).is_some_and(|seen| seen.holds_data))
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
    let empty = wall::guarded(None, || taken_over(device, info));
    let passed = empty.as_ref().map_or(info, core::ptr::from_ref);
    // SAFETY: the application's arguments; under takeover without the data that the store has.
    let answer = unsafe { next(handle, passed, alloc, out) };
    wall::beside(|| {
        let size = abi::get(info).map_or(0, |info| info.initial_data_size);
        let bytes = u64::try_from(size).unwrap_or(u64::MAX);
        device
            .recorder
            .call(At::CreateCache, started, bytes, Outcome::Observed);
        record::count(Counter::CacheBytesRead, bytes);
        if let (vk::Result::SUCCESS, Some(made)) = (answer, abi::get(out)) {
            let holds_data = size > HEADER && empty.is_none();
            let seen = Seen {
                saved: size,
                holds_data,
            };
            device.caches.0.with(|all| all.insert(made.as_raw(), seen));
        }
    });
    answer
}

/// Under takeover: hands new data to the store; for data that the store has, a structure without it.
fn taken_over<'a>(
    device: &Device,
    info: *const vk::PipelineCacheCreateInfo<'a>,
) -> Option<vk::PipelineCacheCreateInfo<'a>> {
    let fix = device
        .fix
        .as_ref()
        .filter(|fix| fix.mode == Mode::Takeover)?;
    let info = abi::get(info)?;
    let data = abi::bytes(info.p_initial_data, info.initial_data_size);
    if data.len() <= HEADER {
        return None;
    }
    if !fix.has(data) {
        fix.import(data);
        return None;
    }
    let mut empty = *info;
    empty.initial_data_size = 0;
    empty.p_initial_data = core::ptr::null();
    Some(empty)
}

/// `vkDestroyPipelineCache`.
pub(crate) unsafe extern "system" fn destroy(
    handle: vk::Device,
    cache: vk::PipelineCache,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    if let Some((device, next)) = device::next(handle, |next| next.destroy_cache) {
        wall::beside(|| {
            device.caches.0.with(|all| all.remove(&cache.as_raw()));
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
    let own = wall::guarded(None, || header_only(device, size, out));
    let answer = own.unwrap_or_else(|| {
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(handle, cache, size, out) }
    });
    if answer.as_raw() >= 0 {
        let size = abi::get(size).copied().unwrap_or(0);
        wall::beside(|| fetched(device, started, cache, size, out.is_null()));
    }
    answer
}

/// Under takeover: the answer of a cache without entries.
fn header_only(device: &Device, size: *mut usize, out: *mut c_void) -> Option<vk::Result> {
    let fix = device
        .fix
        .as_ref()
        .filter(|fix| fix.mode == Mode::Takeover)?;
    let size = abi::get_mut(size)?;
    let answer = takeover::answer((!out.is_null()).then_some(*size));
    let header = fix.header();
    let target = abi::bytes_mut(out, answer.written);
    for (slot, byte) in target.iter_mut().zip(header) {
        *slot = byte;
    }
    *size = answer.size;
    Some(if answer.is_whole {
        vk::Result::SUCCESS
    } else {
        vk::Result::INCOMPLETE
    })
}

fn fetched(device: &Device, started: Started, cache: vk::PipelineCache, size: usize, asks: bool) {
    if asks {
        device
            .recorder
            .call(At::CacheSize, started, 0, Outcome::Observed);
        return;
    }
    let before = device.caches.0.with(|all| {
        let seen = all.entry(cache.as_raw()).or_default();
        std::mem::replace(&mut seen.saved, size)
    });
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
    let Some((device, next)) = device::next(handle, |next| next.merge_caches) else {
        return NO_DEVICE;
    };
    wall::beside(|| {
        let sources = abi::list(from, count);
        device.caches.0.with(|all| {
            let any =
                |one: &vk::PipelineCache| all.get(&one.as_raw()).is_some_and(|s| s.holds_data);
            let holds_data = sources.iter().any(any);
            all.entry(into.as_raw()).or_default().holds_data |= holds_data;
        });
    });
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, into, count, from) }
}
