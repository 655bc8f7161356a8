//! The driver's three exports and the table of names behind them.

#![expect(
    unsafe_code,
    reason = "exported symbols, and typed functions handed out as untyped ones"
)]

use core::ffi::c_char;

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as binary_abi;

use crate::{
    binary, cache, device, ffi, instance, memory, objects, physical, pipeline, present, queue, sync,
};

/// Interface 5: the driver takes any Vulkan version and makes its own surfaces.
const INTERFACE: u32 = 5;

/// Agrees on the loader's interface version.
#[unsafe(no_mangle)]
pub extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(version: *mut u32) -> vk::Result {
    match ffi::get_mut(version) {
        Some(version) if *version >= INTERFACE => {
            *version = INTERFACE;
            vk::Result::SUCCESS
        }
        _ => vk::Result::ERROR_INCOMPATIBLE_DRIVER,
    }
}

/// The driver's `vkGetInstanceProcAddr`.
#[unsafe(no_mangle)]
pub extern "system" fn vk_icdGetInstanceProcAddr(
    _instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let name = ffi::text(name);
    instance_function(name)
        .or_else(|| physical_function(name))
        .or_else(|| device_function(name))
}

/// The driver's functions whose first argument is a physical device.
#[unsafe(no_mangle)]
pub extern "system" fn vk_icdGetPhysicalDeviceProcAddr(
    _instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    physical_function(ffi::text(name))
}

/// Count of a call or event in this process, by the journal's name for it.
#[unsafe(no_mangle)]
pub extern "C" fn mock_vulkan_count(name: *const c_char) -> u64 {
    crate::journal::count(ffi::text(name))
}

extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    vk_icdGetInstanceProcAddr(instance, name)
}

extern "system" fn get_device_proc_addr(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // A handle of another kind is noted here; other drivers crash.
    device::get("vkGetDeviceProcAddr", device)?;
    device_function(ffi::text(name))
}

/// Arms of a match from names to functions; each function is checked against Vulkan's type first.
macro_rules! table {
    ($name:ident: $($vulkan:literal $(| $alias:literal)* => $type:ty = $function:path;)+) => {
        fn $name(name: &str) -> vk::PFN_vkVoidFunction {
            match name {
                $($vulkan $(| $alias)* => {
                    let typed: $type = $function;
                    // SAFETY: function pointers of one ABI; the caller casts back to the type that
                    // Vulkan gives this name, which is the one checked in the line above.
                    Some(unsafe { core::mem::transmute::<$type, unsafe extern "system" fn()>(typed) })
                })+
                _ => None,
            }
        }
    };
}

table! { instance_function:
    "vkGetInstanceProcAddr" => vk::PFN_vkGetInstanceProcAddr = get_instance_proc_addr;
    "vkCreateInstance" => vk::PFN_vkCreateInstance = instance::create;
    "vkDestroyInstance" => vk::PFN_vkDestroyInstance = instance::destroy;
    "vkEnumerateInstanceVersion" => vk::PFN_vkEnumerateInstanceVersion = instance::version;
    "vkEnumerateInstanceExtensionProperties" => vk::PFN_vkEnumerateInstanceExtensionProperties = instance::extensions;
    "vkEnumeratePhysicalDevices" => vk::PFN_vkEnumeratePhysicalDevices = instance::physical_devices;
    "vkCreateHeadlessSurfaceEXT" => vk::PFN_vkCreateHeadlessSurfaceEXT = present::create_surface;
    "vkDestroySurfaceKHR" => vk::PFN_vkDestroySurfaceKHR = present::destroy_surface;
}

