//! Footprints from the program's arguments. Whatever is odd has none, and the driver answers for it.
#![expect(unsafe_code, reason = "reads the program's origins and regions")]

use std::ffi::c_void;

use opencl_sys::cl_mem;
use towpath_transfer::readback::Footprint;

use crate::images;

/// `bytes` at `pointer`.
#[inline]
pub(crate) fn flat(pointer: *const c_void, bytes: usize) -> Option<Footprint> {
    Footprint::buffer(pointer.addr(), bytes).ok()
}

/// The host side of a buffer rectangle.
///
/// # Safety
///
/// `origin` and `region` are null or three sizes each, as OpenCL demands of the program.
#[inline]
pub(crate) unsafe fn rect(
    pointer: *const c_void,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
) -> Option<Footprint> {
    // SAFETY: the caller's promise.
    let origin = unsafe { triple(origin) }?;
    // SAFETY: the caller's promise.
    let region = unsafe { triple(region) }?;
    Footprint::rect(pointer.addr(), origin, region, row_pitch, slice_pitch).ok()
}

/// The host side of an image region.
///
/// # Safety
///
/// `region` is null or three sizes, as OpenCL demands of the program.
#[inline]
pub(crate) unsafe fn image(
    memory: cl_mem,
    pointer: *const c_void,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
) -> Option<Footprint> {
    // SAFETY: the caller's promise.
    let region = unsafe { triple(region) }?;
    let image = images::get(memory)?;
    Footprint::image(
        pointer.addr(),
        image.shape,
        image.element_bytes,
        region,
        row_pitch,
        slice_pitch,
    )
    .ok()
}

/// Three sizes; `None` if null.
unsafe fn triple(pointer: *const usize) -> Option<[usize; 3]> {
    let pointer = pointer.cast::<[usize; 3]>();
    // SAFETY: not null, and the caller's promise.
    (!pointer.is_null()).then(|| unsafe { pointer.read() })
}
