//! The driver's functions as the table that staging calls.
#![expect(unsafe_code, reason = "functions of the driver by name")]

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use towpath_transfer::opencl::Functions;

use crate::next;

/// The functions below this layer; `None` where the driver lacks one.
pub(super) fn get() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            // SAFETY: the loader's table has the functions of the specification, and keeps them.
            unsafe { Functions::from_lookup(by_name) }.ok()
        })
        .as_ref()
}

/// Looks a function of the next table up by its C name.
fn by_name(name: &CStr) -> *const c_void {
    let Some(table) = next::table() else {
        return std::ptr::null();
    };
    macro_rules! find {
        ($($function:ident)+) => {
            match name.to_bytes() {
                $(name if name == stringify!($function).as_bytes() => {
                    table.$function.map_or(std::ptr::null(), |call| call as *const c_void)
                })+
                _ => std::ptr::null(),
            }
        };
    }
    find! {
        clGetPlatformIDs clGetPlatformInfo clGetDeviceIDs clGetDeviceInfo
        clCreateContext clRetainContext clReleaseContext
        clCreateCommandQueue clReleaseCommandQueue
        clCreateBuffer clCreateImage clReleaseMemObject
        clEnqueueMapBuffer clEnqueueUnmapMemObject
        clEnqueueReadBuffer clEnqueueReadBufferRect clEnqueueReadImage
        clEnqueueWriteBuffer clEnqueueWriteBufferRect clEnqueueWriteImage
        clEnqueueCopyBuffer clEnqueueCopyBufferRect
        clEnqueueCopyImageToBuffer clEnqueueCopyBufferToImage
        clEnqueueBarrierWithWaitList clWaitForEvents clGetEventInfo clReleaseEvent
        clFlush clFinish
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that staging asks for are known here: an unknown one would switch staging off.
    #[test]
    fn every_function_is_looked_up() {
        let text = include_str!("functions.rs");
        for name in Functions::NAMES {
            let name = name.to_str().unwrap();
            let known = text
                .split(|character: char| !character.is_ascii_alphanumeric())
                .any(|word| word == name);
            assert!(known, "{name}");
        }
    }
}