table! { physical_function:
    "vkCreateDevice" => vk::PFN_vkCreateDevice = device::create;
    "vkEnumerateDeviceExtensionProperties" => vk::PFN_vkEnumerateDeviceExtensionProperties = physical::extensions;
    "vkEnumerateDeviceLayerProperties" => vk::PFN_vkEnumerateDeviceLayerProperties = physical::layers;
    "vkGetPhysicalDeviceProperties" => vk::PFN_vkGetPhysicalDeviceProperties = physical::properties;
    "vkGetPhysicalDeviceProperties2" | "vkGetPhysicalDeviceProperties2KHR" => vk::PFN_vkGetPhysicalDeviceProperties2 = physical::properties2;
    "vkGetPhysicalDeviceFeatures" => vk::PFN_vkGetPhysicalDeviceFeatures = physical::features;
    "vkGetPhysicalDeviceFeatures2" | "vkGetPhysicalDeviceFeatures2KHR" => vk::PFN_vkGetPhysicalDeviceFeatures2 = physical::features2;
    "vkGetPhysicalDeviceQueueFamilyProperties" => vk::PFN_vkGetPhysicalDeviceQueueFamilyProperties = physical::queue_families;
    "vkGetPhysicalDeviceQueueFamilyProperties2" | "vkGetPhysicalDeviceQueueFamilyProperties2KHR" => vk::PFN_vkGetPhysicalDeviceQueueFamilyProperties2 = physical::queue_families2;
    "vkGetPhysicalDeviceMemoryProperties" => vk::PFN_vkGetPhysicalDeviceMemoryProperties = physical::memory_properties;
    "vkGetPhysicalDeviceMemoryProperties2" | "vkGetPhysicalDeviceMemoryProperties2KHR" => vk::PFN_vkGetPhysicalDeviceMemoryProperties2 = physical::memory_properties2;
    "vkGetPhysicalDeviceFormatProperties" => vk::PFN_vkGetPhysicalDeviceFormatProperties = physical::format_properties;
    "vkGetPhysicalDeviceFormatProperties2" | "vkGetPhysicalDeviceFormatProperties2KHR" => vk::PFN_vkGetPhysicalDeviceFormatProperties2 = physical::format_properties2;
    "vkGetPhysicalDeviceImageFormatProperties" => vk::PFN_vkGetPhysicalDeviceImageFormatProperties = physical::image_format_properties;
    "vkGetPhysicalDeviceImageFormatProperties2" | "vkGetPhysicalDeviceImageFormatProperties2KHR" => vk::PFN_vkGetPhysicalDeviceImageFormatProperties2 = physical::image_format_properties2;
    "vkGetPhysicalDeviceSparseImageFormatProperties" => vk::PFN_vkGetPhysicalDeviceSparseImageFormatProperties = physical::sparse_properties;
    "vkGetPhysicalDeviceSparseImageFormatProperties2" | "vkGetPhysicalDeviceSparseImageFormatProperties2KHR" => vk::PFN_vkGetPhysicalDeviceSparseImageFormatProperties2 = physical::sparse_properties2;
    "vkGetPhysicalDeviceExternalFenceProperties" | "vkGetPhysicalDeviceExternalFencePropertiesKHR" => vk::PFN_vkGetPhysicalDeviceExternalFenceProperties = physical::external_fences;
    "vkGetPhysicalDeviceExternalSemaphoreProperties" | "vkGetPhysicalDeviceExternalSemaphorePropertiesKHR" => vk::PFN_vkGetPhysicalDeviceExternalSemaphoreProperties = physical::external_semaphores;
    "vkGetPhysicalDeviceExternalBufferProperties" | "vkGetPhysicalDeviceExternalBufferPropertiesKHR" => vk::PFN_vkGetPhysicalDeviceExternalBufferProperties = physical::external_buffers;
    "vkGetPhysicalDeviceSurfaceSupportKHR" => vk::PFN_vkGetPhysicalDeviceSurfaceSupportKHR = present::support;
    "vkGetPhysicalDeviceSurfaceCapabilitiesKHR" => vk::PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR = present::capabilities;
    "vkGetPhysicalDeviceSurfaceFormatsKHR" => vk::PFN_vkGetPhysicalDeviceSurfaceFormatsKHR = present::formats;
    "vkGetPhysicalDeviceSurfacePresentModesKHR" => vk::PFN_vkGetPhysicalDeviceSurfacePresentModesKHR = present::modes;
}

