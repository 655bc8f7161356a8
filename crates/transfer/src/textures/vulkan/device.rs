//! One device of one driver, and what it offers.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::ffi::CStr;

use ash::vk;

use super::super::error::{Error, Result};
use super::failed;

/// What a device offers for transfers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offer {
    /// Its name.
    pub device: String,
    /// Its driver and the driver's version.
    pub driver: String,
    /// Its Vulkan version.
    pub version: (u32, u32),
    /// `minImportedHostPointerAlignment`, if host memory can be imported.
    pub host_import: Option<u64>,
    /// Whether dma-bufs can be imported.
    pub dma_buf_import: bool,
    /// Whether the processor can write images.
    pub host_image_copy: bool,
}

/// A device, open.
pub struct Device {
    pub(super) raw: ash::Device,
    pub(super) queue: vk::Queue,
    pub(super) family: u32,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) host: Option<ash::ext::external_memory_host::Device>,
    pub(super) fd: Option<ash::khr::external_memory_fd::Device>,
    pub(super) copy: Option<ash::ext::host_image_copy::Device>,
    offer: Offer,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("offer", &self.offer)
            .finish_non_exhaustive()
    }
}

impl Device {
    /// Opens the first device whose name contains `name`; without one, a discrete GPU before an
    /// integrated one before a processor.
    ///
    /// # Errors
    ///
    /// [`Error::System`] without a loader, [`Error::Device`] without a device.
    pub fn open(name: Option<&str>) -> Result<Self> {
        let entry = load()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: whole structures without extensions or layers.
        let instance =
            unsafe { entry.create_instance(&create, None) }.map_err(failed("make an instance"))?;
        let found = choose(&instance, name);
        let Ok(physical) = found else {
            // SAFETY: nothing was made of it.
            unsafe { instance.destroy_instance(None) };
            return Err(found.err().unwrap_or(NO_DEVICE));
        };
        Self::over(instance, physical)
    }

    /// What the device offers.
    #[must_use]
    pub const fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Whether images of this format and size can be made as `create` says.
    pub(super) fn takes(&self, create: &vk::ImageCreateInfo<'_>) -> bool {
        let (format, kind) = (create.format, create.image_type);
        let (tiling, usage, flags) = (create.tiling, create.usage, create.flags);
        // SAFETY: a device of this instance, and plain values.
        let limits = unsafe {
            self.instance.get_physical_device_image_format_properties(
                self.physical,
                format,
                kind,
                tiling,
                usage,
                flags,
            )
        };
        limits.is_ok_and(|limits| {
            let most = limits.max_extent;
            create.extent.width <= most.width
                && create.extent.height <= most.height
                && create.extent.depth <= most.depth
                && create.array_layers <= limits.max_array_layers
                && create.mip_levels <= limits.max_mip_levels
        })
    }

    /// The first memory type among `bits` that has `flags`.
    pub(super) fn memory_type(&self, bits: u32, flags: vk::MemoryPropertyFlags) -> Option<u32> {
        (0..self.memory.memory_type_count).find(|&index| {
            let types = &self.memory.memory_types;
            let kind = usize::try_from(index).ok().and_then(|at| types.get(at));
            bits & (1 << index) != 0 && kind.is_some_and(|kind| kind.property_flags.contains(flags))
        })
    }

    fn over(instance: ash::Instance, physical: vk::PhysicalDevice) -> Result<Self> {
        let names = extensions(&instance, physical);
        let has = |name: &CStr| names.iter().any(|found| found.as_c_str() == name);
        let family = family(&instance, physical).ok_or(NO_DEVICE)?;
        let mut offer = offer(&instance, physical, &has);
        let wanted = [
            (
                ash::ext::external_memory_host::NAME,
                offer.host_import.is_some(),
            ),
            (ash::khr::external_memory_fd::NAME, offer.dma_buf_import),
            (vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME, offer.dma_buf_import),
            (ash::ext::host_image_copy::NAME, offer.host_image_copy),
        ];
        let enabled: Vec<_> = wanted
            .iter()
            .filter(|(_, is_wanted)| *is_wanted)
            .map(|(name, _)| name.as_ptr())
            .collect();
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&priorities)];
        let mut host_copy =
            vk::PhysicalDeviceHostImageCopyFeaturesEXT::default().host_image_copy(true);
        let mut create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&enabled);
        if offer.host_image_copy {
            create = create.push_next(&mut host_copy);
        }
        // SAFETY: extensions that the device lists, one queue of a family that it has.
        let raw = unsafe { instance.create_device(physical, &create, None) }
            .map_err(failed("open the device"))?;
        // SAFETY: the queue was asked for above.
        let queue = unsafe { raw.get_device_queue(family, 0) };
        // SAFETY: a device of this instance.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        let host = (offer.host_import.is_some())
            .then(|| ash::ext::external_memory_host::Device::new(&instance, &raw));
        let fd = (offer.dma_buf_import)
            .then(|| ash::khr::external_memory_fd::Device::new(&instance, &raw));
        let copy = (offer.host_image_copy)
            .then(|| ash::ext::host_image_copy::Device::new(&instance, &raw));
        offer.dma_buf_import &= fd.is_some();
        Ok(Self {
            raw,
            queue,
            family,
            memory,
            host,
            fd,
            copy,
            offer,
            instance,
            physical,
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the device holds a reference to it and is gone.
        unsafe { self.raw.destroy_device(None) };
        // SAFETY: the device was its only child.
        unsafe { self.instance.destroy_instance(None) };
    }
}

