//! Devices: the chain down, and everything that is kept per device.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use core::ffi::CStr;

use ash::vk;
use ash::vk::Handle;
use towpath_settings::{CacheMode, Fix, Mode};

use crate::abi;
use crate::calls::caches::Caches;
use crate::calls::memory::Memories;
use crate::fix::{CacheFix, feature};
use crate::instance::{self, Instance};
use crate::next::DeviceNext;
use crate::process;
use crate::record::Recorder;
use crate::repeat::Known;
use crate::table::Table;
use crate::wall;

/// A live device.
pub(crate) struct Device {
    /// The instance's handle.
    instance: u64,
    pub(crate) next: DeviceNext,
    pub(crate) get_proc: vk::PFN_vkGetDeviceProcAddr,
    /// Whether calls go into a ledger.
    pub(crate) records: bool,
    /// Whether presents and submissions go into a frame log.
    pub(crate) logs_frames: bool,
    /// Whether waits for what is known are answered here.
    pub(crate) fixes_waits: bool,
    /// The cache fix, where it is on for this device.
    pub(crate) fix: Option<CacheFix>,
    pub(crate) recorder: Recorder,
    pub(crate) known: Known,
    pub(crate) caches: Caches,
    pub(crate) memories: Memories,
}

static DEVICES: Table<Device> = Table::new();

/// The device of any handle of it, queues and command buffers included.
///
/// A queue that another layer got for itself may bear no key yet: with one device it is that one's.
#[inline]
pub(crate) fn of<H: Handle>(handle: H) -> Option<&'static Device> {
    let key = abi::dispatch_key(handle);
    DEVICES.get(key).or_else(|| unkeyed(key))
}

#[cold]
fn unkeyed(key: usize) -> Option<&'static Device> {
    (key != 0).then(|| DEVICES.only()).flatten()
}

/// The device of a handle and one of its next functions.
pub(crate) fn next<H: Handle, F: Copy>(
    handle: H,
    pick: impl FnOnce(&DeviceNext) -> Option<F>,
) -> Option<(&'static Device, F)> {
    let device = of(handle)?;
    Some((device, pick(&device.next)?))
}

/// `vkCreateDevice`.
pub(crate) unsafe extern "system" fn create(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Device,
) -> vk::Result {
    let chain = abi::get(info).map_or(core::ptr::null(), |info| info.p_next);
    let link = abi::device_link(chain);
    let Some(current) = link.and_then(|link| abi::get(link.layer_info)) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let (Some(get_instance), Some(get_device)) = (
        current.next_get_instance_proc_addr,
        current.next_get_device_proc_addr,
    ) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let instance = instance::of(physical);
    let handle = instance.map_or(vk::Instance::null(), |instance| instance.handle);
    // SAFETY: the next element's function on the instance of the physical device.
    let create = unsafe { get_instance(handle, c"vkCreateDevice".as_ptr()) };
    let Some(create) = abi::typed!(create, vk::PFN_vkCreateDevice) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let advance = || {
        if let Some(link) = abi::device_link(chain) {
            link.layer_info = current.p_next;
        }
    };
    // Before the structures are copied: the loader's link is one of them, and a copy that is not advanced
    // would have the next layer call itself.
    advance();
    let changed = wall::guarded(None, || changed(instance, physical, info));
    if let Some(changed) = &changed {
        // SAFETY: the application's arguments, with one feature switched on in copies of ours.
        let answer = unsafe { create(physical, &raw const changed.info, alloc, out) };
        if answer == vk::Result::SUCCESS {
            wall::beside(|| enter(instance, physical, out, get_device, true));
            return answer;
        }
        wall::beside(|| {
            process::get().log(&format!(
                "cache fix off: with pipelineCreationCacheControl vkCreateDevice answers {answer:?}"
            ));
        });
    }
    // Advanced anew: the attempt above has used the links up.
    advance();
    // SAFETY: the application's arguments, with the loader's link advanced as its interface demands.
    let answer = unsafe { create(physical, info, alloc, out) };
    if answer == vk::Result::SUCCESS {
        let fixable = changed.is_none() && already_on(info);
        wall::beside(|| enter(instance, physical, out, get_device, fixable));
    }
    answer
}

/// The program's structure with cache control switched on, where the cache fix needs that.
fn changed<'a>(
    instance: Option<&Instance>,
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'a>,
) -> Option<Box<feature::Changed<'a>>> {
    let process = process::get();
    let (instance, info) = (instance?, abi::get(info)?);
    match process.cache_mode()? {
        CacheMode::Observe => return None,
        CacheMode::Fill | CacheMode::Takeover => {}
    }
    let planned = feature::plan(instance, physical, info);
    let changed = planned.and_then(|plan| plan.apply(info));
    changed.unwrap_or_else(|why| {
        process.log(&format!("cache fix off: {why}"));
        None
    })
}

