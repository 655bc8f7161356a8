//! The one place that follows pointers of the application.
//!
//! A driver may trust Vulkan's valid usage: pointers of a call describe live memory of the type and
//! count that the call states, for the length of the call. Nothing here keeps what it was given.

#![expect(
    unsafe_code,
    reason = "an application's arguments are raw pointers; Vulkan's valid usage is the contract"
)]

use core::ffi::{CStr, c_char, c_void};

use ash::vk;

/// A list of `count` elements; empty where the pointer is null.
pub(crate) fn list<'a, T>(first: *const T, count: u32) -> &'a [T] {
    let count = usize::try_from(count).unwrap_or(0);
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and valid usage says that `count` elements follow.
    unsafe { core::slice::from_raw_parts(first, count) }
}

/// As [`list`], for writing.
pub(crate) fn list_mut<'a, T>(first: *mut T, count: u32) -> &'a mut [T] {
    let count = usize::try_from(count).unwrap_or(0);
    if first.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: not null, and valid usage says that `count` elements may be written.
    unsafe { core::slice::from_raw_parts_mut(first, count) }
}

/// Bytes of a blob; empty where the pointer is null.
pub(crate) fn bytes<'a>(first: *const c_void, len: usize) -> &'a [u8] {
    if first.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: not null, and valid usage says that `len` bytes follow.
    unsafe { core::slice::from_raw_parts(first.cast::<u8>(), len) }
}

/// As [`bytes`], for writing.
pub(crate) fn bytes_mut<'a>(first: *mut c_void, len: usize) -> &'a mut [u8] {
    if first.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: not null, and valid usage says that `len` bytes may be written.
    unsafe { core::slice::from_raw_parts_mut(first.cast::<u8>(), len) }
}

/// What a pointer points at, or nothing where it is null.
pub(crate) fn get<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: null is answered with `None`; else valid usage says it is a live value.
    unsafe { pointer.as_ref() }
}

/// As [`get`], for writing.
pub(crate) fn get_mut<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: null is answered with `None`; else valid usage says it is a live value of this call.
    unsafe { pointer.as_mut() }
}

/// Stores `value` unless the pointer is null.
pub(crate) fn put<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: not null; valid usage says that it may be written.
        unsafe { pointer.write(value) };
    }
}

/// A C string; empty where the pointer is null or the bytes are no UTF-8.
pub(crate) fn text<'a>(pointer: *const c_char) -> &'a str {
    if pointer.is_null() {
        return "";
    }
    // SAFETY: not null; valid usage says that it is NUL-terminated.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or("")
}

/// The structure of type `T` in a chain.
pub(crate) fn chained<'a, T: vk::TaggedStructure>(first: *const c_void) -> Option<&'a T> {
    find(first, T::STRUCTURE_TYPE).and_then(|found| get(found.cast::<T>()))
}

/// As [`chained`], for writing.
pub(crate) fn chained_mut<'a, T: vk::TaggedStructure>(first: *mut c_void) -> Option<&'a mut T> {
    find(first, T::STRUCTURE_TYPE).and_then(|found| get_mut(found.cast_mut().cast::<T>()))
}

/// The numbers of a chain's structures, without those that the loader puts in.
pub(crate) fn kinds(first: *const c_void) -> Vec<i32> {
    let mut at = first.cast::<vk::BaseInStructure<'_>>();
    let mut kinds = Vec::new();
    while let Some(structure) = get(at) {
        if structure.s_type != vk::StructureType::LOADER_DEVICE_CREATE_INFO {
            kinds.push(structure.s_type.as_raw());
        }
        at = structure.p_next;
    }
    kinds
}

fn find(first: *const c_void, wanted: vk::StructureType) -> Option<*const c_void> {
    let mut at = first.cast::<vk::BaseInStructure<'_>>();
    while let Some(structure) = get(at) {
        if structure.s_type == wanted {
            return Some(at.cast());
        }
        at = structure.p_next;
    }
    None
}

/// Vulkan's two-call idiom: counts where `out` is null, else fills what fits.
pub(crate) fn enumerate<T: Clone>(all: &[T], count: *mut u32, out: *mut T) -> vk::Result {
    let Some(room) = get_mut(count) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let available = u32::try_from(all.len()).unwrap_or(u32::MAX);
    if out.is_null() {
        *room = available;
        return vk::Result::SUCCESS;
    }
    let given = available.min(*room);
    for (slot, value) in list_mut(out, given).iter_mut().zip(all) {
        *slot = value.clone();
    }
    *room = given;
    if given < available {
        vk::Result::INCOMPLETE
    } else {
        vk::Result::SUCCESS
    }
}

/// Copies `text` into a fixed field of a Vulkan structure, cut to fit and NUL-terminated.
pub(crate) fn fixed<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (slot, byte) in field.iter_mut().take(N - 1).zip(text.bytes()) {
        *slot = c_char::try_from(byte).unwrap_or(0);
    }
    field
}