/// Loads the system's loader, for the life of the process: drivers do not like to be unloaded.
fn load() -> Result<ash::Entry> {
    let missing = |source: libloading::Error| Error::System {
        operation: "load libvulkan.so.1",
        source: std::io::Error::other(source),
    };
    // SAFETY: the loader's initialisers are the system's.
    let library = unsafe { libloading::Library::new("libvulkan.so.1") }.map_err(missing)?;
    let library: &'static libloading::Library = Box::leak(Box::new(library));
    // SAFETY: the symbol has this type in every loader.
    let get_instance_proc_addr =
        *unsafe { library.get(b"vkGetInstanceProcAddr\0") }.map_err(missing)?;
    let functions = ash::StaticFn {
        get_instance_proc_addr,
    };
    // SAFETY: the loader stays loaded.
    Ok(unsafe { ash::Entry::from_static_fn(functions) })
}

fn choose(instance: &ash::Instance, name: Option<&str>) -> Result<vk::PhysicalDevice> {
    // SAFETY: a live instance.
    let all = unsafe { instance.enumerate_physical_devices() }.map_err(failed("list devices"))?;
    let described = all.into_iter().map(|device| {
        // SAFETY: a device of this instance.
        let properties = unsafe { instance.get_physical_device_properties(device) };
        (device, properties)
    });
    let rank = |kind: vk::PhysicalDeviceType| match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
        _ => 3,
    };
    described
        .filter(|(_, properties)| {
            let found = text(&properties.device_name);
            name.is_none_or(|name| found.to_lowercase().contains(&name.to_lowercase()))
        })
        .min_by_key(|(_, properties)| rank(properties.device_type))
        .map(|(device, _)| device)
        .ok_or(NO_DEVICE)
}

fn family(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Option<u32> {
    // SAFETY: a device of this instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    // A family for drawing or computing may also copy, at any place and size.
    let useful = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    let found = families
        .iter()
        .position(|family| family.queue_flags.intersects(useful));
    u32::try_from(found?).ok()
}

fn extensions(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<std::ffi::CString> {
    // SAFETY: a device of this instance.
    let listed = unsafe { instance.enumerate_device_extension_properties(physical) };
    let named = listed.unwrap_or_default().into_iter();
    named
        .filter_map(|found| found.extension_name_as_c_str().ok().map(CStr::to_owned))
        .collect()
}

fn offer(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    has: &dyn Fn(&CStr) -> bool,
) -> Offer {
    let has_host = has(ash::ext::external_memory_host::NAME);
    let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    if has_host {
        properties = properties.push_next(&mut host);
    }
    // SAFETY: structures of extensions that the device has, or of version 1.2.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    let core = properties.properties;
    let mut host_copy = vk::PhysicalDeviceHostImageCopyFeaturesEXT::default();
    let has_copy = has(ash::ext::host_image_copy::NAME);
    if has_copy {
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut host_copy);
        // SAFETY: the structure belongs to an extension that the device has.
        unsafe { instance.get_physical_device_features2(physical, &mut features) };
    }
    Offer {
        device: text(&core.device_name),
        driver: format!(
            "{} {}",
            text(&driver.driver_name),
            text(&driver.driver_info)
        ),
        version: (
            vk::api_version_major(core.api_version),
            vk::api_version_minor(core.api_version),
        ),
        host_import: has_host.then_some(host.min_imported_host_pointer_alignment),
        dma_buf_import: has(ash::khr::external_memory_fd::NAME)
            && has(vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME),
        host_image_copy: has_copy && host_copy.host_image_copy == vk::TRUE,
    }
}

fn text(chars: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|char| char.cast_unsigned())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

const NO_DEVICE: Error = Error::Device {
    operation: "find a device",
    code: 0,
};
