//! The next layer's functions of one instance or device, looked up once.

#![expect(
    unsafe_code,
    reason = "untyped functions become those of Vulkan's names"
)]

use core::ffi::CStr;

use ash::vk;

use crate::abi::typed;

macro_rules! functions {
    ($(#[$doc:meta])* $name:ident: $($field:ident: $type:ty = $vulkan:literal $(or $alias:literal)*;)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name {
            $(pub(crate) $field: Option<$type>,)+
        }

        impl $name {
            pub(crate) fn load(get: impl Fn(&CStr) -> vk::PFN_vkVoidFunction) -> Self {
                Self {
                    $($field: typed!(get($vulkan)$(.or_else(|| get($alias)))*, $type),)+
                }
            }
        }
    };
}

functions! {
    /// Of an instance.
    InstanceNext:
    destroy_instance: vk::PFN_vkDestroyInstance = c"vkDestroyInstance";
    properties: vk::PFN_vkGetPhysicalDeviceProperties = c"vkGetPhysicalDeviceProperties";
    features2: vk::PFN_vkGetPhysicalDeviceFeatures2 = c"vkGetPhysicalDeviceFeatures2" or c"vkGetPhysicalDeviceFeatures2KHR";
    memory_properties: vk::PFN_vkGetPhysicalDeviceMemoryProperties = c"vkGetPhysicalDeviceMemoryProperties";
    device_extensions: vk::PFN_vkEnumerateDeviceExtensionProperties = c"vkEnumerateDeviceExtensionProperties";
}

functions! {
    /// Of a device.
    DeviceNext:
    destroy_device: vk::PFN_vkDestroyDevice = c"vkDestroyDevice";
    device_wait_idle: vk::PFN_vkDeviceWaitIdle = c"vkDeviceWaitIdle";
    queue_submit: vk::PFN_vkQueueSubmit = c"vkQueueSubmit";
    queue_submit2: vk::PFN_vkQueueSubmit2 = c"vkQueueSubmit2" or c"vkQueueSubmit2KHR";
    queue_wait_idle: vk::PFN_vkQueueWaitIdle = c"vkQueueWaitIdle";
    queue_present: vk::PFN_vkQueuePresentKHR = c"vkQueuePresentKHR";
    acquire: vk::PFN_vkAcquireNextImageKHR = c"vkAcquireNextImageKHR";
    acquire2: vk::PFN_vkAcquireNextImage2KHR = c"vkAcquireNextImage2KHR";
    create_fence: vk::PFN_vkCreateFence = c"vkCreateFence";
    destroy_fence: vk::PFN_vkDestroyFence = c"vkDestroyFence";
    reset_fences: vk::PFN_vkResetFences = c"vkResetFences";
    fence_status: vk::PFN_vkGetFenceStatus = c"vkGetFenceStatus";
    wait_fences: vk::PFN_vkWaitForFences = c"vkWaitForFences";
    get_fence_fd: vk::PFN_vkGetFenceFdKHR = c"vkGetFenceFdKHR";
    import_fence_fd: vk::PFN_vkImportFenceFdKHR = c"vkImportFenceFdKHR";
    create_semaphore: vk::PFN_vkCreateSemaphore = c"vkCreateSemaphore";
    destroy_semaphore: vk::PFN_vkDestroySemaphore = c"vkDestroySemaphore";
    counter_value: vk::PFN_vkGetSemaphoreCounterValue = c"vkGetSemaphoreCounterValue" or c"vkGetSemaphoreCounterValueKHR";
    wait_semaphores: vk::PFN_vkWaitSemaphores = c"vkWaitSemaphores" or c"vkWaitSemaphoresKHR";
    import_semaphore_fd: vk::PFN_vkImportSemaphoreFdKHR = c"vkImportSemaphoreFdKHR";
    allocate_memory: vk::PFN_vkAllocateMemory = c"vkAllocateMemory";
    free_memory: vk::PFN_vkFreeMemory = c"vkFreeMemory";
    map_memory: vk::PFN_vkMapMemory = c"vkMapMemory";
    create_buffer: vk::PFN_vkCreateBuffer = c"vkCreateBuffer";
    destroy_buffer: vk::PFN_vkDestroyBuffer = c"vkDestroyBuffer";
    bind_buffer: vk::PFN_vkBindBufferMemory = c"vkBindBufferMemory";
    bind_buffer2: vk::PFN_vkBindBufferMemory2 = c"vkBindBufferMemory2" or c"vkBindBufferMemory2KHR";
    create_cache: vk::PFN_vkCreatePipelineCache = c"vkCreatePipelineCache";
    destroy_cache: vk::PFN_vkDestroyPipelineCache = c"vkDestroyPipelineCache";
    cache_data: vk::PFN_vkGetPipelineCacheData = c"vkGetPipelineCacheData";
    merge_caches: vk::PFN_vkMergePipelineCaches = c"vkMergePipelineCaches";
    create_graphics: vk::PFN_vkCreateGraphicsPipelines = c"vkCreateGraphicsPipelines";
    create_compute: vk::PFN_vkCreateComputePipelines = c"vkCreateComputePipelines";
    create_ray_tracing: vk::PFN_vkCreateRayTracingPipelinesKHR = c"vkCreateRayTracingPipelinesKHR";
    create_shaders: vk::PFN_vkCreateShadersEXT = c"vkCreateShadersEXT";
}
