//! `VkPipelineCache`, under the script's policy.

use core::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;

use crate::blob::{self, Code, Entries, Identity, Loaded};
use crate::device;
use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::{call, fault};
use crate::script::{Policy, script};

/// Policies `growing` makes keys here that no pipeline has.
const PHANTOM: u64 = 0xfa4e_0000_0000_0000;

#[derive(Debug)]
pub(crate) struct Cache {
    identity: Identity,
    entries: Mutex<Entries>,
}

pub(crate) static CACHES: Registry<Cache> = Registry::new(Kind::Cache);

impl Cache {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: u64) -> Option<Code> {
        self.entries().get(key)
    }

    pub(crate) fn insert(&self, key: u64, code: Code) {
        self.entries().insert(key, code);
    }
}

pub(crate) extern "system" fn create(
    device: vk::Device,
    info: *const vk::PipelineCacheCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::PipelineCache,
) -> vk::Result {
    let (Some(device), Some(info)) = (device::get("vkCreatePipelineCache", device), ffi::get(info))
    else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let data = ffi::bytes(info.p_initial_data, info.initial_data_size);
    call!(
        "vkCreatePipelineCache",
        "bytes={} flags={:#x}",
        data.len(),
        info.flags.as_raw()
    );
    let identity = device.identity();
    let mut entries = Entries::default();
    if !data.is_empty()
        && let Err(error) = load(&mut entries, &identity, data)
    {
        return error;
    }
    ffi::put(
        out,
        CACHES.add(Cache {
            identity,
            entries: Mutex::new(entries),
        }),
    );
    vk::Result::SUCCESS
}

fn load(entries: &mut Entries, identity: &Identity, data: &[u8]) -> Result<(), vk::Result> {
    std::thread::sleep(script().load);
    match script().policy {
        Policy::Rejecting => {
            call!("blob-rejected", "bytes={}", data.len());
            return Ok(());
        }
        Policy::Failing => {
            call!("blob-failed", "bytes={}", data.len());
            return Err(vk::Result::ERROR_INITIALIZATION_FAILED);
        }
        _ => {}
    }
    let loaded = entries.load(identity, data);
    match loaded {
        Loaded::Whole => call!(
            "blob-loaded",
            "bytes={} entries={}",
            data.len(),
            entries.len()
        ),
        Loaded::Foreign => call!("blob-foreign", "bytes={}", data.len()),
        Loaded::Corrupt => {
            call!("blob-corrupt", "bytes={}", data.len());
            *entries = Entries::default();
        }
        Loaded::Marked => {
            call!("blob-marked", "bytes={}", data.len());
            if script().policy == Policy::Aborting {
                std::process::abort();
            }
        }
    }
    Ok(())
}

pub(crate) extern "system" fn destroy(
    _device: vk::Device,
    cache: vk::PipelineCache,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyPipelineCache");
    CACHES.remove("vkDestroyPipelineCache", cache);
}

pub(crate) extern "system" fn merge(
    _device: vk::Device,
    into: vk::PipelineCache,
    count: u32,
    from: *const vk::PipelineCache,
) -> vk::Result {
    call!("vkMergePipelineCaches", "sources={count}");
    let Some(target) = CACHES.get("vkMergePipelineCaches", into) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    for source in ffi::list(from, count) {
        if *source == into {
            fault(
                "vkMergePipelineCaches",
                format_args!("the target is among the sources"),
            );
        } else if let Some(source) = CACHES.get("vkMergePipelineCaches", *source) {
            target.entries().merge(&source.entries());
        }
    }
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn get_data(
    _device: vk::Device,
    cache: vk::PipelineCache,
    size: *mut usize,
    data: *mut c_void,
) -> vk::Result {
    let (Some(cache), Some(size)) = (
        CACHES.get("vkGetPipelineCacheData", cache),
        ffi::get_mut(size),
    ) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let mut entries = cache.entries();
    let announced = match script().policy {
        Policy::Empty => 0,
        Policy::HeaderOnly => blob::HEADER,
        _ => entries.size(),
    };
    if data.is_null() {
        *size = announced;
        call!("vkGetPipelineCacheData", "ask={announced}");
        return vk::Result::SUCCESS;
    }
    let room = *size;
    if script().policy == Policy::Growing {
        let key = PHANTOM + u64::try_from(entries.len()).unwrap_or(0);
        entries.insert(key, blob::compile(key, script().entry_bytes, false));
    }
    let out = ffi::bytes_mut(data, room);
    let (written, whole) = fetch(&entries, &cache.identity, out);
    *size = match script().policy {
        Policy::LyingSmall => 20,
        Policy::LyingLarge => room + 4096,
        Policy::LyingUnset => room,
        _ => written,
    };
    call!(
        "vkGetPipelineCacheData",
        "room={room} written={written} said={}",
        *size
    );
    if whole {
        vk::Result::SUCCESS
    } else {
        vk::Result::INCOMPLETE
    }
}

/// Fills `out`; returns the bytes written and whether that is all there is.
fn fetch(entries: &Entries, identity: &Identity, out: &mut [u8]) -> (usize, bool) {
    let header = identity.header();
    match script().policy {
        Policy::Empty => (0, true),
        Policy::HeaderOnly => match out.get_mut(..blob::HEADER) {
            Some(slot) => {
                slot.copy_from_slice(&header);
                (blob::HEADER, true)
            }
            None => (0, false),
        },
        policy => {
            let whole = out.len() >= entries.size();
            (
                entries.write(header, policy == Policy::Shuffled, out),
                whole,
            )
        }
    }
}