table! { device_function:
    "vkGetDeviceProcAddr" => vk::PFN_vkGetDeviceProcAddr = get_device_proc_addr;
    "vkDestroyDevice" => vk::PFN_vkDestroyDevice = device::destroy;
    "vkGetDeviceQueue" => vk::PFN_vkGetDeviceQueue = device::get_queue;
    "vkGetDeviceQueue2" => vk::PFN_vkGetDeviceQueue2 = device::get_queue2;
    "vkDeviceWaitIdle" => vk::PFN_vkDeviceWaitIdle = device::wait_idle;
    "vkQueueSubmit" => vk::PFN_vkQueueSubmit = queue::submit;
    "vkQueueSubmit2" | "vkQueueSubmit2KHR" => vk::PFN_vkQueueSubmit2 = queue::submit2;
    "vkQueueWaitIdle" => vk::PFN_vkQueueWaitIdle = queue::wait_idle;
    "vkQueuePresentKHR" => vk::PFN_vkQueuePresentKHR = queue::present;
    "vkCreateSwapchainKHR" => vk::PFN_vkCreateSwapchainKHR = present::create;
    "vkDestroySwapchainKHR" => vk::PFN_vkDestroySwapchainKHR = present::destroy;
    "vkGetSwapchainImagesKHR" => vk::PFN_vkGetSwapchainImagesKHR = present::images;
    "vkAcquireNextImageKHR" => vk::PFN_vkAcquireNextImageKHR = present::acquire;
    "vkAcquireNextImage2KHR" => vk::PFN_vkAcquireNextImage2KHR = present::acquire2;
    "vkCreateFence" => vk::PFN_vkCreateFence = sync::create_fence;
    "vkDestroyFence" => vk::PFN_vkDestroyFence = sync::destroy_fence;
    "vkResetFences" => vk::PFN_vkResetFences = sync::reset_fences;
    "vkGetFenceStatus" => vk::PFN_vkGetFenceStatus = sync::fence_status;
    "vkWaitForFences" => vk::PFN_vkWaitForFences = sync::wait_fences;
    "vkGetFenceFdKHR" => vk::PFN_vkGetFenceFdKHR = sync::get_fence_fd;
    "vkImportFenceFdKHR" => vk::PFN_vkImportFenceFdKHR = sync::import_fence_fd;
    "vkCreateSemaphore" => vk::PFN_vkCreateSemaphore = sync::create_semaphore;
    "vkDestroySemaphore" => vk::PFN_vkDestroySemaphore = sync::destroy_semaphore;
    "vkGetSemaphoreCounterValue" | "vkGetSemaphoreCounterValueKHR" => vk::PFN_vkGetSemaphoreCounterValue = sync::counter_value;
    "vkWaitSemaphores" | "vkWaitSemaphoresKHR" => vk::PFN_vkWaitSemaphores = sync::wait_semaphores;
    "vkSignalSemaphore" | "vkSignalSemaphoreKHR" => vk::PFN_vkSignalSemaphore = sync::signal_semaphore;
    "vkAllocateMemory" => vk::PFN_vkAllocateMemory = memory::allocate;
    "vkFreeMemory" => vk::PFN_vkFreeMemory = memory::free;
    "vkMapMemory" => vk::PFN_vkMapMemory = memory::map;
    "vkUnmapMemory" => vk::PFN_vkUnmapMemory = memory::unmap;
    "vkFlushMappedMemoryRanges" => vk::PFN_vkFlushMappedMemoryRanges = memory::flush;
    "vkInvalidateMappedMemoryRanges" => vk::PFN_vkInvalidateMappedMemoryRanges = memory::invalidate;
    "vkCreateBuffer" => vk::PFN_vkCreateBuffer = memory::create_buffer;
    "vkDestroyBuffer" => vk::PFN_vkDestroyBuffer = memory::destroy_buffer;
    "vkGetBufferMemoryRequirements" => vk::PFN_vkGetBufferMemoryRequirements = memory::buffer_requirements;
    "vkBindBufferMemory" => vk::PFN_vkBindBufferMemory = memory::bind_buffer;
    "vkCreateImage" => vk::PFN_vkCreateImage = memory::create_image;
    "vkDestroyImage" => vk::PFN_vkDestroyImage = memory::destroy_image;
    "vkGetImageMemoryRequirements" => vk::PFN_vkGetImageMemoryRequirements = memory::image_requirements;
    "vkBindImageMemory" => vk::PFN_vkBindImageMemory = memory::bind_image;
    "vkCreateImageView" => vk::PFN_vkCreateImageView = objects::image_view::create;
    "vkDestroyImageView" => vk::PFN_vkDestroyImageView = objects::image_view::destroy;
    "vkCreateShaderModule" => vk::PFN_vkCreateShaderModule = objects::create_shader;
    "vkDestroyShaderModule" => vk::PFN_vkDestroyShaderModule = objects::destroy_shader;
    "vkGetShaderModuleIdentifierEXT" => vk::PFN_vkGetShaderModuleIdentifierEXT = objects::shader_identifier;
    "vkCreatePipelineLayout" => vk::PFN_vkCreatePipelineLayout = objects::layout::create;
    "vkDestroyPipelineLayout" => vk::PFN_vkDestroyPipelineLayout = objects::layout::destroy;
    "vkCreateDescriptorSetLayout" => vk::PFN_vkCreateDescriptorSetLayout = objects::set_layout::create;
    "vkDestroyDescriptorSetLayout" => vk::PFN_vkDestroyDescriptorSetLayout = objects::set_layout::destroy;
    "vkCreateRenderPass" => vk::PFN_vkCreateRenderPass = objects::render_pass::create;
    "vkDestroyRenderPass" => vk::PFN_vkDestroyRenderPass = objects::render_pass::destroy;
    "vkCreateFramebuffer" => vk::PFN_vkCreateFramebuffer = objects::framebuffer::create;
    "vkDestroyFramebuffer" => vk::PFN_vkDestroyFramebuffer = objects::framebuffer::destroy;
    "vkCreateQueryPool" => vk::PFN_vkCreateQueryPool = objects::query_pool::create;
    "vkDestroyQueryPool" => vk::PFN_vkDestroyQueryPool = objects::query_pool::destroy;
    "vkCreateCommandPool" => vk::PFN_vkCreateCommandPool = objects::command_pool::create;
    "vkDestroyCommandPool" => vk::PFN_vkDestroyCommandPool = objects::command_pool::destroy;
    "vkAllocateCommandBuffers" => vk::PFN_vkAllocateCommandBuffers = objects::allocate_commands;
    "vkFreeCommandBuffers" => vk::PFN_vkFreeCommandBuffers = objects::free_commands;
    "vkBeginCommandBuffer" => vk::PFN_vkBeginCommandBuffer = objects::begin_commands;
    "vkEndCommandBuffer" => vk::PFN_vkEndCommandBuffer = objects::end_commands;
    "vkResetCommandBuffer" => vk::PFN_vkResetCommandBuffer = objects::reset_commands;
    "vkCreateDeferredOperationKHR" => vk::PFN_vkCreateDeferredOperationKHR = objects::create_deferred;
    "vkDestroyDeferredOperationKHR" => vk::PFN_vkDestroyDeferredOperationKHR = objects::destroy_deferred;
    "vkDeferredOperationJoinKHR" => vk::PFN_vkDeferredOperationJoinKHR = objects::deferred_join;
    "vkGetDeferredOperationResultKHR" => vk::PFN_vkGetDeferredOperationResultKHR = objects::deferred_result;
    "vkGetDeferredOperationMaxConcurrencyKHR" => vk::PFN_vkGetDeferredOperationMaxConcurrencyKHR = objects::deferred_concurrency;
    "vkCreateShadersEXT" => vk::PFN_vkCreateShadersEXT = objects::shader_object::create;
    "vkDestroyShaderEXT" => vk::PFN_vkDestroyShaderEXT = objects::shader_object::destroy;
    "vkCreatePipelineCache" => vk::PFN_vkCreatePipelineCache = cache::create;
    "vkDestroyPipelineCache" => vk::PFN_vkDestroyPipelineCache = cache::destroy;
    "vkGetPipelineCacheData" => vk::PFN_vkGetPipelineCacheData = cache::get_data;
    "vkMergePipelineCaches" => vk::PFN_vkMergePipelineCaches = cache::merge;
    "vkCreateGraphicsPipelines" => vk::PFN_vkCreateGraphicsPipelines = pipeline::create_graphics;
    "vkCreateComputePipelines" => vk::PFN_vkCreateComputePipelines = pipeline::create_compute;
    "vkCreateRayTracingPipelinesKHR" => vk::PFN_vkCreateRayTracingPipelinesKHR = pipeline::create_ray_tracing;
    "vkDestroyPipeline" => vk::PFN_vkDestroyPipeline = pipeline::destroy;
    "vkCreatePipelineBinariesKHR" => binary_abi::CreatePipelineBinaries = binary::create;
    "vkDestroyPipelineBinaryKHR" => binary_abi::DestroyPipelineBinary = binary::destroy;
    "vkGetPipelineKeyKHR" => binary_abi::GetPipelineKey = binary::get_key;
    "vkGetPipelineBinaryDataKHR" => binary_abi::GetPipelineBinaryData = binary::get_data;
    "vkReleaseCapturedPipelineDataKHR" => binary_abi::ReleaseCapturedPipelineData = binary::release;
}
