//! Physical devices: a GPU of fixed ids under one or more drivers.

use core::ffi::c_char;
use std::sync::{Arc, OnceLock};

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as binary;
use xxhash_rust::xxh3::xxh3_128;

use crate::blob::Identity;
use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::script::script;

const VENDOR: u32 = 0x10de_face;
const DEVICE: u32 = 0x70b0;
const DRIVER_VERSION: u32 = 42;

/// One driver's view of the GPU; the name is the driver's identity.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) name: String,
}

static DEVICES: Registry<Physical> = Registry::new(Kind::PhysicalDevice);

pub(crate) fn get(call: &'static str, device: vk::PhysicalDevice) -> Option<Arc<Physical>> {
    DEVICES.get(call, device)
}

/// The process's physical devices.
pub(crate) fn all() -> &'static [vk::PhysicalDevice] {
    static ALL: OnceLock<Vec<vk::PhysicalDevice>> = OnceLock::new();
    ALL.get_or_init(|| {
        (1..=script().devices)
            .map(|number| {
                let suffix = if number == 1 {
                    String::new()
                } else {
                    number.to_string()
                };
                let name = format!("{}{suffix}", script().identity);
                DEVICES.add_dispatchable(Physical { name })
            })
            .collect()
    })
}

impl Physical {
    pub(crate) fn identity(&self) -> Identity {
        let uuid = xxh3_128(self.name.as_bytes()).to_le_bytes();
        Identity {
            vendor: VENDOR,
            device: DEVICE,
            uuid,
        }
    }

    fn properties(&self) -> vk::PhysicalDeviceProperties {
        vk::PhysicalDeviceProperties {
            api_version: vk::API_VERSION_1_3,
            driver_version: DRIVER_VERSION,
            vendor_id: VENDOR,
            device_id: DEVICE,
            device_type: vk::PhysicalDeviceType::VIRTUAL_GPU,
            device_name: ffi::fixed("towpath mock GPU"),
            pipeline_cache_uuid: self.identity().uuid,
            limits: limits(),
            ..Default::default()
        }
    }
}

fn limits() -> vk::PhysicalDeviceLimits {
    vk::PhysicalDeviceLimits {
        max_image_dimension2_d: 16_384,
        max_memory_allocation_count: u32::MAX,
        max_bound_descriptor_sets: 8,
        max_push_constants_size: 256,
        max_viewports: 16,
        max_viewport_dimensions: [16_384, 16_384],
        max_framebuffer_width: 16_384,
        max_framebuffer_height: 16_384,
        max_framebuffer_layers: 2048,
        max_color_attachments: 8,
        max_vertex_input_attributes: 32,
        max_vertex_input_bindings: 32,
        max_compute_work_group_count: [65_535; 3],
        max_compute_work_group_invocations: 1024,
        max_compute_work_group_size: [1024, 1024, 64],
        min_memory_map_alignment: 16,
        non_coherent_atom_size: 64,
        timestamp_period: 1.0,
        line_width_range: [1.0, 1.0],
        ..Default::default()
    }
}

pub(crate) extern "system" fn properties(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties,
) {
    if let Some(device) = get("vkGetPhysicalDeviceProperties", device) {
        ffi::put(out, device.properties());
    }
}

pub(crate) extern "system" fn properties2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    let device = get("vkGetPhysicalDeviceProperties2", device);
    let (Some(device), Some(out)) = (device, ffi::get_mut(out)) else {
        return;
    };
    out.properties = device.properties();
    let info = format!("mock {}", device.name);
    if let Some(driver) = ffi::chained_mut::<vk::PhysicalDeviceDriverProperties<'_>>(out.p_next) {
        driver.driver_id = vk::DriverId::MESA_LLVMPIPE;
        driver.driver_name = ffi::fixed("towpath mock");
        driver.driver_info = ffi::fixed(&info);
    }
    if let Some(ids) = ffi::chained_mut::<vk::PhysicalDeviceIDProperties<'_>>(out.p_next) {
        ids.device_uuid = [1; 16];
        ids.driver_uuid = device.identity().uuid;
    }
    if let Some(wide) = ffi::chained_mut::<vk::PhysicalDeviceVulkan12Properties<'_>>(out.p_next) {
        wide.driver_id = vk::DriverId::MESA_LLVMPIPE;
        wide.driver_name = ffi::fixed("towpath mock");
        wide.driver_info = ffi::fixed(&info);
    }
    if let Some(binaries) = ffi::chained_mut::<binary::Properties>(out.p_next) {
        binaries.internal_cache = vk::Bool32::from(script().internal_cache);
        binaries.internal_cache_control = vk::TRUE;
        binaries.prefers_internal_cache = vk::FALSE;
        binaries.precompiled_internal_cache = vk::FALSE;
        binaries.compressed_data = vk::FALSE;
    }
}

