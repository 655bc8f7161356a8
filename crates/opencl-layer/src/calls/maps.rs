//! Mappings: the pointers that the driver hands out are its own memory.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;

use opencl_sys::{
    CL_INVALID_OPERATION, CL_SUCCESS, cl_bool, cl_command_queue, cl_event, cl_int, cl_map_flags,
    cl_mem, cl_uint,
};
use towpath_memory::Range;

use super::forward;
use crate::boundary::wall;
use crate::footprint;
use crate::observe::DRIVER_MEMORY;

/// `clEnqueueMapBuffer`.
pub(super) unsafe extern "C" fn map_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    offset: usize,
    size: usize,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
    error: *mut cl_int,
) -> *mut c_void {
    let pointer = forward!(
        clEnqueueMapBuffer(
            queue, buffer, blocking, flags, offset, size, waits, wait_list, event, error
        ),
        else std::ptr::null_mut()
    );
    let _lost = wall(|| {
        if let Some(range) = Range::new(pointer.addr(), size) {
            DRIVER_MEMORY.add(range, buffer.addr());
        }
    });
    pointer
}

/// `clEnqueueMapImage`.
pub(super) unsafe extern "C" fn map_image(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    origin: *const usize,
    region: *const usize,
    row_pitch: *mut usize,
    slice_pitch: *mut usize,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
    error: *mut cl_int,
) -> *mut c_void {
    let pointer = forward!(
        clEnqueueMapImage(
            queue, image, blocking, flags, origin, region, row_pitch, slice_pitch, waits,
            wait_list, event, error
        ),
        else std::ptr::null_mut()
    );
    let _lost = wall(|| {
        // SAFETY: null or written by the driver, since the call succeeded where the pointer is set.
        let row = unsafe { row_pitch.as_ref() }.copied().unwrap_or(0);
        // SAFETY: as above.
        let slice = unsafe { slice_pitch.as_ref() }.copied().unwrap_or(0);
        // SAFETY: the program's arguments, which OpenCL demands to be so.
        let found = unsafe { footprint::image(image, origin, region, [row, slice], pointer) };
        if let Some(footprint) = found.and_then(|call| call.footprint().ok()) {
            DRIVER_MEMORY.add(footprint.envelope(), image.addr());
        } else if let Some(range) = Range::new(pointer.addr(), 1) {
            DRIVER_MEMORY.add(range, image.addr());
        }
    });
    pointer
}

/// `clEnqueueUnmapMemObject`.
pub(super) unsafe extern "C" fn unmap(
    queue: cl_command_queue,
    memory: cl_mem,
    pointer: *mut c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let answer = forward!(
        clEnqueueUnmapMemObject(queue, memory, pointer, waits, wait_list, event),
        else CL_INVALID_OPERATION
    );
    if answer == CL_SUCCESS {
        let _lost = wall(|| DRIVER_MEMORY.remove(pointer.addr()));
    }
    answer
}
