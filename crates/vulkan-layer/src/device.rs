//! Devices: the chain down, and everything that is kept per device.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use core::ffi::CStr;

use ash::vk;
use ash::vk::Handle;

use crate::abi;
use crate::calls::caches::Caches;
use crate::calls::memory::Memories;
use crate::instance::{self, Instance};
use crate::next::DeviceNext;
use crate::process;
use crate::record::Recorder;
use crate::repeat::Known;
use crate::table::Table;
use crate::wall;

/// A live device.
pub(crate) struct Device {
    pub(crate) next: DeviceNext,
    pub(crate) get_proc: vk::PFN_vkGetDeviceProcAddr,
    /// Whether calls go into a ledger.
    pub(crate) records: bool,
    /// Whether presents and submissions go into a frame log.
    pub(crate) logs_frames: bool,
    /// Whether the cache fix is on for this device.
    pub(crate) fixes_caches: bool,
    pub(crate) recorder: Recorder,
    pub(crate) known: Known,
    pub(crate) caches: Caches,
    pub(crate) memories: Memories,
}

static DEVICES: Table<Device> = Table::new();

/// The device of any handle of it, queues and command buffers included.
pub(crate) fn of<H: Handle>(handle: H) -> Option<&'static Device> {
    DEVICES.get(abi::dispatch_key(handle))
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
    let Some(current) = link.as_ref().and_then(|link| abi::get(link.layer_info)) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let (Some(get_instance), Some(get_device)) = (
        current.next_get_instance_proc_addr,
        current.next_get_device_proc_addr,
    ) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if let Some(link) = link {
        link.layer_info = current.p_next;
    }
    let instance = instance::of(physical);
    let handle = instance.map_or(vk::Instance::null(), |instance| instance.handle);
    // SAFETY: the next element's function on the instance of the physical device.
    let create = unsafe { get_instance(handle, c"vkCreateDevice".as_ptr()) };
    let Some(create) = abi::typed!(create, vk::PFN_vkCreateDevice) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the application's arguments, with the loader's link advanced as its interface demands.
    let answer = unsafe { create(physical, info, alloc, out) };
    if answer == vk::Result::SUCCESS {
        wall::beside(|| enter(instance, physical, out, get_device));
    }
    answer
}

fn enter(
    instance: Option<&Instance>,
    physical: vk::PhysicalDevice,
    out: *mut vk::Device,
    get_proc: vk::PFN_vkGetDeviceProcAddr,
) {
    let Some(handle) = abi::get(out).copied() else {
        return;
    };
    let get = |name: &CStr| {
        // SAFETY: the next element's function on the device that it just made.
        unsafe { get_proc(handle, name.as_ptr()) }
    };
    let process = process::get();
    let device = Device {
        next: DeviceNext::load(get),
        get_proc,
        records: process.ledger.is_some(),
        logs_frames: process.frames.is_some(),
        fixes_caches: false,
        recorder: Recorder::new(process, &name(instance, physical)),
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
        drop(DEVICES.remove(key));
    });
    if let Some(next) = next {
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(device, alloc) };
    }
}
