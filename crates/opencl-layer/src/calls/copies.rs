//! Copies between device and host: the same three calls in both directions.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;

use opencl_sys::{
    CL_INVALID_OPERATION, cl_bool, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};
use towpath_ledger::HostPath;

use super::forward;
use crate::footprint;
use crate::observe::{Events, Transfer, around};

/// The calls of one direction, which differ by the driver's function and by who writes to the pointer.
macro_rules! copies {
    (
        $path:path, $pointer:ty:
        $buffer:ident = $buffer_call:ident,
        $rect:ident = $rect_call:ident,
        $image:ident = $image_call:ident,
    ) => {
        #[doc = concat!("`", stringify!($buffer_call), "`.")]
        pub(super) unsafe extern "C" fn $buffer(
            queue: cl_command_queue,
            buffer: cl_mem,
            blocking: cl_bool,
            offset: usize,
            size: usize,
            pointer: $pointer,
            waits: cl_uint,
            wait_list: *const cl_event,
            event: *mut cl_event,
        ) -> cl_int {
            let call = footprint::buffer(buffer, offset, pointer, size);
            let transfer = Transfer {
                path: $path,
                name: stringify!($buffer_call),
                events: Events::new(queue, blocking, waits, wait_list, event),
                footprint: call.footprint().ok(),
                call: Some(call),
            };
            around(&transfer, || {
                forward!(
                    $buffer_call(
                        queue, buffer, blocking, offset, size, pointer, waits, wait_list, event
                    ),
                    else CL_INVALID_OPERATION
                )
            })
        }

        #[doc = concat!("`", stringify!($rect_call), "`.")]
        pub(super) unsafe extern "C" fn $rect(
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
            pointer: $pointer,
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
                path: $path,
                name: stringify!($rect_call),
                events: Events::new(queue, blocking, waits, wait_list, event),
                footprint: call.and_then(|call| call.footprint().ok()),
                call,
            };
            around(&transfer, || {
                forward!(
                    $rect_call(
                        queue, buffer, blocking, buffer_origin, host_origin, region, buffer_row,
                        buffer_slice, host_row, host_slice, pointer, waits, wait_list, event
                    ),
                    else CL_INVALID_OPERATION
                )
            })
        }

        #[doc = concat!("`", stringify!($image_call), "`.")]
        pub(super) unsafe extern "C" fn $image(
            queue: cl_command_queue,
            image: cl_mem,
            blocking: cl_bool,
            origin: *const usize,
            region: *const usize,
            row_pitch: usize,
            slice_pitch: usize,
            pointer: $pointer,
            waits: cl_uint,
            wait_list: *const cl_event,
            event: *mut cl_event,
        ) -> cl_int {
            // SAFETY: the program's arguments, which OpenCL demands to be so.
            let call = unsafe {
                footprint::image(image, origin, region, [row_pitch, slice_pitch], pointer)
            };
            let transfer = Transfer {
                path: $path,
                name: stringify!($image_call),
                events: Events::new(queue, blocking, waits, wait_list, event),
                footprint: call.and_then(|call| call.footprint().ok()),
                call,
            };
            around(&transfer, || {
                forward!(
                    $image_call(
                        queue, image, blocking, origin, region, row_pitch, slice_pitch, pointer, waits,
                        wait_list, event
                    ),
                    else CL_INVALID_OPERATION
                )
            })
        }
    };
}

copies! {
    HostPath::Readback, *mut c_void:
    read_buffer = clEnqueueReadBuffer,
    read_buffer_rect = clEnqueueReadBufferRect,
    read_image = clEnqueueReadImage,
}

copies! {
    HostPath::Upload, *const c_void:
    write_buffer = clEnqueueWriteBuffer,
    write_buffer_rect = clEnqueueWriteBufferRect,
    write_image = clEnqueueWriteImage,
}
