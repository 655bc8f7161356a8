//! Which function answers for a name: ours for what is recorded or fixed, else the next layer's own
//! pointer, so that everything else costs nothing.

#![expect(
    unsafe_code,
    reason = "exports of a layer, and typed functions handed out as untyped ones"
)]

use core::ffi::c_char;

use ash::vk;
use towpath_sys::vulkan::layer::{
    INTERFACE_VERSION, NEGOTIATE_INTERFACE_STRUCT, NegotiateLayerInterface,
};

use crate::abi::{self, untyped};
use crate::calls::{caches, memory, pipelines, queue, waits};
use crate::device::{self, Device};
use crate::instance;

/// Agrees on the interface and hands out the two look-up functions.
///
/// # Safety
///
/// `interface` is null or the loader's structure, valid for reads and writes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    interface: *mut NegotiateLayerInterface,
) -> vk::Result {
    let Some(interface) = abi::get_mut(interface) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    if interface.s_type != NEGOTIATE_INTERFACE_STRUCT
        || interface.loader_layer_interface_version < INTERFACE_VERSION
    {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    }
    interface.loader_layer_interface_version = INTERFACE_VERSION;
    interface.get_instance_proc_addr = Some(get_instance_proc_addr);
    interface.get_device_proc_addr = Some(get_device_proc_addr);
    interface.get_physical_device_proc_addr = None;
    vk::Result::SUCCESS
}

pub(crate) unsafe extern "system" fn get_instance_proc_addr(
    handle: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let text = abi::name(name);
    let global = match text {
        b"vkGetInstanceProcAddr" => {
            untyped!(vk::PFN_vkGetInstanceProcAddr, get_instance_proc_addr)
        }
        b"vkCreateInstance" => untyped!(vk::PFN_vkCreateInstance, instance::create),
        b"vkDestroyInstance" => untyped!(vk::PFN_vkDestroyInstance, instance::destroy),
        b"vkCreateDevice" => untyped!(vk::PFN_vkCreateDevice, device::create),
        b"vkGetDeviceProcAddr" => untyped!(vk::PFN_vkGetDeviceProcAddr, get_device_proc_addr),
        b"vkDestroyDevice" => untyped!(vk::PFN_vkDestroyDevice, device::destroy),
        _ => None,
    };
    if global.is_some() {
        return global;
    }
    let instance = instance::of(handle)?;
    // SAFETY: the next element's function; the handle is the application's, the name the loader's.
    unsafe { (instance.get_proc)(handle, name) }
}

pub(crate) unsafe extern "system" fn get_device_proc_addr(
    handle: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let device = device::of(handle)?;
    // SAFETY: the next element's function; the handle is the application's, the name the loader's.
    let next = unsafe { (device.get_proc)(handle, name) };
    // What the next element lacks does not exist.
    next.and_then(|next| ours(device, abi::name(name)).or(Some(next)))
}

/// Why a call is intercepted.
enum Why {
    Always,
    Record,
    Calls,
    RecordOrCache,
    RecordOrWaits,
}

impl Why {
    fn holds(&self, device: &Device) -> bool {
        match self {
            Self::Always => true,
            Self::Record => device.records,
            Self::Calls => device.records || device.logs_frames || device.fixes_waits,
            Self::RecordOrWaits => device.records || device.fixes_waits,
            Self::RecordOrCache => device.records || device.fix.is_some(),
        }
    }
}

macro_rules! intercepted {
    ($($($name:literal)|+ $why:ident => $type:ident = $function:path;)+) => {
        fn ours(device: &Device, name: &[u8]) -> vk::PFN_vkVoidFunction {
            let (why, function) = match name {
                $($($name)|+ => (Why::$why, untyped!(vk::$type, $function)),)+
                _ => return None,
            };
            if why.holds(device) { function } else { None }
        }
    };
}

