//! Vulkan calls with their traps taken out: sizes that lie, incomplete data, handles that must go.

use std::ffi::CStr;

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as binary;

use crate::bytes::len64;
use crate::error::{Error, Result};
use crate::identity::{Identity, driver_files};
use crate::policy::Offers;
use crate::saving::{BlobSource, Fetched};

/// What identifies the driver of a physical device.
///
/// # Cost
///
/// One query, and `/proc/self/maps` read once for the driver's files.
///
/// # Safety
///
/// `physical` is a physical device of `instance`, whose API version is at least 1.1.
pub unsafe fn identity(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Identity {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut ids = vk::PhysicalDeviceIDProperties::default();
    let mut all = vk::PhysicalDeviceProperties2::default()
        .push_next(&mut ids)
        .push_next(&mut driver);
    // SAFETY: the caller's promise; the chain's structures live on this stack.
    unsafe { instance.get_physical_device_properties2(physical, &mut all) };
    let properties = all.properties;
    let driver_text = format!(
        "{} {}",
        text(&driver.driver_name),
        text(&driver.driver_info)
    );
    Identity {
        vendor: properties.vendor_id,
        device: properties.device_id,
        cache_uuid: properties.pipeline_cache_uuid,
        driver_version: properties.driver_version,
        driver_id: driver.driver_id.as_raw().cast_unsigned(),
        driver_uuid: ids.driver_uuid,
        driver_text,
        device_name: text(&properties.device_name),
        pointer_bytes: u32::try_from(size_of::<usize>()).unwrap_or(0),
        driver_files: driver_files(properties.vendor_id),
        extra: Vec::new(),
    }
}

/// What a physical device offers for saving pipelines; the caller adds what its program does.
///
/// Whether the device was made with them is the caller's to know: a feature that is offered must be
/// switched on at vkCreateDevice.
///
/// # Cost
///
/// Three queries.
///
/// # Safety
///
/// As [`identity`].
pub unsafe fn offers(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Offers {
    let mut binaries = binary::Features {
        s_type: <binary::Features as vk::TaggedStructure>::STRUCTURE_TYPE,
        p_next: std::ptr::null_mut(),
        pipeline_binaries: vk::FALSE,
    };
    // SAFETY: the physical device is the instance's by the caller's promise.
    let all = unsafe { instance.enumerate_device_extension_properties(physical) };
    let has_extension = all.unwrap_or_default();
    let has_extension = has_extension
        .iter()
        .any(|one| one.extension_name_as_c_str() == Ok(binary::NAME));
    let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut control);
    if has_extension {
        // Linked by hand: ash 0.38 does not know the extension.
        binaries.p_next = features.p_next;
        features.p_next = (&raw mut binaries).cast();
    }
    // SAFETY: as above; the chain's structures live on this stack.
    unsafe { instance.get_physical_device_features2(physical, &mut features) };
    let has_cache_control = control.pipeline_creation_cache_control == vk::TRUE;
    let has_binaries = has_extension && binaries.pipeline_binaries == vk::TRUE;
    // SAFETY: as above.
    let prefers_internal_cache =
        has_binaries && unsafe { prefers_internal_cache(instance, physical) };
    Offers {
        has_cache_control,
        has_binaries,
        prefers_internal_cache,
        is_32_bit: size_of::<usize>() == 4,
        ..Offers::default()
    }
}

/// # Safety
///
/// As [`identity`]; the device has VK_KHR_pipeline_binary.
unsafe fn prefers_internal_cache(instance: &ash::Instance, physical: vk::PhysicalDevice) -> bool {
    let mut own = binary::Properties {
        s_type: <binary::Properties as vk::TaggedStructure>::STRUCTURE_TYPE,
        p_next: std::ptr::null_mut(),
        internal_cache: vk::FALSE,
        internal_cache_control: vk::FALSE,
        prefers_internal_cache: vk::FALSE,
        precompiled_internal_cache: vk::FALSE,
        compressed_data: vk::FALSE,
    };
    let mut all = vk::PhysicalDeviceProperties2 {
        p_next: (&raw mut own).cast(),
        ..Default::default()
    };
    // SAFETY: the caller's promise; the chain's structures live on this stack.
    unsafe { instance.get_physical_device_properties2(physical, &mut all) };
    own.prefers_internal_cache == vk::TRUE
}

/// A fixed-size C string as text; bytes that are no text are replaced.
fn text(chars: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| c.to_le_bytes()).map(|[b]| b).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(
        |_no_nul| String::from_utf8_lossy(&bytes).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// A pipeline cache of this crate; destroyed with its last user.
pub(super) struct Cache {
    device: ash::Device,
    handle: vk::PipelineCache,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({:?})", self.handle)
    }
}

impl Cache {
    /// Makes a cache from `initial`, which may be empty.
    ///
    /// # Safety
    ///
    /// `device` is alive and outlives the cache; `initial` is a blob that [`crate::safety::check`] let pass.
    pub(super) unsafe fn new(device: &ash::Device, initial: &[u8]) -> Result<Self> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(initial);
        // SAFETY: the caller's promise; the data is only read during the call.
        let made = unsafe { device.create_pipeline_cache(&info, None) };
        let handle = made.map_err(|code| refused("vkCreatePipelineCache", code))?;
        Ok(Self {
            device: device.clone(),
            handle,
        })
    }

    pub(super) fn handle(&self) -> vk::PipelineCache {
        self.handle
    }

    /// Adds what `source` has; nobody else may use this cache meanwhile.
    pub(super) fn merge(&mut self, source: &Self) -> Result<()> {
        // SAFETY: both caches are of this device and alive; `self` is borrowed alone, which is the
        // external synchronisation that the destination needs.
        let merged = unsafe {
            self.device
                .merge_pipeline_caches(self.handle, &[source.handle])
        };
        merged.map_err(|code| refused("vkMergePipelineCaches", code))
    }

    /// The size that the driver reports, in bytes.
    pub(super) fn size(&self) -> Result<u64> {
        // SAFETY: the cache is alive.
        unsafe { size(&self.device, self.handle) }
    }

    /// The blob; `is_whole` is false where the driver had more than it gave.
    pub(super) fn data(&self) -> Result<(Vec<u8>, bool)> {
        // SAFETY: the cache is alive.
        unsafe { raw_data(&self.device, self.handle) }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: the device outlives the cache by the promise given to `new`; this is the last user.
        unsafe { self.device.destroy_pipeline_cache(self.handle, None) };
    }
}

