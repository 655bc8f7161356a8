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

use crate::{calls, next, stage, state};

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
        let is_taken = unsafe { next::take(target, entries) };
        is_taken.then(|| make_table(entries))
    });
    let ours = match ours {
        Ok(Some(ours)) => ours,
        Ok(None) => return CL_INVALID_VALUE,
        Err(_panic) => return CL_OUT_OF_HOST_MEMORY,
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
    let _lost = wall(stage::release_all);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    unsafe extern "C" fn flush(_queue: *mut c_void) -> cl_int {
        -1234
    }

    unsafe extern "C" fn release(_memory: *mut c_void) -> cl_int {
        -4321
    }

    /// One test, since the driver's table is one per process.
    #[test]
    fn both_ways_of_initialisation_take_tables_of_any_length() {
        let mut below = [next::empty()];
        below[0].clReleaseMemObject = Some(release);
        below[0].clFlush = Some(flush);
        let (mut count, mut ours) = (7, null());
        // Longer than ours, as newer loaders' tables are, equal, and cut before and after an entry.
        let at = std::mem::offset_of!(cl_icd_dispatch, clReleaseMemObject) / size_of::<usize>();
        for entries in [next::ENTRIES, 149, at + 1, at, 1, 0] {
            let given = cl_uint::try_from(entries).unwrap();
            // SAFETY: the table has at least as many entries as said, the others are valid.
            let answer = unsafe {
                clInitLayerWithProperties(
                    given,
                    below.as_ptr(),
                    &raw mut count,
                    &raw mut ours,
                    null(),
                )
            };
            assert_eq!(answer, CL_SUCCESS);
            assert_eq!(count as usize, entries);
            assert!(!ours.is_null());
            let mut table = next::empty();
            calls::fill(&mut table, entries);
            assert_eq!(table.clReleaseMemObject.is_some(), entries > at);
            assert!(table.clEnqueueReadBuffer.is_none(), "the driver has none");
            let known = next::table().unwrap().clReleaseMemObject;
            assert_eq!(known.is_some(), entries > at, "read past the end");
        }
        // A list that names the layer twice hands it its own functions.
        let mut own = [next::empty()];
        calls::put_read(&mut own[0]);
        let given = cl_uint::try_from(next::ENTRIES).unwrap();
        // SAFETY: as above.
        let answer = unsafe { clInitLayer(given, own.as_ptr(), &raw mut count, &raw mut ours) };
        assert_eq!(answer, CL_INVALID_VALUE);
        // SAFETY: as above; a length beyond our table is cut to it.
        let answer = unsafe { clInitLayer(9, below.as_ptr(), &raw mut count, &raw mut ours) };
        assert_eq!(answer, CL_SUCCESS);
        // SAFETY: null is allowed.
        let answer = unsafe { clInitLayer(9, null(), &raw mut count, &raw mut ours) };
        assert_eq!(answer, CL_INVALID_VALUE);
        // SAFETY: null is allowed.
        let answer = unsafe { clInitLayer(9, below.as_ptr(), null_mut(), &raw mut ours) };
        assert_eq!(answer, CL_INVALID_VALUE);
        assert_eq!(clDeinitLayer(), CL_SUCCESS);
    }

    #[test]
    fn the_layer_says_what_it_is() {
        let mut version: cl_uint = 0;
        let value: *mut c_void = (&raw mut version).cast();
        // SAFETY: four bytes, as said.
        let answer = unsafe { clGetLayerInfo(CL_LAYER_API_VERSION, 4, value, null_mut()) };
        assert_eq!((answer, version), (CL_SUCCESS, 100));
        // SAFETY: three bytes are too few, and nothing is written.
        let answer = unsafe { clGetLayerInfo(CL_LAYER_API_VERSION, 3, value, null_mut()) };
        assert_eq!(answer, CL_INVALID_VALUE);
        let mut size = 0;
        // SAFETY: null value, valid size.
        let answer = unsafe { clGetLayerInfo(CL_LAYER_NAME, 0, null_mut(), &raw mut size) };
        assert_eq!((answer, size), (CL_SUCCESS, 8));
        // SAFETY: as above.
        let answer = unsafe { clGetLayerInfo(1, 0, null_mut(), null_mut()) };
        assert_eq!(answer, CL_INVALID_VALUE);
    }

    #[test]
    fn a_panic_of_ours_stays_behind_the_wall() {
        assert_eq!(wall(|| 5), Some(5));
        let answer: Option<()> = wall(|| panic!("ours"));
        assert_eq!(answer, None);
    }
}
