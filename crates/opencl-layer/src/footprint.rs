//! The program's arguments as a transfer. Whatever is odd has none, and the driver answers for it.
#![expect(unsafe_code, reason = "reads the program's origins and regions")]

use std::ffi::c_void;

use opencl_sys::cl_mem;
use towpath_transfer::opencl::{HostRows, Region, Transfer};

use crate::images;

/// `bytes` of a buffer, one after another.
#[inline]
pub(crate) fn buffer(
    memory: cl_mem,
    offset: usize,
    pointer: *const c_void,
    bytes: usize,
) -> Transfer {
    Transfer {
        region: Region::Buffer { memory, offset },
        host: pointer.expose_provenance(),
        rows: HostRows::Bytes(bytes),
    }
}

/// The arguments of a rectangular transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rect {
    pub(crate) memory: cl_mem,
    pub(crate) origin: *const usize,
    pub(crate) host_origin: *const usize,
    pub(crate) region: *const usize,
    /// Rows and slices on the device.
    pub(crate) pitches: [usize; 2],
    /// Rows and slices in the host's memory.
    pub(crate) host_pitches: [usize; 2],
    pub(crate) pointer: *const c_void,
}

/// A rectangle of a buffer.
///
/// # Safety
///
/// The origins and the region are null or three sizes each, as OpenCL demands of the program.
#[inline]
pub(crate) unsafe fn rect(of: &Rect) -> Option<Transfer> {
    // SAFETY: the caller's promise.
    let origin = unsafe { triple(of.origin) }?;
    // SAFETY: the caller's promise.
    let host_origin = unsafe { triple(of.host_origin) }?;
    // SAFETY: the caller's promise.
    let region = unsafe { triple(of.region) }?;
    let [row_pitch, slice_pitch] = of.pitches;
    let [host_row, host_slice] = of.host_pitches;
    Some(Transfer {
        region: Region::Rect {
            memory: of.memory,
            origin,
            region,
            row_pitch,
            slice_pitch,
        },
        host: of.pointer.expose_provenance(),
        rows: HostRows::Rect {
            origin: host_origin,
            row_pitch: host_row,
            slice_pitch: host_slice,
        },
    })
}

/// A region of an image.
///
/// # Safety
///
/// `origin` and `region` are null or three sizes each, as OpenCL demands of the program.
#[inline]
pub(crate) unsafe fn image(
    memory: cl_mem,
    origin: *const usize,
    region: *const usize,
    pitches: [usize; 2],
    pointer: *const c_void,
) -> Option<Transfer> {
    // SAFETY: the caller's promise.
    let origin = unsafe { triple(origin) }?;
    // SAFETY: the caller's promise.
    let region = unsafe { triple(region) }?;
    let image = images::get(memory)?;
    let [row_pitch, slice_pitch] = pitches;
    Some(Transfer {
        region: Region::Image {
            memory,
            origin,
            region,
        },
        host: pointer.expose_provenance(),
        rows: HostRows::Image {
            shape: image.shape,
            element_bytes: image.element_bytes,
            row_pitch,
            slice_pitch,
        },
    })
}

/// Three sizes; `None` if null.
unsafe fn triple(pointer: *const usize) -> Option<[usize; 3]> {
    let pointer = pointer.cast::<[usize; 3]>();
    // SAFETY: not null, and the caller's promise.
    (!pointer.is_null()).then(|| unsafe { pointer.read() })
}
