//! Host to device.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;

use opencl_sys::{
    CL_INVALID_OPERATION, cl_bool, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};
use towpath_ledger::HostPath;

use super::forward;
use crate::footprint;
use crate::observe::{Events, Transfer, around};

/// `clEnqueueWriteBuffer`.
pub(super) unsafe extern "C" fn write_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    pointer: *const c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let call = footprint::buffer(buffer, offset, pointer, size);
    let transfer = Transfer {
        path: HostPath::Upload,
        name: "clEnqueueWriteBuffer",
        events: Events::new(queue, blocking, waits, wait_list, event),
        footprint: call.footprint().ok(),
        call: Some(call),
    };
    around(&transfer, || {
        forward!(
            clEnqueueWriteBuffer(
                queue, buffer, blocking, offset, size, pointer, waits, wait_list, event
            ),
            else CL_INVALID_OPERATION
        )
    })
}

/// `clEnqueueWriteBufferRect`.
pub(super) unsafe extern "C" fn write_buffer_rect(
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
    pointer: *const c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // SAFETY: the program's arguments, which OpenCL demands to be so.
    let call = unsafe {
        footprint::rect(&footprint::Rect {
            memory: buffer,
            origin: buffer_origin,
            host_origin,
            region,
            pitches: [buffer_row, buffer_slice],
            host_pitches: [host_row, host_slice],
            pointer,
        })
    };
    let transfer = Transfer {
        path: HostPath::Upload,
        name: "clEnqueueWriteBufferRect",
        events: Events::new(queue, blocking, waits, wait_list, event),
        footprint: call.and_then(|call| call.footprint().ok()),
        call,
    };
    around(&transfer, || {
        forward!(
            clEnqueueWriteBufferRect(
                queue, buffer, blocking, buffer_origin, host_origin, region, buffer_row,
                buffer_slice, host_row, host_slice, pointer, waits, wait_list, event
            ),
            else CL_INVALID_OPERATION
        )
    })
}

/// `clEnqueueWriteImage`.
pub(super) unsafe extern "C" fn write_image(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    pointer: *const c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // SAFETY: the program's arguments, which OpenCL demands to be so.
    let call =
        unsafe { footprint::image(image, origin, region, [row_pitch, slice_pitch], pointer) };
    let transfer = Transfer {
        path: HostPath::Upload,
        name: "clEnqueueWriteImage",
        events: Events::new(queue, blocking, waits, wait_list, event),
        footprint: call.and_then(|call| call.footprint().ok()),
        call,
    };
    around(&transfer, || {
        forward!(
            clEnqueueWriteImage(
                queue, image, blocking, origin, region, row_pitch, slice_pitch, pointer, waits,
                wait_list, event
            ),
            else CL_INVALID_OPERATION
        )
    })
}
