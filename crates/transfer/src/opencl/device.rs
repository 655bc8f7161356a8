//! Which devices there are, and what they are called.

#![expect(unsafe_code, reason = "calls of the OpenCL ABI")]

use std::ffi::c_void;

use super::abi::{
    DEVICE_IMAGES, DEVICE_MAX_ALLOCATION, DEVICE_NAME, DEVICE_TYPE_ALL, DEVICE_UNIFIED_MEMORY,
    DRIVER_VERSION, Functions, Handle, PLATFORM_NAME, SUCCESS,
};
use crate::engine::{Error, Result};

/// One device of one platform.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its handle.
    pub handle: Handle,
    /// Name of its platform.
    pub platform: String,
    /// Its name.
    pub name: String,
    /// Version of its driver.
    pub driver: String,
    /// Whether it says that it shares memory with the host.
    pub has_unified_memory: bool,
    /// Whether it has images.
    pub has_images: bool,
    /// Largest buffer in bytes.
    pub allocation_bytes_max: u64,
}

// SAFETY: a device handle is a name for something that outlives the process's use of OpenCL.
unsafe impl Send for Device {}
// SAFETY: as above; OpenCL's queries may be called by any thread.
unsafe impl Sync for Device {}

impl Device {
    /// Describes the device of a handle.
    ///
    /// # Safety
    ///
    /// `handle` is a device of the functions' driver.
    #[must_use]
    pub unsafe fn describe(functions: &Functions, handle: Handle, platform: &str) -> Self {
        let query = |name| {
            // SAFETY: the caller's promise; size and pointer are checked by `info`'s two calls.
            info(|size, to, got| unsafe { (functions.device_info)(handle, name, size, to, got) })
        };
        let number = |name| {
            let bytes = query(name);
            bytes
                .iter()
                .rev()
                .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        Self {
            handle,
            platform: platform.to_owned(),
            name: text(&query(DEVICE_NAME)),
            driver: text(&query(DRIVER_VERSION)),
            has_unified_memory: number(DEVICE_UNIFIED_MEMORY) != 0,
            has_images: number(DEVICE_IMAGES) != 0,
            allocation_bytes_max: number(DEVICE_MAX_ALLOCATION),
        }
    }

    /// Whether `wanted` is part of the platform's or device's name, whatever the case.
    #[must_use]
    pub fn matches(&self, wanted: &str) -> bool {
        let wanted = wanted.to_lowercase();
        self.platform.to_lowercase().contains(&wanted) || self.name.to_lowercase().contains(&wanted)
    }
}

/// All devices of all platforms, in the loader's order.
///
/// # Errors
///
/// - [`Error::Driver`]: no platform, or the loader failed.
pub fn devices(functions: &Functions) -> Result<Vec<Device>> {
    let mut found = Vec::new();
    let platforms = handles("clGetPlatformIDs", |count, to, got| {
        // SAFETY: `to` has room for `count` handles, or is null with a count of 0.
        unsafe { (functions.platform_ids)(count, to, got) }
    })?;
    for platform in platforms {
        let name = info(|size, to, got| {
            // SAFETY: the platform comes from the loader; `info` gives a buffer of that size.
            unsafe { (functions.platform_info)(platform, PLATFORM_NAME, size, to, got) }
        });
        let name = text(&name);
        // A platform without a device is an error code there, and no device here.
        let handles = handles("clGetDeviceIDs", |count, to, got| {
            // SAFETY: `to` has room for `count` handles, or is null with a count of 0.
            unsafe { (functions.device_ids)(platform, DEVICE_TYPE_ALL, count, to, got) }
        });
        for handle in handles.unwrap_or_default() {
            // SAFETY: the handle comes from the same functions.
            found.push(unsafe { Device::describe(functions, handle, &name) });
        }
    }
    Ok(found)
}

/// Asks for a count, then for the handles.
fn handles(
    call: &'static str,
    ask: impl Fn(u32, *mut Handle, *mut u32) -> i32,
) -> Result<Vec<Handle>> {
    let mut count = 0;
    let code = ask(0, std::ptr::null_mut(), &raw mut count);
    if code != SUCCESS {
        return Err(Error::Driver { call, code });
    }
    let mut handles = vec![std::ptr::null_mut(); usize::try_from(count).unwrap_or(0)];
    let code = ask(count, handles.as_mut_ptr(), std::ptr::null_mut());
    if code != SUCCESS {
        return Err(Error::Driver { call, code });
    }
    Ok(handles)
}

/// Asks for a size, then for the bytes; empty where the driver refuses.
fn info(ask: impl Fn(usize, *mut c_void, *mut usize) -> i32) -> Vec<u8> {
    let mut size = 0;
    if ask(0, std::ptr::null_mut(), &raw mut size) != SUCCESS || size > INFO_BYTES_MAX {
        return Vec::new();
    }
    let mut bytes = vec![0_u8; size];
    if ask(size, bytes.as_mut_ptr().cast(), std::ptr::null_mut()) != SUCCESS {
        return Vec::new();
    }
    bytes
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// 64 KiB: no name is longer; a larger size is nonsense.
const INFO_BYTES_MAX: usize = 64 << 10;
