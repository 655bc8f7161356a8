//! Shared virtual memory: copies out of it to the host's own, and what belongs to the driver.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;

use opencl_sys::{
    CL_INVALID_OPERATION, CL_SUCCESS, cl_bool, cl_command_queue, cl_context, cl_event, cl_int,
    cl_svm_mem_flags, cl_uint,
};
use towpath_ledger::HostPath;
use towpath_memory::Range;
use towpath_transfer::readback::Footprint;

use super::forward;
use crate::boundary::wall;
use crate::observe::{DRIVER_MEMORY, Events, Transfer, around};

/// `clEnqueueSVMMemcpy`; the target may be memory of the program's own.
pub(super) unsafe extern "C" fn memcpy(
    queue: cl_command_queue,
    blocking: cl_bool,
    target: *mut c_void,
    source: *const c_void,
    size: usize,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let transfer = Transfer {
        path: HostPath::Readback,
        name: "clEnqueueSVMMemcpy",
        events: Events::new(queue, blocking, waits, wait_list, event),
        footprint: Footprint::buffer(target.addr(), size).ok(),
        call: None,
    };
    around(&transfer, || {
        forward!(
            clEnqueueSVMMemcpy(queue, blocking, target, source, size, waits, wait_list, event),
            else CL_INVALID_OPERATION
        )
    })
}

/// `clSVMAlloc`: what it hands out is the driver's.
pub(super) unsafe extern "C" fn alloc(
    context: cl_context,
    flags: cl_svm_mem_flags,
    size: usize,
    alignment: cl_uint,
) -> *mut c_void {
    let pointer = forward!(
        clSVMAlloc(context, flags, size, alignment),
        else std::ptr::null_mut()
    );
    let _lost = wall(|| {
        if let Some(range) = Range::new(pointer.addr(), size) {
            DRIVER_MEMORY.add(range, 0);
        }
    });
    pointer
}

/// `clSVMFree`.
pub(super) unsafe extern "C" fn free(context: cl_context, pointer: *mut c_void) {
    let _lost = wall(|| DRIVER_MEMORY.remove(pointer.addr()));
    forward!(clSVMFree(context, pointer), else ());
}

/// Called by the driver in place of its own free.
type FreeFunction = unsafe extern "C" fn(cl_command_queue, cl_uint, *mut *mut c_void, *mut c_void);

/// `clEnqueueSVMFree`: the memory goes later, and is nobody's to read into from now on.
pub(super) unsafe extern "C" fn enqueue_free(
    queue: cl_command_queue,
    count: cl_uint,
    pointers: *mut *mut c_void,
    function: Option<FreeFunction>,
    data: *mut c_void,
    waits: cl_uint,
    wait_list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // The driver may hand the list to the program's function, so that it is read before.
    // SAFETY: OpenCL demands `count` pointers, or null and 0.
    let list = wall(|| unsafe { freed(pointers, count) }).unwrap_or_default();
    let answer = forward!(
        clEnqueueSVMFree(queue, count, pointers, function, data, waits, wait_list, event),
        else CL_INVALID_OPERATION
    );
    if answer == CL_SUCCESS {
        for address in list {
            DRIVER_MEMORY.remove(address);
        }
    }
    answer
}

/// The addresses in a list of pointers.
unsafe fn freed(pointers: *mut *mut c_void, count: cl_uint) -> Vec<usize> {
    if pointers.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    let list = unsafe { std::slice::from_raw_parts(pointers, count as usize) };
    list.iter().map(|pointer| pointer.addr()).collect()
}
