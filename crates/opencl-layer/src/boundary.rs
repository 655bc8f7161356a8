//! The loader's interface (`cl_loader_layers`) and the wall that no panic passes.
//!
//! Both ways of initialisation are exported: `clInitLayer` for ocl-icd and older loaders,
//! `clInitLayerWithProperties` with `clDeinitLayer` for Khronos' loader from v2026.05.29.
#![expect(unsafe_code, reason = "C functions that the loader calls")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use opencl_sys::cl_icd::cl_icd_dispatch;
use opencl_sys::cl_layer::{
    CL_LAYER_API_VERSION, CL_LAYER_API_VERSION_100, CL_LAYER_NAME, cl_layer_properties,
};
use opencl_sys::{CL_INVALID_VALUE, CL_OUT_OF_HOST_MEMORY, CL_SUCCESS, cl_int, cl_uint};

use crate::{calls, next, state};

/// The name by which the loader's tools list this layer.
const NAME: &[u8] = b"towpath\0";

/// Runs work of ours; a panic in it costs the work, never the program.
#[inline]
pub(crate) fn wall<T>(body: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(body))
        .inspect_err(|_panic| state::get().panicked())
        .ok()
}

/// Answers the layer interface's version and the layer's name.
///
/// # Safety
///
/// `value` is null or valid for `size` bytes, `size_ret` null or valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn clGetLayerInfo(
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let version = CL_LAYER_API_VERSION_100.to_le_bytes();
    let answer: &[u8] = match name {
        CL_LAYER_API_VERSION => &version,
        CL_LAYER_NAME => NAME,
        _ => return CL_INVALID_VALUE,
    };
    if !value.is_null() {
        if size < answer.len() {
            return CL_INVALID_VALUE;
        }
        // SAFETY: `value` has `size` bytes by the caller's promise, which is enough.
        unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), value.cast(), answer.len()) };
    }
    if !size_ret.is_null() {
        // SAFETY: not null, and the caller's promise.
        unsafe { size_ret.write(answer.len()) };
    }
    CL_SUCCESS
}

/// Takes the functions below and hands ours out. Entries that are null pass this layer by.
///
/// # Safety
///
/// `target` has `entries` pointers; the others are null or valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn clInitLayer(
    entries: cl_uint,
    target: *const cl_icd_dispatch,
    entries_ret: *mut cl_uint,
    ours_ret: *mut *const cl_icd_dispatch,
) -> cl_int {
    if target.is_null() || entries_ret.is_null() || ours_ret.is_null() {
        return CL_INVALID_VALUE;
    }
    let entries = entries as usize;
    let ours = catch_unwind(|| {
        // SAFETY: the caller's promise.
        unsafe { next::take(target, entries) };
        make_table(entries)
    });
    let Ok(ours) = ours else {
        return CL_OUT_OF_HOST_MEMORY;
    };
    let count = cl_uint::try_from(entries.min(next::ENTRIES)).unwrap_or(0);
    // SAFETY: checked for null; the caller's promise.
    unsafe { entries_ret.write(count) };
    // SAFETY: as above.
    unsafe { ours_ret.write(ours) };
    CL_SUCCESS
}

/// As [`clInitLayer`]; no property is known, and the list is not read.
///
/// # Safety
///
/// As for [`clInitLayer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn clInitLayerWithProperties(
    entries: cl_uint,
    target: *const cl_icd_dispatch,
    entries_ret: *mut cl_uint,
    ours_ret: *mut *const cl_icd_dispatch,
    _properties: *const cl_layer_properties,
) -> cl_int {
    // SAFETY: the caller's promise is the same.
    unsafe { clInitLayer(entries, target, entries_ret, ours_ret) }
}

/// The loader is about to unload the layer: gives back what the layer holds of OpenCL.
#[unsafe(no_mangle)]
extern "C" fn clDeinitLayer() -> cl_int {
    CL_SUCCESS
}

/// Our table for a loader that knows `entries` entries. One per loader, never freed: the loader keeps it.
fn make_table(entries: usize) -> *const cl_icd_dispatch {
    let mut table = next::empty();
    if state::get().is_needed() {
        calls::fill(&mut table, entries);
    }
    Box::into_raw(Box::new(table))
}
