//! Device to host.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;

use opencl_sys::{
    CL_INVALID_OPERATION, cl_bool, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};
use towpath_ledger::HostPath;

use super::forward;
use crate::footprint;
use crate::observe::{Transfer, around};

/// `clEnqueueReadBuffer`.
pub(super) unsafe extern "C" fn read_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    pointer: *mut c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let transfer = Transfer {
        path: HostPath::Readback,
        call: "clEnqueueReadBuffer",
        queue,
        is_blocking: blocking != 0,
        footprint: footprint::flat(pointer, size),
    };
    around(&transfer, || {
        forward!(
            clEnqueueReadBuffer(
                queue, buffer, blocking, offset, size, pointer, waits, wait_list, event
            ),
            else CL_INVALID_OPERATION
        )
    })
}

/// `clEnqueueReadBufferRect`.
pub(super) unsafe extern "C" fn read_buffer_rect(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row: usize,
    buffer_slice: usize,
    host_row: usize,
    host_slice: usize,
    pointer: *mut c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let transfer = Transfer {
        path: HostPath::Readback,
        call: "clEnqueueReadBufferRect",
        queue,
        is_blocking: blocking != 0,
        // SAFETY: the program's arguments, which OpenCL demands to be so.
        footprint: unsafe { footprint::rect(pointer, host_origin, region, host_row, host_slice) },
    };
    around(&transfer, || {
        forward!(
            clEnqueueReadBufferRect(
                queue, buffer, blocking, buffer_origin, host_origin, region, buffer_row,
                buffer_slice, host_row, host_slice, pointer, waits, wait_list, event
            ),
            else CL_INVALID_OPERATION
        )
    })
}

/// `clEnqueueReadImage`.
pub(super) unsafe extern "C" fn read_image(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    pointer: *mut c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let transfer = Transfer {
        path: HostPath::Readback,
        call: "clEnqueueReadImage",
        queue,
        is_blocking: blocking != 0,
        // SAFETY: the program's arguments, which OpenCL demands to be so.
        footprint: unsafe { footprint::image(image, pointer, region, row_pitch, slice_pitch) },
    };
    around(&transfer, || {
        forward!(
            clEnqueueReadImage(
                queue, image, blocking, origin, region, row_pitch, slice_pitch, pointer, waits,
                wait_list, event
            ),
            else CL_INVALID_OPERATION
        )
    })
}
