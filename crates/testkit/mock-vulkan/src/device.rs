//! Logical devices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as binary;
use xxhash_rust::xxh3::xxh3_64;

use crate::blob::Identity;
use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::call;
use crate::physical::{self, Physical};
use crate::queue::{self, QUEUES, Queue};
use crate::script::script;

#[derive(Debug)]
pub(crate) struct Device {
    physical: Arc<Physical>,
    queue: Mutex<vk::Queue>,
    cache_control: bool,
    internal_cache_off: bool,
    submits: AtomicU64,
    lost: AtomicBool,
}

static DEVICES: Registry<Device> = Registry::new(Kind::Device);

/// The device behind a handle.
pub(crate) fn get(call: &'static str, device: vk::Device) -> Option<Arc<Device>> {
    DEVICES.get(call, device)
}

impl Device {
    pub(crate) fn identity(&self) -> Identity {
        self.physical.identity()
    }

    /// Two drivers compile the same shader to different code under different keys.
    pub(crate) fn code_salt(&self) -> u64 {
        xxh3_64(self.physical.name.as_bytes())
    }

    pub(crate) fn cache_control_enabled(&self) -> bool {
        self.cache_control
    }

    pub(crate) fn internal_cache_off(&self) -> bool {
        self.internal_cache_off
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Counts a submission; true where the script loses the device at it.
    pub(crate) fn submitted(&self) -> bool {
        let number = self.submits.fetch_add(1, Ordering::Relaxed) + 1;
        if script().lost_after != 0 && number >= script().lost_after {
            self.lost.store(true, Ordering::Release);
        }
        self.is_lost()
    }

    fn queue(&self) -> vk::Queue {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wants_cache_control(info: &vk::DeviceCreateInfo<'_>) -> bool {
    let wide = ffi::chained::<vk::PhysicalDeviceVulkan13Features<'_>>(info.p_next);
    let own =
        ffi::chained::<vk::PhysicalDevicePipelineCreationCacheControlFeatures<'_>>(info.p_next);
    if wide.is_some() && own.is_some() {
        let rule = "VUID-06532: Vulkan13Features and PipelineCreationCacheControlFeatures at once";
        crate::journal::fault("vkCreateDevice", format_args!("{rule}"));
    }
    wide.is_some_and(|features| features.pipeline_creation_cache_control == vk::TRUE)
        || own.is_some_and(|features| features.pipeline_creation_cache_control == vk::TRUE)
}

pub(crate) extern "system" fn create(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Device,
) -> vk::Result {
    let (Some(physical), Some(info)) = (physical::get("vkCreateDevice", physical), ffi::get(info))
    else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let cache_control = wants_cache_control(info);
    let names = ffi::list(
        info.pp_enabled_extension_names,
        info.enabled_extension_count,
    );
    let names: Vec<_> = names.iter().map(|name| ffi::text(*name)).collect();
    call!(
        "vkCreateDevice",
        "cache_control={cache_control} extensions={} chain={:?}",
        names.join(","),
        ffi::kinds(info.p_next)
    );
    if names.iter().any(|name| !physical::has_extension(name)) {
        return vk::Result::ERROR_EXTENSION_NOT_PRESENT;
    }
    if cache_control && (!script().cache_control || script().refuse_control) {
        return vk::Result::ERROR_FEATURE_NOT_PRESENT;
    }
    let internal = ffi::chained::<binary::InternalCacheControl>(info.p_next);
    let device: vk::Device = DEVICES.add_dispatchable(Device {
        physical,
        queue: Mutex::new(vk::Queue::null()),
        cache_control,
        internal_cache_off: internal.is_some_and(|i| i.disable_internal_cache == vk::TRUE),
        submits: AtomicU64::new(0),
        lost: AtomicBool::new(false),
    });
    if let Some(object) = get("vkCreateDevice", device) {
        let queue = QUEUES.add_dispatchable(Queue::new(device));
        *object.queue.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    }
    ffi::put(out, device);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy(
    device: vk::Device,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyDevice");
    if device == vk::Device::null() {
        return;
    }
    if let Some(object) = get("vkDestroyDevice", device) {
        QUEUES.remove("vkDestroyDevice", object.queue());
        DEVICES.remove("vkDestroyDevice", device);
    }
}

pub(crate) extern "system" fn get_queue(
    device: vk::Device,
    _family: u32,
    _index: u32,
    out: *mut vk::Queue,
) {
    call!("vkGetDeviceQueue");
    let queue = get("vkGetDeviceQueue", device).map_or(vk::Queue::null(), |device| device.queue());
    ffi::put(out, queue);
}

pub(crate) extern "system" fn get_queue2(
    device: vk::Device,
    _info: *const vk::DeviceQueueInfo2<'_>,
    out: *mut vk::Queue,
) {
    call!("vkGetDeviceQueue2");
    let queue = get("vkGetDeviceQueue2", device).map_or(vk::Queue::null(), |device| device.queue());
    ffi::put(out, queue);
}

pub(crate) extern "system" fn wait_idle(device: vk::Device) -> vk::Result {
    call!("vkDeviceWaitIdle");
    let Some(object) = get("vkDeviceWaitIdle", device) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    match QUEUES.get("vkDeviceWaitIdle", object.queue()) {
        Some(queue) => queue::sleep_until_idle(&queue, &object),
        None => vk::Result::ERROR_UNKNOWN,
    }
}
