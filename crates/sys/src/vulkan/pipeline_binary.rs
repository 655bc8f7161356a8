//! `VK_KHR_pipeline_binary`, revision 1.
//!
//! # Source
//!
//! Vulkan 1.4 registry, extension 484. Each structure's field order is the registry's.

#![expect(
    unsafe_code,
    reason = "ash's TaggedStructure is a promise about layout"
)]

use core::ffi::{CStr, c_void};

use ash::vk;

use super::by_width;

/// The extension's name.
pub const NAME: &CStr = c"VK_KHR_pipeline_binary";

/// Longest key, in bytes.
pub const MAX_KEY_SIZE: usize = 32;

/// `VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR`.
pub const CREATE_2_CAPTURE_DATA: u64 = 0x8000_0000;

/// `VkPipelineBinaryKHR`, a 64-bit handle; 0 is null.
pub type Handle = u64;

macro_rules! tagged {
    ($name:ident, $number:literal, $doc:literal, { $($(#[$meta:meta])* $field:ident : $type:ty),* $(,)? }) => {
        #[doc = $doc]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            /// The structure's number.
            pub s_type: vk::StructureType,
            /// The next structure.
            pub p_next: *mut c_void,
            $($(#[$meta])* pub $field: $type,)*
        }

        // SAFETY: the structure begins with `sType` and `pNext` and carries the registry's number.
        unsafe impl vk::TaggedStructure for $name {
            const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw($number);
        }
    };
}

tagged!(Features, 1_000_483_000, "`VkPhysicalDevicePipelineBinaryFeaturesKHR`.", {
    /// Whether binaries can be used.
    pipeline_binaries: vk::Bool32,
});
tagged!(Properties, 1_000_483_004, "`VkPhysicalDevicePipelineBinaryPropertiesKHR`.", {
    /// The driver has a cache of its own.
    internal_cache: vk::Bool32,
    /// It can be switched off.
    internal_cache_control: vk::Bool32,
    /// The driver would rather use it than take binaries.
    prefers_internal_cache: vk::Bool32,
    /// It may hold pipelines before the first run.
    precompiled_internal_cache: vk::Bool32,
    /// Binary data is compressed already.
    compressed_data: vk::Bool32,
});
tagged!(InternalCacheControl, 1_000_483_008, "`VkDevicePipelineBinaryInternalCacheControlKHR`.", {
    /// Switches the driver's own cache off for a device.
    disable_internal_cache: vk::Bool32,
});
tagged!(Key, 1_000_483_003, "`VkPipelineBinaryKeyKHR`.", {
    /// Valid bytes of `key`.
    key_size: u32,
    /// The key.
    key: [u8; MAX_KEY_SIZE],
});
tagged!(
    PipelineCreateInfo,
    1_000_483_007,
    "`VkPipelineCreateInfoKHR`: a creation structure hangs in `pNext`.",
    {}
);
tagged!(BinaryCreateInfo, 1_000_483_001, "`VkPipelineBinaryCreateInfoKHR`.", {
    /// Source 1: keys and data.
    keys_and_data: *const KeysAndData,
    /// Source 2: a pipeline created with [`CREATE_2_CAPTURE_DATA`].
    pipeline: vk::Pipeline,
    /// Source 3: a creation structure, looked up in the driver's own cache.
    pipeline_create_info: *const PipelineCreateInfo,
});
tagged!(BinaryInfo, 1_000_483_002, "`VkPipelineBinaryInfoKHR`: makes a pipeline from binaries.", {
    /// Length of `binaries`.
    binary_count: u32,
    /// The binaries, in the order in which they were captured.
    binaries: *const Handle,
});
tagged!(ReleaseInfo, 1_000_483_005, "`VkReleaseCapturedPipelineDataInfoKHR`.", {
    /// The pipeline whose captured data is no longer needed.
    pipeline: vk::Pipeline,
});
tagged!(DataInfo, 1_000_483_006, "`VkPipelineBinaryDataInfoKHR`.", {
    /// The binary asked about.
    binary: Handle,
});
tagged!(HandlesInfo, 1_000_483_009, "`VkPipelineBinaryHandlesInfoKHR`.", {
    /// In: room in `binaries`. Out: how many there are.
    binary_count: u32,
    /// Out: the handles, or null to ask for the count.
    binaries: *mut Handle,
});

/// `VkPipelineBinaryDataKHR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Bytes at `data`.
    pub data_size: usize,
    /// The bytes.
    pub data: *mut c_void,
}

/// `VkPipelineBinaryKeysAndDataKHR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KeysAndData {
    /// Length of both lists.
    pub binary_count: u32,
    /// The keys.
    pub keys: *const Key,
    /// The data of each key.
    pub data: *const Data,
}

/// `vkCreatePipelineBinariesKHR`.
pub type CreatePipelineBinaries = unsafe extern "system" fn(
    vk::Device,
    *const BinaryCreateInfo,
    *const vk::AllocationCallbacks<'_>,
    *mut HandlesInfo,
) -> vk::Result;
/// `vkDestroyPipelineBinaryKHR`.
pub type DestroyPipelineBinary =
    unsafe extern "system" fn(vk::Device, Handle, *const vk::AllocationCallbacks<'_>);
/// `vkGetPipelineKeyKHR`.
pub type GetPipelineKey =
    unsafe extern "system" fn(vk::Device, *const PipelineCreateInfo, *mut Key) -> vk::Result;
/// `vkGetPipelineBinaryDataKHR`.
pub type GetPipelineBinaryData = unsafe extern "system" fn(
    vk::Device,
    *const DataInfo,
    *mut Key,
    *mut usize,
    *mut c_void,
) -> vk::Result;
/// `vkReleaseCapturedPipelineDataKHR`.
pub type ReleaseCapturedPipelineData = unsafe extern "system" fn(
    vk::Device,
    *const ReleaseInfo,
    *const vk::AllocationCallbacks<'_>,
) -> vk::Result;

const _: () = assert!(size_of::<Key>() == by_width(56, 44));
const _: () = assert!(size_of::<Properties>() == by_width(40, 28));
const _: () = assert!(size_of::<BinaryCreateInfo>() == by_width(40, 24));
const _: () = assert!(size_of::<HandlesInfo>() == by_width(32, 16));
