//! The loader's contract: `cl_loader_layers`, through which the next layer's table comes.
#![expect(unsafe_code, reason = "the loader's C interface")]

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use opencl_sys::cl_icd::cl_icd_dispatch;
use opencl_sys::cl_layer::{CL_LAYER_API_VERSION, CL_LAYER_API_VERSION_100, CL_LAYER_NAME};
use opencl_sys::{CL_INVALID_VALUE, CL_SUCCESS, cl_int, cl_uint};

use crate::{calls, charge};

const NAME: &[u8] = b"towpath penalty layer\0";

struct Tables {
    next: *const cl_icd_dispatch,
    ours: cl_icd_dispatch,
}

// SAFETY: the loader's table is never written after start, and ours holds function addresses.
unsafe impl Send for Tables {}
// SAFETY: as above.
unsafe impl Sync for Tables {}

static TABLES: OnceLock<Tables> = OnceLock::new();

/// The table of the layer or driver below, once the loader gave one.
pub(crate) fn next() -> Option<&'static cl_icd_dispatch> {
    let tables = TABLES.get()?;
    // SAFETY: the loader keeps its table for the life of the process (`cl_loader_layers`).
    Some(unsafe { &*tables.next })
}

/// Answers what this layer is.
///
/// # Safety
///
/// The pointers are null or valid for the sizes given with them.
#[unsafe(no_mangle)]
unsafe extern "C" fn clGetLayerInfo(
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let version = CL_LAYER_API_VERSION_100;
    let (from, len): (*const c_char, usize) = match name {
        CL_LAYER_API_VERSION => ((&raw const version).cast(), size_of_val(&version)),
        CL_LAYER_NAME => (NAME.as_ptr().cast(), NAME.len()),
        _ => return CL_INVALID_VALUE,
    };
    if !value.is_null() {
        if size < len {
            return CL_INVALID_VALUE;
        }
        // SAFETY: `from` has `len` bytes, `value` has `size >= len`; they are apart.
        unsafe { std::ptr::copy_nonoverlapping(from, value.cast(), len) };
    }
    if !size_ret.is_null() {
        // SAFETY: not null, and the caller's promise.
        unsafe { size_ret.write(len) };
    }
    CL_SUCCESS
}

/// Takes the next table and hands ours back.
///
/// # Safety
///
/// `target` has `entries` function pointers and lives as long as the process.
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
    let known = size_of::<cl_icd_dispatch>() / size_of::<usize>();
    // Up to the last entry that this layer reads in `next`: clEnqueueSVMMemcpy.
    let needed = std::mem::offset_of!(cl_icd_dispatch, clEnqueueSVMMemcpy) / size_of::<usize>() + 1;
    let entries = usize::try_from(entries).unwrap_or(0);
    if entries < needed {
        return CL_INVALID_VALUE;
    }
    let tables = TABLES.get_or_init(|| {
        // SAFETY: every entry is a nullable function pointer, and null means "pass on".
        let mut ours: cl_icd_dispatch = unsafe { std::mem::zeroed() };
        calls::fill(&mut ours);
        Tables { next: target, ours }
    });
    // SAFETY: checked for null; the caller's promise.
    unsafe { entries_ret.write(cl_uint::try_from(known.min(entries)).unwrap_or(0)) };
    // SAFETY: as above.
    unsafe { ours_ret.write(&raw const tables.ours) };
    CL_SUCCESS
}

/// Cold pages charged for since the process began.
#[unsafe(no_mangle)]
extern "C" fn towpath_penalty_cold_pages() -> u64 {
    charge::CHARGED.load(Ordering::Relaxed)
}
