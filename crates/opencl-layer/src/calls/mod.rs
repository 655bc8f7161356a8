//! The entry functions: each describes the call and forwards it.
#![expect(unsafe_code, reason = "calls the driver's functions")]

mod callbacks;
mod copies;
mod maps;
mod objects;
mod svm;

use std::mem::offset_of;

use opencl_sys::cl_command_queue;
use opencl_sys::cl_icd::cl_icd_dispatch;

use crate::next;

/// Fills `table` with what this layer intercepts, as far as the loader's table reaches and the driver
/// has the function.
pub(crate) fn fill(table: &mut cl_icd_dispatch, entries: usize) {
    let Some(below) = next::table() else { return };
    macro_rules! intercept {
        ($($field:ident: $function:expr;)+) => {
            $(
                let index = offset_of!(cl_icd_dispatch, $field) / size_of::<usize>();
                if index < entries && below.$field.is_some() {
                    table.$field = Some($function);
                }
            )+
        };
    }
    intercept! {
        clEnqueueReadBuffer: copies::read_buffer;
        clEnqueueReadBufferRect: copies::read_buffer_rect;
        clEnqueueReadImage: copies::read_image;
        clEnqueueWriteBuffer: copies::write_buffer;
        clEnqueueWriteBufferRect: copies::write_buffer_rect;
        clEnqueueWriteImage: copies::write_image;
        clEnqueueSVMMemcpy: svm::memcpy;
        clSVMAlloc: svm::alloc;
        clSVMFree: svm::free;
        clEnqueueSVMFree: svm::enqueue_free;
        clEnqueueMapBuffer: maps::map_buffer;
        clEnqueueMapImage: maps::map_image;
        clEnqueueUnmapMemObject: maps::unmap;
        clReleaseMemObject: objects::release_memory;
        clReleaseCommandQueue: objects::release_queue;
        clSetEventCallback: callbacks::set_event_callback;
    }
}

/// Whether a table's reads are this layer's.
pub(crate) fn are_in(table: &cl_icd_dispatch) -> bool {
    let theirs = table.clEnqueueReadBuffer.map(|function| function as usize);
    let mut ours = next::empty();
    put_read(&mut ours);
    theirs.is_some() && theirs == ours.clEnqueueReadBuffer.map(|function| function as usize)
}

/// Puts the entry by which this layer knows its own table.
pub(crate) fn put_read(table: &mut cl_icd_dispatch) {
    table.clEnqueueReadBuffer = Some(copies::read_buffer);
}

/// Flushes the program's queue; an error is the driver's to repeat at the program's own call.
pub(crate) fn flush(queue: cl_command_queue) {
    if let Some(call) = next::table().and_then(|table| table.clFlush) {
        // SAFETY: the queue of the program's call, which the driver checks.
        let _answer = unsafe { call(queue) };
    }
}

/// The driver's function of that name, or the error of a loader that lost it.
macro_rules! forward {
    ($name:ident($($argument:expr),* $(,)?), else $missing:expr) => {
        match $crate::next::table().and_then(|table| table.$name) {
            // SAFETY: the program's own arguments, unchanged.
            Some(call) => unsafe { call($($argument),*) },
            None => $missing,
        }
    };
}
pub(crate) use forward;
