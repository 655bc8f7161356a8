//! Instances.

use core::ffi::c_char;

use ash::vk;

use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::call;
use crate::physical;
use crate::script::script;

static INSTANCES: Registry<()> = Registry::new(Kind::Instance);

const EXTENSIONS: [&str; 6] = [
    "VK_KHR_surface",
    "VK_EXT_headless_surface",
    "VK_KHR_get_physical_device_properties2",
    "VK_KHR_external_fence_capabilities",
    "VK_KHR_external_semaphore_capabilities",
    "VK_KHR_external_memory_capabilities",
];

pub(crate) extern "system" fn version(out: *mut u32) -> vk::Result {
    ffi::put(out, vk::API_VERSION_1_3);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn extensions(
    _layer: *const c_char,
    count: *mut u32,
    out: *mut vk::ExtensionProperties,
) -> vk::Result {
    let all = EXTENSIONS.map(|name| vk::ExtensionProperties {
        extension_name: ffi::fixed(name),
        spec_version: 1,
    });
    ffi::enumerate(&all, count, out)
}

pub(crate) extern "system" fn create(
    _info: *const vk::InstanceCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Instance,
) -> vk::Result {
    call!("vkCreateInstance");
    for problem in &script().problems {
        call!("script-problem", "{problem}");
    }
    ffi::put(out, INSTANCES.add_dispatchable(()));
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy(
    instance: vk::Instance,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyInstance");
    INSTANCES.remove("vkDestroyInstance", instance);
}

pub(crate) extern "system" fn physical_devices(
    instance: vk::Instance,
    count: *mut u32,
    out: *mut vk::PhysicalDevice,
) -> vk::Result {
    if INSTANCES
        .get("vkEnumeratePhysicalDevices", instance)
        .is_none()
    {
        return vk::Result::ERROR_UNKNOWN;
    }
    ffi::enumerate(physical::all(), count, out)
}