intercepted! {
    b"vkGetDeviceProcAddr" Always => PFN_vkGetDeviceProcAddr = get_device_proc_addr;
    b"vkDestroyDevice" Always => PFN_vkDestroyDevice = device::destroy;
    b"vkQueueSubmit" Calls => PFN_vkQueueSubmit = queue::submit;
    b"vkQueueSubmit2" | b"vkQueueSubmit2KHR" Calls => PFN_vkQueueSubmit2 = queue::submit2;
    b"vkQueuePresentKHR" Calls => PFN_vkQueuePresentKHR = queue::present;
    b"vkQueueWaitIdle" RecordOrWaits => PFN_vkQueueWaitIdle = queue::wait_idle;
    b"vkDeviceWaitIdle" RecordOrWaits => PFN_vkDeviceWaitIdle = queue::device_wait_idle;
    b"vkAcquireNextImageKHR" RecordOrWaits => PFN_vkAcquireNextImageKHR = queue::acquire;
    b"vkAcquireNextImage2KHR" RecordOrWaits => PFN_vkAcquireNextImage2KHR = queue::acquire2;
    b"vkCreateFence" RecordOrWaits => PFN_vkCreateFence = waits::create_fence;
    b"vkDestroyFence" RecordOrWaits => PFN_vkDestroyFence = waits::destroy_fence;
    b"vkResetFences" RecordOrWaits => PFN_vkResetFences = waits::reset_fences;
    b"vkGetFenceStatus" RecordOrWaits => PFN_vkGetFenceStatus = waits::fence_status;
    b"vkWaitForFences" RecordOrWaits => PFN_vkWaitForFences = waits::wait_fences;
    b"vkGetFenceFdKHR" RecordOrWaits => PFN_vkGetFenceFdKHR = waits::get_fence_fd;
    b"vkImportFenceFdKHR" RecordOrWaits => PFN_vkImportFenceFdKHR = waits::import_fence_fd;
    b"vkCreateSemaphore" RecordOrWaits => PFN_vkCreateSemaphore = waits::create_semaphore;
    b"vkDestroySemaphore" RecordOrWaits => PFN_vkDestroySemaphore = waits::destroy_semaphore;
    b"vkImportSemaphoreFdKHR" RecordOrWaits => PFN_vkImportSemaphoreFdKHR = waits::import_semaphore_fd;
    b"vkGetSemaphoreCounterValue" | b"vkGetSemaphoreCounterValueKHR" RecordOrWaits => PFN_vkGetSemaphoreCounterValue = waits::counter_value;
    b"vkWaitSemaphores" | b"vkWaitSemaphoresKHR" RecordOrWaits => PFN_vkWaitSemaphores = waits::wait_semaphores;
    b"vkAllocateMemory" Record => PFN_vkAllocateMemory = memory::allocate;
    b"vkFreeMemory" Record => PFN_vkFreeMemory = memory::free;
    b"vkMapMemory" Record => PFN_vkMapMemory = memory::map;
    b"vkCreateBuffer" Record => PFN_vkCreateBuffer = memory::create_buffer;
    b"vkDestroyBuffer" Record => PFN_vkDestroyBuffer = memory::destroy_buffer;
    b"vkBindBufferMemory" Record => PFN_vkBindBufferMemory = memory::bind_buffer;
    b"vkBindBufferMemory2" | b"vkBindBufferMemory2KHR" Record => PFN_vkBindBufferMemory2 = memory::bind_buffer2;
    b"vkCreatePipelineCache" RecordOrCache => PFN_vkCreatePipelineCache = caches::create;
    b"vkDestroyPipelineCache" RecordOrCache => PFN_vkDestroyPipelineCache = caches::destroy;
    b"vkGetPipelineCacheData" RecordOrCache => PFN_vkGetPipelineCacheData = caches::data;
    b"vkMergePipelineCaches" RecordOrCache => PFN_vkMergePipelineCaches = caches::merge;
    b"vkCreateGraphicsPipelines" RecordOrCache => PFN_vkCreateGraphicsPipelines = pipelines::graphics;
    b"vkCreateComputePipelines" RecordOrCache => PFN_vkCreateComputePipelines = pipelines::compute;
    b"vkCreateRayTracingPipelinesKHR" RecordOrCache => PFN_vkCreateRayTracingPipelinesKHR = pipelines::ray_tracing;
    b"vkCreateShadersEXT" Record => PFN_vkCreateShadersEXT = pipelines::shader_objects;
}
