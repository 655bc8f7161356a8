//! Event callbacks: the layer marks the thread while the program's function runs.
#![expect(unsafe_code, reason = "OpenCL entry points")]

use std::ffi::c_void;

use opencl_sys::{CL_INVALID_OPERATION, CL_SUCCESS, cl_event, cl_int};

use super::forward;
use crate::inside;

type Notify = unsafe extern "C" fn(cl_event, cl_int, *mut c_void);

/// The program's function and its data.
struct Callback {
    notify: Notify,
    data: *mut c_void,
}

/// `clSetEventCallback`.
pub(super) unsafe extern "C" fn set_event_callback(
    event: cl_event,
    at: cl_int,
    notify: Option<Notify>,
    data: *mut c_void,
) -> cl_int {
    let Some(notify) = notify else {
        return forward!(
            clSetEventCallback(event, at, None, data),
            else CL_INVALID_OPERATION
        );
    };
    let callback = Box::into_raw(Box::new(Callback { notify, data }));
    let answer = forward!(
        clSetEventCallback(event, at, Some(run), callback.cast()),
        else CL_INVALID_OPERATION
    );
    if answer != CL_SUCCESS {
        // SAFETY: the driver refused and keeps no pointer; nobody else has it.
        drop(unsafe { Box::from_raw(callback) });
    }
    answer
}

/// Runs the program's function; the driver calls this once for each registration.
unsafe extern "C" fn run(event: cl_event, status: cl_int, callback: *mut c_void) {
    // SAFETY: made by `set_event_callback`, and OpenCL calls each registration once.
    let callback = unsafe { Box::from_raw(callback.cast::<Callback>()) };
    // SAFETY: the program's function with the program's data.
    inside::callback(|| unsafe { (callback.notify)(event, status, callback.data) });
}
