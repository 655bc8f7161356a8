//! The reads: charge, then pass on unchanged.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use opencl_sys::cl_icd::cl_icd_dispatch;
use opencl_sys::{
    CL_IMAGE_ELEMENT_SIZE, CL_INVALID_OPERATION, CL_SUCCESS, cl_bool, cl_command_queue, cl_event,
    cl_int, cl_mem, cl_uint,
};
use towpath_cold::Rows;

use crate::charge::charge;
use crate::layer::next;

pub(crate) fn fill(table: &mut cl_icd_dispatch) {
    table.clEnqueueReadBuffer = Some(read_buffer);
    table.clEnqueueReadBufferRect = Some(read_buffer_rect);
    table.clEnqueueReadImage = Some(read_image);
    table.clEnqueueSVMMemcpy = Some(svm_memcpy);
}

/// Charges unless something is odd; the driver answers for what is odd.
fn try_charge(call: &str, rows: impl FnOnce() -> Option<Rows>) {
    // A panic costs the charge, never the program.
    let _lost = catch_unwind(AssertUnwindSafe(|| {
        if let Some(rows) = rows() {
            charge(call, &rows);
        }
    }));
}

/// # Safety
///
/// `pointer` is null or names three values.
unsafe fn triple(pointer: *const usize) -> Option<[usize; 3]> {
    // SAFETY: the caller's promise; OpenCL's origins and regions are three `size_t`.
    (!pointer.is_null()).then(|| unsafe { pointer.cast::<[usize; 3]>().read() })
}

unsafe extern "C" fn read_buffer(
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
    try_charge("clEnqueueReadBuffer", || {
        (!pointer.is_null()).then(|| Rows::flat(pointer.addr(), size))
    });
    let Some(call) = next().and_then(|next| next.clEnqueueReadBuffer) else {
        return CL_INVALID_OPERATION;
    };
    // SAFETY: the program's arguments, unchanged.
    unsafe {
        call(
            queue, buffer, blocking, offset, size, pointer, waits, wait_list, event,
        )
    }
}

unsafe extern "C" fn read_buffer_rect(
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
    // SAFETY: the program's promise to OpenCL.
    let origin = unsafe { triple(host_origin) };
    // SAFETY: as above.
    let extent = unsafe { triple(region) };
    try_charge("clEnqueueReadBufferRect", || {
        let base = (!pointer.is_null()).then(|| pointer.addr())?;
        Some(Rows::rect(base, origin?, extent?, host_row, host_slice))
    });
    let Some(call) = next().and_then(|next| next.clEnqueueReadBufferRect) else {
        return CL_INVALID_OPERATION;
    };
    // SAFETY: the program's arguments, unchanged.
    unsafe {
        call(
            queue,
            buffer,
            blocking,
            buffer_origin,
            host_origin,
            region,
            buffer_row,
            buffer_slice,
            host_row,
            host_slice,
            pointer,
            waits,
            wait_list,
            event,
        )
    }
}

unsafe extern "C" fn read_image(
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
    // SAFETY: the program's promise to OpenCL.
    let extent = unsafe { triple(region) };
    try_charge("clEnqueueReadImage", || {
        let base = (!pointer.is_null()).then(|| pointer.addr())?;
        let element = element_size(image)?;
        Some(Rows::image(base, element, extent?, row_pitch, slice_pitch))
    });
    let Some(call) = next().and_then(|next| next.clEnqueueReadImage) else {
        return CL_INVALID_OPERATION;
    };
    // SAFETY: the program's arguments, unchanged.
    unsafe {
        call(
            queue,
            image,
            blocking,
            origin,
            region,
            row_pitch,
            slice_pitch,
            pointer,
            waits,
            wait_list,
            event,
        )
    }
}

unsafe extern "C" fn svm_memcpy(
    queue: cl_command_queue,
    blocking: cl_bool,
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    try_charge("clEnqueueSVMMemcpy", || {
        (!to.is_null()).then(|| Rows::flat(to.addr(), size))
    });
    let Some(call) = next().and_then(|next| next.clEnqueueSVMMemcpy) else {
        return CL_INVALID_OPERATION;
    };
    // SAFETY: the program's arguments, unchanged.
    unsafe { call(queue, blocking, to, from, size, waits, wait_list, event) }
}

fn element_size(image: cl_mem) -> Option<usize> {
    let call = next()?.clGetImageInfo?;
    let mut element = 0_usize;
    // SAFETY: `element` has the size given; a bad image is the driver's to refuse.
    let answer = unsafe {
        call(
            image,
            CL_IMAGE_ELEMENT_SIZE,
            size_of::<usize>(),
            (&raw mut element).cast(),
            std::ptr::null_mut(),
        )
    };
    (answer == CL_SUCCESS).then_some(element)
}
