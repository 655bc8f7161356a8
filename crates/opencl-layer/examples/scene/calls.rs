//! Reads in short form.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use opencl_sys::{CL_FALSE, CL_TRUE, cl_event, cl_int, cl_mem};

use crate::cl::{Cl, call};

/// A rectangle: device and host side.
#[derive(Clone, Copy)]
pub(crate) struct Rect {
    pub(crate) origin: [usize; 3],
    pub(crate) host_origin: [usize; 3],
    pub(crate) region: [usize; 3],
    pub(crate) row: usize,
    pub(crate) slice: usize,
    pub(crate) host_row: usize,
    pub(crate) host_slice: usize,
}

impl Cl {
    /// A blocking read of `bytes` from the start of a buffer.
    pub(crate) fn read(&self, buffer: cl_mem, bytes: usize, to: *mut c_void) -> cl_int {
        self.read_at(buffer, 0, bytes, to, null_mut())
    }

    pub(crate) fn read_at(
        &self,
        buffer: cl_mem,
        offset: usize,
        bytes: usize,
        to: *mut c_void,
        event: *mut cl_event,
    ) -> cl_int {
        call!(
            self,
            clEnqueueReadBuffer(
                self.queue,
                buffer,
                CL_TRUE,
                offset,
                bytes,
                to,
                0,
                null(),
                event
            )
        )
    }

    /// A read that does not block, after `waits`.
    pub(crate) fn start_read(
        &self,
        buffer: cl_mem,
        bytes: usize,
        to: *mut c_void,
        waits: &[cl_event],
    ) -> (cl_int, cl_event) {
        let mut event = null_mut();
        let list = if waits.is_empty() {
            null()
        } else {
            waits.as_ptr()
        };
        let answer = call!(
            self,
            clEnqueueReadBuffer(
                self.queue,
                buffer,
                CL_FALSE,
                0,
                bytes,
                to,
                u32::try_from(waits.len()).unwrap(),
                list,
                &raw mut event
            )
        );
        (answer, event)
    }

    pub(crate) fn read_rect(&self, buffer: cl_mem, rect: &Rect, to: *mut c_void) -> cl_int {
        call!(
            self,
            clEnqueueReadBufferRect(
                self.queue,
                buffer,
                CL_TRUE,
                rect.origin.as_ptr(),
                rect.host_origin.as_ptr(),
                rect.region.as_ptr(),
                rect.row,
                rect.slice,
                rect.host_row,
                rect.host_slice,
                to,
                0,
                null(),
                null_mut()
            )
        )
    }

    pub(crate) fn read_image(
        &self,
        image: cl_mem,
        region: [usize; 3],
        pitches: [usize; 2],
        to: *mut c_void,
        event: *mut cl_event,
    ) -> cl_int {
        let origin = [0_usize; 3];
        call!(
            self,
            clEnqueueReadImage(
                self.queue,
                image,
                CL_TRUE,
                origin.as_ptr(),
                region.as_ptr(),
                pitches[0],
                pitches[1],
                to,
                0,
                null(),
                event
            )
        )
    }

    pub(crate) fn write(&self, buffer: cl_mem, content: &[u8]) -> cl_int {
        call!(
            self,
            clEnqueueWriteBuffer(
                self.queue,
                buffer,
                CL_TRUE,
                0,
                content.len(),
                content.as_ptr().cast(),
                0,
                null(),
                null_mut()
            )
        )
    }

    pub(crate) fn finish(&self) {
        assert_eq!(call!(self, clFinish(self.queue)), 0);
    }
}