pub(crate) extern "system" fn features(
    _device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceFeatures,
) {
    ffi::put(
        out,
        vk::PhysicalDeviceFeatures {
            robust_buffer_access: vk::TRUE,
            sampler_anisotropy: vk::TRUE,
            fill_mode_non_solid: vk::TRUE,
            ..Default::default()
        },
    );
}

type Control<'a> = vk::PhysicalDevicePipelineCreationCacheControlFeatures<'a>;

pub(crate) extern "system" fn features2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceFeatures2<'_>,
) {
    let Some(out) = ffi::get_mut(out) else {
        return;
    };
    features(device, &raw mut out.features);
    let control = vk::Bool32::from(script().cache_control);
    if let Some(wide) = ffi::chained_mut::<vk::PhysicalDeviceVulkan12Features<'_>>(out.p_next) {
        wide.timeline_semaphore = vk::TRUE;
    }
    if let Some(one) =
        ffi::chained_mut::<vk::PhysicalDeviceTimelineSemaphoreFeatures<'_>>(out.p_next)
    {
        one.timeline_semaphore = vk::TRUE;
    }
    if let Some(wide) = ffi::chained_mut::<vk::PhysicalDeviceVulkan13Features<'_>>(out.p_next) {
        wide.pipeline_creation_cache_control = control;
        wide.synchronization2 = vk::TRUE;
        wide.dynamic_rendering = vk::TRUE;
        wide.maintenance4 = vk::TRUE;
    }
    if let Some(one) = ffi::chained_mut::<Control<'_>>(out.p_next) {
        one.pipeline_creation_cache_control = control;
    }
    if let Some(one) =
        ffi::chained_mut::<vk::PhysicalDeviceSynchronization2Features<'_>>(out.p_next)
    {
        one.synchronization2 = vk::TRUE;
    }
    if let Some(one) = ffi::chained_mut::<binary::Features>(out.p_next) {
        one.pipeline_binaries = vk::Bool32::from(script().binaries);
    }
}

const FAMILY: vk::QueueFamilyProperties = vk::QueueFamilyProperties {
    queue_flags: vk::QueueFlags::from_raw(0b111),
    queue_count: 1,
    timestamp_valid_bits: 64,
    min_image_transfer_granularity: vk::Extent3D {
        width: 1,
        height: 1,
        depth: 1,
    },
};

pub(crate) extern "system" fn queue_families(
    _device: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut vk::QueueFamilyProperties,
) {
    let _incomplete = ffi::enumerate(&[FAMILY], count, out);
}

pub(crate) extern "system" fn queue_families2(
    _device: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut vk::QueueFamilyProperties2<'_>,
) {
    let Some(room) = ffi::get_mut(count) else {
        return;
    };
    for slot in ffi::list_mut(out, *room).iter_mut().take(1) {
        slot.queue_family_properties = FAMILY;
    }
    *room = 1;
}

fn memory() -> vk::PhysicalDeviceMemoryProperties {
    type Flags = vk::MemoryPropertyFlags;
    let shared = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    let mut properties = vk::PhysicalDeviceMemoryProperties {
        memory_type_count: 3,
        memory_heap_count: 1,
        ..Default::default()
    };
    let kinds = [Flags::DEVICE_LOCAL, shared, shared | Flags::HOST_CACHED];
    for (slot, property_flags) in properties.memory_types.iter_mut().zip(kinds) {
        *slot = vk::MemoryType {
            property_flags,
            heap_index: 0,
        };
    }
    if let Some(heap) = properties.memory_heaps.first_mut() {
        *heap = vk::MemoryHeap {
            size: 8 << 30,
            flags: vk::MemoryHeapFlags::DEVICE_LOCAL,
        };
    }
    properties
}

pub(crate) extern "system" fn memory_properties(
    _device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceMemoryProperties,
) {
    ffi::put(out, memory());
}

pub(crate) extern "system" fn memory_properties2(
    _device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    if let Some(out) = ffi::get_mut(out) {
        out.memory_properties = memory();
    }
}

const FORMAT: vk::FormatProperties = vk::FormatProperties {
    linear_tiling_features: vk::FormatFeatureFlags::from_raw(0xdd83),
    optimal_tiling_features: vk::FormatFeatureFlags::from_raw(0xdd83),
    buffer_features: vk::FormatFeatureFlags::from_raw(0x58),
};

pub(crate) extern "system" fn format_properties(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    out: *mut vk::FormatProperties,
) {
    ffi::put(out, FORMAT);
}

pub(crate) extern "system" fn format_properties2(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    out: *mut vk::FormatProperties2<'_>,
) {
    if let Some(out) = ffi::get_mut(out) {
        out.format_properties = FORMAT;
    }
}

