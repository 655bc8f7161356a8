//! Instances: the chain down, and what devices need of it.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use core::ffi::CStr;

use ash::vk;

use crate::abi;
use crate::device;
use crate::fix;
use crate::fork;
use crate::next::InstanceNext;
use crate::process;
use crate::table::Table;
use crate::wall;

/// A live instance.
pub(crate) struct Instance {
    pub(crate) handle: vk::Instance,
    pub(crate) next: InstanceNext,
    pub(crate) get_proc: vk::PFN_vkGetInstanceProcAddr,
    /// The Vulkan version that the application asked for.
    pub(crate) api_version: u32,
}

static INSTANCES: Table<Instance> = Table::new();

/// The instance of any handle of it, physical devices included.
pub(crate) fn of<H: vk::Handle>(handle: H) -> Option<&'static Instance> {
    INSTANCES.get(abi::dispatch_key(handle))
}

/// `vkCreateInstance`.
pub(crate) unsafe extern "system" fn create(
    info: *const vk::InstanceCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Instance,
) -> vk::Result {
    let chain = abi::get(info).map_or(core::ptr::null(), |info| info.p_next);
    let link = abi::instance_link(chain);
    let Some(current) = link.as_ref().and_then(|link| abi::get(link.layer_info)) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let Some(get_proc) = current.next_get_instance_proc_addr else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if let Some(link) = link {
        link.layer_info = current.p_next;
    }
    // SAFETY: the next element's function; a null instance asks for global functions.
    let create = unsafe { get_proc(vk::Instance::null(), c"vkCreateInstance".as_ptr()) };
    let Some(create) = abi::typed!(create, vk::PFN_vkCreateInstance) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the application's arguments, with the loader's link advanced as its interface demands.
    let answer = unsafe { create(info, alloc, out) };
    if answer == vk::Result::SUCCESS {
        wall::beside(|| enter(info, out, get_proc));
    }
    answer
}

fn enter(
    info: *const vk::InstanceCreateInfo<'_>,
    out: *mut vk::Instance,
    get_proc: vk::PFN_vkGetInstanceProcAddr,
) {
    process::get();
    let Some(handle) = abi::get(out).copied() else {
        return;
    };
    let application = abi::get(info).and_then(|info| abi::get(info.p_application_info));
    let asked = application.map_or(0, |application| application.api_version);
    let get = |name: &CStr| {
        // SAFETY: the next element's function on the instance that it just made.
        unsafe { get_proc(handle, name.as_ptr()) }
    };
    let instance = Instance {
        handle,
        next: InstanceNext::load(get),
        get_proc,
        api_version: asked.max(vk::API_VERSION_1_0),
    };
    // Taken already where this library stands twice in one chain: the inner one does the work.
    let _twice = INSTANCES.insert(abi::dispatch_key(handle), instance);
}

/// `vkDestroyInstance`.
pub(crate) unsafe extern "system" fn destroy(
    instance: vk::Instance,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    // Before the handle is gone: its key is read through it.
    let key = abi::dispatch_key(instance);
    let next = INSTANCES
        .get(key)
        .and_then(|found| found.next.destroy_instance);
    wall::beside(|| {
        let handle = vk::Handle::as_raw(instance);
        fix::instance_ends(handle);
        // A forked child's devices are its parent's.
        if handle != 0 && !fork::is_child() {
            device::instance_ends(handle);
        }
        drop(INSTANCES.remove(key));
    });
    if let Some(next) = next {
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(instance, alloc) };
    }
}
