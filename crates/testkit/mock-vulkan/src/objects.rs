//! Objects that the mock only counts and checks: shaders, layouts, command buffers, and the like.

use ash::vk;
use std::sync::Mutex;
use std::sync::PoisonError;
use xxhash_rust::xxh3::xxh3_64;

use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::call;

/// Hash of each live module's code.
pub(crate) static SHADERS: Registry<u64> = Registry::new(Kind::ShaderModule);
pub(crate) static COMMANDS: Registry<()> = Registry::new(Kind::CommandBuffer);
pub(crate) static DEFERRED: Registry<Deferred> = Registry::new(Kind::Deferred);

/// A deferred operation and its answer.
#[derive(Debug)]
pub(crate) struct Deferred(Mutex<vk::Result>);

impl Deferred {
    pub(crate) fn finish(&self, answer: vk::Result) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

/// A create and a destroy function for an object without state.
macro_rules! plain {
    ($module:ident, $kind:ident, $handle:ident, $info:ident, $create:literal, $destroy:literal) => {
        pub(crate) mod $module {
            use super::{Kind, Registry, call, ffi, vk};

            static LIVE: Registry<()> = Registry::new(Kind::$kind);

            pub(crate) extern "system" fn create(
                _device: vk::Device,
                _info: *const vk::$info<'_>,
                _alloc: *const vk::AllocationCallbacks<'_>,
                out: *mut vk::$handle,
            ) -> vk::Result {
                call!($create);
                ffi::put(out, LIVE.add(()));
                vk::Result::SUCCESS
            }

            pub(crate) extern "system" fn destroy(
                _device: vk::Device,
                object: vk::$handle,
                _alloc: *const vk::AllocationCallbacks<'_>,
            ) {
                call!($destroy);
                LIVE.remove($destroy, object);
            }
        }
    };
}

plain!(
    layout,
    PipelineLayout,
    PipelineLayout,
    PipelineLayoutCreateInfo,
    "vkCreatePipelineLayout",
    "vkDestroyPipelineLayout"
);
plain!(
    set_layout,
    SetLayout,
    DescriptorSetLayout,
    DescriptorSetLayoutCreateInfo,
    "vkCreateDescriptorSetLayout",
    "vkDestroyDescriptorSetLayout"
);
plain!(
    render_pass,
    RenderPass,
    RenderPass,
    RenderPassCreateInfo,
    "vkCreateRenderPass",
    "vkDestroyRenderPass"
);
plain!(
    framebuffer,
    Framebuffer,
    Framebuffer,
    FramebufferCreateInfo,
    "vkCreateFramebuffer",
    "vkDestroyFramebuffer"
);
plain!(
    image_view,
    ImageView,
    ImageView,
    ImageViewCreateInfo,
    "vkCreateImageView",
    "vkDestroyImageView"
);
plain!(
    command_pool,
    CommandPool,
    CommandPool,
    CommandPoolCreateInfo,
    "vkCreateCommandPool",
    "vkDestroyCommandPool"
);
plain!(
    query_pool,
    QueryPool,
    QueryPool,
    QueryPoolCreateInfo,
    "vkCreateQueryPool",
    "vkDestroyQueryPool"
);

pub(crate) extern "system" fn create_shader(
    _device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::ShaderModule,
) -> vk::Result {
    let Some(info) = ffi::get(info) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    call!("vkCreateShaderModule", "bytes={}", info.code_size);
    ffi::put(
        out,
        SHADERS.add(xxh3_64(ffi::bytes(info.p_code.cast(), info.code_size))),
    );
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy_shader(
    _device: vk::Device,
    module: vk::ShaderModule,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyShaderModule");
    SHADERS.remove("vkDestroyShaderModule", module);
}

pub(crate) extern "system" fn shader_identifier(
    _device: vk::Device,
    module: vk::ShaderModule,
    out: *mut vk::ShaderModuleIdentifierEXT<'_>,
) {
    call!("vkGetShaderModuleIdentifierEXT");
    let hash = SHADERS.get("vkGetShaderModuleIdentifierEXT", module);
    if let (Some(hash), Some(out)) = (hash, ffi::get_mut(out)) {
        out.identifier_size = 8;
        for (slot, byte) in out.identifier.iter_mut().zip(hash.to_le_bytes()) {
            *slot = byte;
        }
    }
}

pub(crate) extern "system" fn allocate_commands(
    _device: vk::Device,
    info: *const vk::CommandBufferAllocateInfo<'_>,
    out: *mut vk::CommandBuffer,
) -> vk::Result {
    call!("vkAllocateCommandBuffers");
    let count = ffi::get(info).map_or(0, |info| info.command_buffer_count);
    for slot in ffi::list_mut(out, count) {
        *slot = COMMANDS.add_dispatchable(());
    }
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn free_commands(
    _device: vk::Device,
    _pool: vk::CommandPool,
    count: u32,
    commands: *const vk::CommandBuffer,
) {
    call!("vkFreeCommandBuffers");
    for one in ffi::list(commands, count) {
        COMMANDS.remove("vkFreeCommandBuffers", *one);
    }
}

pub(crate) extern "system" fn begin_commands(
    commands: vk::CommandBuffer,
    _info: *const vk::CommandBufferBeginInfo<'_>,
) -> vk::Result {
    let _checked = COMMANDS.get("vkBeginCommandBuffer", commands);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn end_commands(commands: vk::CommandBuffer) -> vk::Result {
    let _checked = COMMANDS.get("vkEndCommandBuffer", commands);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn reset_commands(
    commands: vk::CommandBuffer,
    _flags: vk::CommandBufferResetFlags,
) -> vk::Result {
    let _checked = COMMANDS.get("vkResetCommandBuffer", commands);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn create_deferred(
    _device: vk::Device,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DeferredOperationKHR,
) -> vk::Result {
    call!("vkCreateDeferredOperationKHR");
    ffi::put(
        out,
        DEFERRED.add(Deferred(Mutex::new(vk::Result::NOT_READY))),
    );
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy_deferred(
    _device: vk::Device,
    operation: vk::DeferredOperationKHR,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyDeferredOperationKHR");
    DEFERRED.remove("vkDestroyDeferredOperationKHR", operation);
}

pub(crate) extern "system" fn deferred_join(
    _device: vk::Device,
    operation: vk::DeferredOperationKHR,
) -> vk::Result {
    call!("vkDeferredOperationJoinKHR");
    let _checked = DEFERRED.get("vkDeferredOperationJoinKHR", operation);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn deferred_result(
    _device: vk::Device,
    operation: vk::DeferredOperationKHR,
) -> vk::Result {
    call!("vkGetDeferredOperationResultKHR");
    DEFERRED
        .get("vkGetDeferredOperationResultKHR", operation)
        .map_or(vk::Result::ERROR_UNKNOWN, |operation| {
            *operation.0.lock().unwrap_or_else(PoisonError::into_inner)
        })
}

pub(crate) extern "system" fn deferred_concurrency(
    _device: vk::Device,
    _operation: vk::DeferredOperationKHR,
) -> u32 {
    1
}

pub(crate) mod shader_object {
    use super::{Kind, Registry, call, ffi, vk};

    static LIVE: Registry<()> = Registry::new(Kind::Shader);

    pub(crate) extern "system" fn create(
        _device: vk::Device,
        count: u32,
        _infos: *const vk::ShaderCreateInfoEXT<'_>,
        _alloc: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::ShaderEXT,
    ) -> vk::Result {
        call!("vkCreateShadersEXT", "count={count}");
        for slot in ffi::list_mut(out, count) {
            *slot = LIVE.add(());
        }
        vk::Result::SUCCESS
    }

    pub(crate) extern "system" fn destroy(
        _device: vk::Device,
        shader: vk::ShaderEXT,
        _alloc: *const vk::AllocationCallbacks<'_>,
    ) {
        call!("vkDestroyShaderEXT");
        LIVE.remove("vkDestroyShaderEXT", shader);
    }
}