fn image() -> vk::ImageFormatProperties {
    vk::ImageFormatProperties {
        max_extent: vk::Extent3D {
            width: 16_384,
            height: 16_384,
            depth: 1,
        },
        max_mip_levels: 15,
        max_array_layers: 2048,
        sample_counts: vk::SampleCountFlags::TYPE_1,
        max_resource_size: 1 << 31,
    }
}

pub(crate) extern "system" fn image_format_properties(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    _type: vk::ImageType,
    _tiling: vk::ImageTiling,
    _usage: vk::ImageUsageFlags,
    _flags: vk::ImageCreateFlags,
    out: *mut vk::ImageFormatProperties,
) -> vk::Result {
    ffi::put(out, image());
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn image_format_properties2(
    _device: vk::PhysicalDevice,
    _info: *const vk::PhysicalDeviceImageFormatInfo2<'_>,
    out: *mut vk::ImageFormatProperties2<'_>,
) -> vk::Result {
    if let Some(out) = ffi::get_mut(out) {
        out.image_format_properties = image();
    }
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn sparse_properties(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    _type: vk::ImageType,
    _samples: vk::SampleCountFlags,
    _usage: vk::ImageUsageFlags,
    _tiling: vk::ImageTiling,
    count: *mut u32,
    _out: *mut vk::SparseImageFormatProperties,
) {
    ffi::put(count, 0);
}

pub(crate) extern "system" fn sparse_properties2(
    _device: vk::PhysicalDevice,
    _info: *const vk::PhysicalDeviceSparseImageFormatInfo2<'_>,
    count: *mut u32,
    _out: *mut vk::SparseImageFormatProperties2<'_>,
) {
    ffi::put(count, 0);
}

pub(crate) extern "system" fn layers(
    _device: vk::PhysicalDevice,
    count: *mut u32,
    _out: *mut vk::LayerProperties,
) -> vk::Result {
    ffi::put(count, 0);
    vk::Result::SUCCESS
}

/// Device extensions; the second column is when it is there.
fn extension_list() -> Vec<&'static str> {
    let mut names = vec![
        "VK_KHR_swapchain",
        "VK_KHR_timeline_semaphore",
        "VK_KHR_synchronization2",
        "VK_KHR_external_fence",
        "VK_KHR_external_fence_fd",
        "VK_KHR_deferred_host_operations",
        "VK_KHR_acceleration_structure",
        "VK_KHR_ray_tracing_pipeline",
        "VK_KHR_pipeline_library",
        "VK_EXT_graphics_pipeline_library",
        "VK_EXT_shader_module_identifier",
        "VK_EXT_shader_object",
        "VK_KHR_maintenance5",
        "VK_EXT_pipeline_creation_feedback",
    ];
    if script().cache_control {
        names.push("VK_EXT_pipeline_creation_cache_control");
    }
    if script().binaries {
        names.push("VK_KHR_pipeline_binary");
    }
    names
}

pub(crate) fn has_extension(name: &str) -> bool {
    extension_list().contains(&name)
}

pub(crate) extern "system" fn extensions(
    _device: vk::PhysicalDevice,
    _layer: *const c_char,
    count: *mut u32,
    out: *mut vk::ExtensionProperties,
) -> vk::Result {
    let names = extension_list();
    let all: Vec<_> = names
        .iter()
        .map(|name| vk::ExtensionProperties {
            extension_name: ffi::fixed(name),
            spec_version: 1,
        })
        .collect();
    ffi::enumerate(&all, count, out)
}

pub(crate) extern "system" fn external_fences(
    _device: vk::PhysicalDevice,
    _info: *const vk::PhysicalDeviceExternalFenceInfo<'_>,
    out: *mut vk::ExternalFenceProperties<'_>,
) {
    type Types = vk::ExternalFenceHandleTypeFlags;
    type Features = vk::ExternalFenceFeatureFlags;
    if let Some(out) = ffi::get_mut(out) {
        out.export_from_imported_handle_types = Types::SYNC_FD;
        out.compatible_handle_types = Types::SYNC_FD;
        out.external_fence_features = Features::EXPORTABLE | Features::IMPORTABLE;
    }
}

pub(crate) extern "system" fn external_semaphores(
    _device: vk::PhysicalDevice,
    _info: *const vk::PhysicalDeviceExternalSemaphoreInfo<'_>,
    _out: *mut vk::ExternalSemaphoreProperties<'_>,
) {
}

pub(crate) extern "system" fn external_buffers(
    _device: vk::PhysicalDevice,
    _info: *const vk::PhysicalDeviceExternalBufferInfo<'_>,
    _out: *mut vk::ExternalBufferProperties<'_>,
) {
}
