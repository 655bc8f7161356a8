//! The loader's and Vulkan's C side: dispatch keys, typed functions, chains of structures.
//!
//! Contract: pointers that come in are the application's or the loader's own, valid for the call by
//! Vulkan's valid usage; what the application passes wrongly the driver would follow as well.

#![expect(
    unsafe_code,
    reason = "raw pointers and untyped functions are the loader's interface"
)]

use core::ffi::{CStr, c_char, c_void};

use ash::vk;
use ash::vk::Handle;
use towpath_sys::vulkan::layer::{DeviceCreateInfo, InstanceCreateInfo, LINK_INFO};

/// The first word of a dispatchable object: equal for all objects of one instance or device.
///
/// 0 where the handle is null.
pub(crate) fn dispatch_key<H: Handle>(handle: H) -> usize {
    let raw = usize::try_from(handle.as_raw()).unwrap_or(0);
    let word = core::ptr::with_exposed_provenance::<usize>(raw);
    // SAFETY: null is answered with `None`; a live dispatchable handle points at the loader's table
    // pointer. A wild one has been followed by the loader's own trampoline before.
    unsafe { word.as_ref() }.copied().unwrap_or(0)
}

/// Casts an untyped function to the type that Vulkan gives its name.
macro_rules! typed {
    ($function:expr, $type:ty) => {{
        let function: ash::vk::PFN_vkVoidFunction = $function;
        // SAFETY: both are nullable function pointers of one ABI; the caller names the type that
        // Vulkan gives the function that was asked for.
        unsafe { core::mem::transmute::<ash::vk::PFN_vkVoidFunction, Option<$type>>(function) }
    }};
}
pub(crate) use typed;

/// Makes a typed function untyped.
macro_rules! untyped {
    ($type:ty, $function:expr) => {{
        let function: $type = $function;
        // SAFETY: function pointers of one ABI; the caller casts back to the type that Vulkan gives
        // this name, which is the one that the line above has checked.
        Some(unsafe { core::mem::transmute::<$type, unsafe extern "system" fn()>(function) })
    }};
}
pub(crate) use untyped;

/// The text of a name that the loader asks for.
pub(crate) fn name<'a>(name: *const c_char) -> &'a [u8] {
    if name.is_null() {
        return b"";
    }
    // SAFETY: not null; valid usage says that it is NUL-terminated.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// What a pointer of the application points at.
pub(crate) fn get<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: null is answered with `None`; else valid usage says that it is live for this call.
    unsafe { pointer.as_ref() }
}

/// As [`get`], for what the application gave to be written.
pub(crate) fn get_mut<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: null is answered with `None`; else valid usage says that it is the call's to write.
    unsafe { pointer.as_mut() }
}

/// A list of the application.
pub(crate) fn list<'a, T>(first: *const T, count: u32) -> &'a [T] {
    match usize::try_from(count) {
        Ok(count) if count > 0 && !first.is_null() => {
            // SAFETY: not null; valid usage says that `count` elements follow.
            unsafe { core::slice::from_raw_parts(first, count) }
        }
        _ => &[],
    }
}

/// As [`list`], for writing.
pub(crate) fn list_mut<'a, T>(first: *mut T, count: u32) -> &'a mut [T] {
    match usize::try_from(count) {
        Ok(count) if count > 0 && !first.is_null() => {
            // SAFETY: not null; valid usage says that `count` elements may be written.
            unsafe { core::slice::from_raw_parts_mut(first, count) }
        }
        _ => &mut [],
    }
}

/// Bytes of the application.
pub(crate) fn bytes<'a>(first: *const c_void, len: usize) -> &'a [u8] {
    if first.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: not null; valid usage says that `len` bytes follow.
    unsafe { core::slice::from_raw_parts(first.cast::<u8>(), len) }
}

/// As [`bytes`], for writing.
pub(crate) fn bytes_mut<'a>(first: *mut c_void, len: usize) -> &'a mut [u8] {
    if first.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: not null; valid usage says that `len` bytes may be written.
    unsafe { core::slice::from_raw_parts_mut(first.cast::<u8>(), len) }
}

/// The structures of a chain, as their common head.
pub(crate) fn chain<'a>(
    first: *const c_void,
) -> impl Iterator<Item = &'a vk::BaseInStructure<'a>> + 'a {
    let mut at = first.cast::<vk::BaseInStructure<'a>>();
    core::iter::from_fn(move || {
        let structure = get(at)?;
        at = structure.p_next;
        Some(structure)
    })
}

/// The structure of type `T` in a chain.
pub(crate) fn chained<'a, T: vk::TaggedStructure>(first: *const c_void) -> Option<&'a T> {
    let found = chain(first).find(|structure| structure.s_type == T::STRUCTURE_TYPE)?;
    get(core::ptr::from_ref(found).cast::<T>())
}

/// The loader's link of an instance chain.
pub(crate) fn instance_link<'a>(first: *const c_void) -> Option<&'a mut InstanceCreateInfo> {
    let found = chain(first).find_map(|structure| {
        let link = core::ptr::from_ref(structure).cast::<InstanceCreateInfo>();
        let is_loader = structure.s_type == vk::StructureType::LOADER_INSTANCE_CREATE_INFO;
        (is_loader && get(link)?.function == LINK_INFO).then_some(link)
    })?;
    // The interface has each layer advance the loader's own structure in place.
    get_mut(found.cast_mut())
}

/// The loader's link of a device chain.
pub(crate) fn device_link<'a>(first: *const c_void) -> Option<&'a mut DeviceCreateInfo> {
    let found = chain(first).find_map(|structure| {
        let link = core::ptr::from_ref(structure).cast::<DeviceCreateInfo>();
        let is_loader = structure.s_type == vk::StructureType::LOADER_DEVICE_CREATE_INFO;
        (is_loader && get(link)?.function == LINK_INFO).then_some(link)
    })?;
    get_mut(found.cast_mut())
}

/// Whether the process runs with more rights than its caller's, so that the environment is not to be
/// trusted.
pub(crate) fn is_setuid() -> bool {
    // SAFETY: reads the auxiliary vector that the kernel gave this process; no side effect.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}