/// A program's own VkPipelineCache as the source of a [`BlobSaver`](crate::saving::BlobSaver).
#[derive(Clone)]
pub struct CacheSource {
    device: ash::Device,
    cache: vk::PipelineCache,
}

impl std::fmt::Debug for CacheSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CacheSource({:?})", self.cache)
    }
}

impl CacheSource {
    /// Wraps a cache.
    ///
    /// # Safety
    ///
    /// `device` and `cache` stay alive as long as the source is used.
    pub unsafe fn new(device: ash::Device, cache: vk::PipelineCache) -> Self {
        Self { device, cache }
    }
}

impl BlobSource for CacheSource {
    fn size(&mut self) -> Result<u64> {
        // SAFETY: alive by the promise given to `new`.
        unsafe { size(&self.device, self.cache) }
    }

    fn data(&mut self) -> Result<Fetched> {
        // SAFETY: alive by the promise given to `new`.
        let (bytes, is_whole) = unsafe { raw_data(&self.device, self.cache) }?;
        Ok(Fetched { bytes, is_whole })
    }
}

/// The size that the driver reports for `cache`. Not free on Mesa: it serialises every object.
unsafe fn size(device: &ash::Device, cache: vk::PipelineCache) -> Result<u64> {
    let mut bytes = 0_usize;
    let call = device.fp_v1_0().get_pipeline_cache_data;
    // SAFETY: handles are alive by the caller's promise; a null pointer asks for the size.
    let code = unsafe { call(device.handle(), cache, &raw mut bytes, std::ptr::null_mut()) };
    match code {
        vk::Result::SUCCESS | vk::Result::INCOMPLETE => Ok(len64(bytes)),
        code => Err(refused("vkGetPipelineCacheData", code)),
    }
}

/// The bytes of a pipeline cache, and whether they are all of it.
///
/// ash's own wrapper asks again until the answer is complete; a driver whose cache grows all the time
/// would never let it go. Here the size is asked once and the buffer has exactly that size: lavapipe
/// 22.3.6 "fills" any larger one. What was written to it with `VK_INCOMPLETE` is valid by itself.
///
/// # Errors
///
/// [`Error::Driver`]: an error code, or more bytes announced than there was room for.
///
/// # Safety
///
/// `device` and `cache` are alive.
pub unsafe fn raw_data(device: &ash::Device, cache: vk::PipelineCache) -> Result<(Vec<u8>, bool)> {
    // SAFETY: the caller's promise.
    let announced = unsafe { size(device, cache) }?;
    let room = usize::try_from(announced).unwrap_or(usize::MAX);
    let mut data: Vec<u8> = Vec::new();
    if data.try_reserve_exact(room).is_err() {
        return Err(Error::Driver {
            call: "vkGetPipelineCacheData",
            problem: format!("announces {announced} bytes, for which there is no memory"),
        });
    }
    data.resize(room, 0);
    let mut given = room;
    let call = device.fp_v1_0().get_pipeline_cache_data;
    // SAFETY: the caller's promise; the buffer has `given` bytes.
    let code = unsafe {
        call(
            device.handle(),
            cache,
            &raw mut given,
            data.as_mut_ptr().cast(),
        )
    };
    if !matches!(code, vk::Result::SUCCESS | vk::Result::INCOMPLETE) {
        return Err(refused("vkGetPipelineCacheData", code));
    }
    if given > room {
        return Err(Error::Driver {
            call: "vkGetPipelineCacheData",
            problem: format!("says it wrote {given} bytes into {room}"),
        });
    }
    data.truncate(given);
    Ok((data, code == vk::Result::SUCCESS))
}

fn refused(call: &'static str, code: vk::Result) -> Error {
    Error::Driver {
        call,
        problem: format!("answers {code:?} ({})", code.as_raw()),
    }
}