/// Whether the program switched the feature on itself.
fn already_on(info: *const vk::DeviceCreateInfo<'_>) -> bool {
    type Wide<'a> = vk::PhysicalDeviceVulkan13Features<'a>;
    type Own<'a> = vk::PhysicalDevicePipelineCreationCacheControlFeatures<'a>;
    abi::get(info).is_some_and(|info| {
        let wide = abi::chained::<Wide<'_>>(info.p_next);
        let own = abi::chained::<Own<'_>>(info.p_next);
        wide.is_some_and(|wide| wide.pipeline_creation_cache_control == vk::TRUE)
            || own.is_some_and(|own| own.pipeline_creation_cache_control == vk::TRUE)
    })
}

/// Enters a device that the next element made.
pub(crate) fn enter(
    instance: Option<&Instance>,
    physical: vk::PhysicalDevice,
    out: *mut vk::Device,
    get_proc: vk::PFN_vkGetDeviceProcAddr,
    fixable: bool,
) {
    let Some(handle) = abi::get(out).copied() else {
        return;
    };
    let get = |name: &CStr| {
        // SAFETY: the next element's function on the device that it just made.
        unsafe { get_proc(handle, name.as_ptr()) }
    };
    let process = process::get();
    // Each behind a wall of its own: a device that is not entered has no functions.
    let fix = wall::guarded(None, || {
        instance
            .filter(|instance| fixable && instance.api_version >= vk::API_VERSION_1_1)
            .and_then(|instance| CacheFix::open(process, instance, physical, handle, get_proc))
    });
    let name = wall::guarded(String::new(), || name(instance, physical));
    let device = Device {
        instance: instance.map_or(0, |instance| instance.handle.as_raw()),
        next: DeviceNext::load(get),
        get_proc,
        records: process.ledger.is_some(),
        logs_frames: process.frames.is_some(),
        fixes_waits: process.fixes().mode(Fix::Waits) != Mode::Off,
        fix,
        recorder: Recorder::new(process, &name),
        known: Known::new(),
        caches: Caches::default(),
        memories: Memories::new(memory_types(instance, physical)),
    };
    // Taken already where this library stands twice in one chain: the inner one does the work.
    let _twice = DEVICES.insert(abi::dispatch_key(handle), device);
}

fn name(instance: Option<&Instance>, physical: vk::PhysicalDevice) -> String {
    let Some(next) = instance.and_then(|instance| instance.next.properties) else {
        return String::new();
    };
    let mut properties = vk::PhysicalDeviceProperties::default();
    // SAFETY: the next element's function, a live physical device, a structure of ours.
    unsafe { next(physical, &raw mut properties) };
    let name = properties.device_name_as_c_str().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn memory_types(
    instance: Option<&Instance>,
    physical: vk::PhysicalDevice,
) -> Vec<vk::MemoryPropertyFlags> {
    let Some(next) = instance.and_then(|instance| instance.next.memory_properties) else {
        return Vec::new();
    };
    let mut properties = vk::PhysicalDeviceMemoryProperties::default();
    // SAFETY: the next element's function, a live physical device, a structure of ours.
    unsafe { next(physical, &raw mut properties) };
    let types = properties.memory_types_as_slice().iter();
    types.map(|kind| kind.property_flags).collect()
}

/// Forgets the devices that a program leaves behind with their instance: the loader frees them, and a
/// later device may get the same key. Their saving threads know of the instance's end already.
pub(crate) fn instance_ends(instance: u64) {
    for key in DEVICES.keys(|device| device.instance == instance) {
        // Not freed: a program that forgets a device may have forgotten a thread that uses it, too.
        let _kept = DEVICES.remove(key).map(Box::leak);
    }
}

/// `vkDestroyDevice`.
pub(crate) unsafe extern "system" fn destroy(
    device: vk::Device,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    // Before the handle is gone: its key is read through it.
    let key = abi::dispatch_key(device);
    let next = DEVICES.get(key).and_then(|found| found.next.destroy_device);
    wall::beside(|| {
        if let Some(frames) = process::get().frames.as_ref() {
            frames.flush();
        }
        if let Some(fix) = DEVICES.remove(key).and_then(|device| device.fix) {
            fix.close();
        }
    });
    if let Some(next) = next {
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(device, alloc) };
    }
}
