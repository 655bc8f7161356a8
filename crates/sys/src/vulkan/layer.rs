//! What a layer and the Vulkan loader hand to each other.
//!
//! # Source
//!
//! `vulkan/vk_layer.h` and `LoaderLayerInterface.md` of KhronosGroup/Vulkan-Loader, interface version 2.

use core::ffi::{c_char, c_void};

use ash::vk;

use super::by_width;

/// The version of the loader-to-layer interface that this file describes.
pub const INTERFACE_VERSION: u32 = 2;

/// `VkNegotiateLayerStructType::LAYER_NEGOTIATE_INTERFACE_STRUCT`.
pub const NEGOTIATE_INTERFACE_STRUCT: u32 = 1;

/// `VkLayerFunction::VK_LAYER_LINK_INFO`: the structure carries the chain's next element.
pub const LINK_INFO: u32 = 0;

/// `VkLayerFunction::VK_LOADER_DATA_CALLBACK`: the structure carries the loader's
/// `vkSet{Instance,Device}LoaderData`.
pub const LOADER_DATA_CALLBACK: u32 = 1;

/// The first word of every dispatchable object that a driver makes; the loader writes its table there.
pub const ICD_LOADER_MAGIC: usize = 0x01CD_C0DE;

/// `PFN_GetPhysicalDeviceProcAddr`.
pub type GetPhysicalDeviceProcAddr =
    unsafe extern "system" fn(vk::Instance, *const c_char) -> vk::PFN_vkVoidFunction;

/// `PFN_vkSetDeviceLoaderData`: gives a dispatchable object that a layer made its table.
pub type SetDeviceLoaderData =
    unsafe extern "system" fn(vk::Device, object: *mut c_void) -> vk::Result;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NegotiateLayerInterface {
    /// [`NEGOTIATE_INTERFACE_STRUCT`].
    pub s_type: u32,
    /// Extensions of the structure; none so far.
    pub p_next: *mut c_void,
    /// In: the loader's newest version. Out: the one that is used.
    pub loader_layer_interface_version: u32,
    /// Out: the layer's `vkGetInstanceProcAddr`.
    pub get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    /// Out: the layer's `vkGetDeviceProcAddr`.
    pub get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    /// Out: the layer's `vk_layerGetPhysicalDeviceProcAddr`, or none.
    pub get_physical_device_proc_addr: Option<GetPhysicalDeviceProcAddr>,
}

/// `VkLayerInstanceLink`: the next element of an instance's chain.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InstanceLink {
    /// The link of the layer after the next.
    pub p_next: *mut Self,
    /// The next element's `vkGetInstanceProcAddr`.
    pub next_get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    /// The next element's `vk_layerGetPhysicalDeviceProcAddr`, or none.
    pub next_get_physical_device_proc_addr: Option<GetPhysicalDeviceProcAddr>,
}

/// `VkLayerInstanceCreateInfo` where `function` is [`LINK_INFO`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InstanceCreateInfo {
    /// `LOADER_INSTANCE_CREATE_INFO`.
    pub s_type: vk::StructureType,
    /// The next structure of the application's chain.
    pub p_next: *const c_void,
    /// Which of the union's members is meant.
    pub function: u32,
    /// The union, of which only this member is used here. Advance it before calling the next element.
    pub layer_info: *mut InstanceLink,
}

/// `VkLayerDeviceLink`: the next element of a device's chain.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceLink {
    /// The link of the layer after the next.
    pub p_next: *mut Self,
    /// The next element's `vkGetInstanceProcAddr`.
    pub next_get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    /// The next element's `vkGetDeviceProcAddr`.
    pub next_get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
}

/// `VkLayerDeviceCreateInfo` where `function` is [`LINK_INFO`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceCreateInfo {
    /// `LOADER_DEVICE_CREATE_INFO`.
    pub s_type: vk::StructureType,
    /// The next structure of the application's chain.
    pub p_next: *const c_void,
    /// Which of the union's members is meant.
    pub function: u32,
    /// The union, of which only this member is used here. Advance it before calling the next element.
    pub layer_info: *mut DeviceLink,
}

const _: () = assert!(size_of::<NegotiateLayerInterface>() == by_width(48, 24));
const _: () = assert!(size_of::<InstanceCreateInfo>() == by_width(32, 16));
const _: () = assert!(core::mem::offset_of!(InstanceCreateInfo, layer_info) == by_width(24, 12));
const _: () = assert!(core::mem::offset_of!(DeviceCreateInfo, layer_info) == by_width(24, 12));
const _: () = assert!(size_of::<InstanceLink>() == by_width(24, 12));
