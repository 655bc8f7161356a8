//! Releases: what was kept about an object goes before the driver can use its address again.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;

use opencl_sys::{
    CL_INVALID_OPERATION, CL_MEM_REFERENCE_COUNT, CL_SUCCESS, cl_command_queue, cl_int, cl_mem,
    cl_uint,
};

use super::forward;
use crate::boundary::wall;
use crate::observe::DRIVER_MEMORY;
use crate::{devices, images, inside, next, stage};

/// `clReleaseMemObject`.
pub(super) unsafe extern "C" fn release_memory(memory: cl_mem) -> cl_int {
    let _lost = wall(|| {
        images::forget(memory);
        stage::forget(memory);
        // A program that releases what it never unmapped.
        if DRIVER_MEMORY.has_owner(memory.addr())
            && !inside::is_callback()
            && is_last_reference(memory)
        {
            DRIVER_MEMORY.remove_owner(memory.addr());
        }
    });
    forward!(clReleaseMemObject(memory), else CL_INVALID_OPERATION)
}

/// `clReleaseCommandQueue`.
pub(super) unsafe extern "C" fn release_queue(queue: cl_command_queue) -> cl_int {
    let _lost = wall(|| {
        stage::release(queue);
        devices::forget(queue);
    });
    forward!(clReleaseCommandQueue(queue), else CL_INVALID_OPERATION)
}

fn is_last_reference(memory: cl_mem) -> bool {
    let Some(ask) = next::table().and_then(|table| table.clGetMemObjectInfo) else {
        return false;
    };
    let mut count: cl_uint = 0;
    let value: *mut c_void = (&raw mut count).cast();
    let (name, size) = (CL_MEM_REFERENCE_COUNT, size_of::<cl_uint>());
    // SAFETY: `value` has `size` bytes; a bad object is the driver's to refuse.
    let answer = unsafe { ask(memory, name, size, value, std::ptr::null_mut()) };
    answer == CL_SUCCESS && count == 1
}
