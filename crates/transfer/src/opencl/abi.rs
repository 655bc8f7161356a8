//! The part of the OpenCL ABI that staging uses, as a table of functions.
//!
//! A layer fills the table with the next layer's functions; a Rust program loads it from the system's
//! loader. Handles are opaque pointers, as in the C header.

#![expect(unsafe_code, reason = "function pointers of the OpenCL ABI")]

use std::ffi::{CStr, c_char, c_void};

use crate::engine::{Error, Result};

/// Any OpenCL handle: context, device, queue, memory object, event.
pub type Handle = *mut c_void;

/// `cl_image_format`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct ImageFormat {
    /// Channel order.
    pub order: u32,
    /// Channel type.
    pub channel: u32,
}

/// `cl_image_desc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ImageDescription {
    /// `CL_MEM_OBJECT_IMAGE2D` and others.
    pub kind: u32,
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// Images of an array.
    pub array_size: usize,
    /// Bytes from row to row of a host pointer.
    pub row_pitch: usize,
    /// Bytes from slice to slice of a host pointer.
    pub slice_pitch: usize,
    /// Must be 0.
    pub mip_levels: u32,
    /// Must be 0.
    pub samples: u32,
    /// Memory object to make the image from, or null.
    pub buffer: Handle,
}

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),* $(,)?) -> $answer:ty;)+) => {
        /// The functions that staging calls.
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "each field is the function of that name in the OpenCL specification")]
        #[non_exhaustive]
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $answer,)+
        }

        impl Functions {
            /// Fills the table from a lookup by C name, such as `clEnqueueReadBuffer`.
            ///
            /// # Errors
            ///
            /// - [`Error::Missing`] for the first name that the lookup does not know.
            ///
            /// # Safety
            ///
            /// `lookup` answers null or a function of that name with the ABI of the OpenCL
            /// specification, which stays callable as long as the table is used.
            pub unsafe fn from_lookup(mut lookup: impl FnMut(&CStr) -> *const c_void) -> Result<Self> {
                Ok(Self {
                    $($field: {
                        let found = lookup($name);
                        if found.is_null() {
                            return Err(Error::Missing { call: $name.to_str().unwrap_or("function") });
                        }
                        // SAFETY: not null, and of this type by the caller's promise.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($argument),*) -> $answer,
                            >(found)
                        }
                    },)+
                })
            }

            /// The C names that [`Self::from_lookup`] asks for.
            pub const NAMES: &[&CStr] = &[$($name),+];
        }
    };
}

functions! {
    platform_ids = c"clGetPlatformIDs" (u32, *mut Handle, *mut u32) -> i32;
    platform_info = c"clGetPlatformInfo" (Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    device_ids = c"clGetDeviceIDs" (Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    device_info = c"clGetDeviceInfo" (Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    create_context = c"clCreateContext" (
        *const isize, u32, *const Handle,
        Option<unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void)>,
        *mut c_void, *mut i32
    ) -> Handle;
    retain_context = c"clRetainContext" (Handle) -> i32;
    release_context = c"clReleaseContext" (Handle) -> i32;
    create_queue = c"clCreateCommandQueue" (Handle, Handle, u64, *mut i32) -> Handle;
    release_queue = c"clReleaseCommandQueue" (Handle) -> i32;
    create_buffer = c"clCreateBuffer" (Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
    create_image = c"clCreateImage" (
        Handle, u64, *const ImageFormat, *const ImageDescription, *mut c_void, *mut i32
    ) -> Handle;
    release_memory = c"clReleaseMemObject" (Handle) -> i32;
    map_buffer = c"clEnqueueMapBuffer" (
        Handle, Handle, u32, u64, usize, usize, u32, *const Handle, *mut Handle, *mut i32
    ) -> *mut c_void;
    unmap = c"clEnqueueUnmapMemObject" (
        Handle, Handle, *mut c_void, u32, *const Handle, *mut Handle
    ) -> i32;
    read_buffer = c"clEnqueueReadBuffer" (
        Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle
    ) -> i32;
    write_buffer = c"clEnqueueWriteBuffer" (
        Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle
    ) -> i32;
    read_buffer_rect = c"clEnqueueReadBufferRect" (
        Handle, Handle, u32, *const usize, *const usize, *const usize, usize, usize, usize, usize,
        *mut c_void, u32, *const Handle, *mut Handle
    ) -> i32;
    write_buffer_rect = c"clEnqueueWriteBufferRect" (
        Handle, Handle, u32, *const usize, *const usize, *const usize, usize, usize, usize, usize,
        *const c_void, u32, *const Handle, *mut Handle
    ) -> i32;
    read_image = c"clEnqueueReadImage" (
        Handle, Handle, u32, *const usize, *const usize, usize, usize, *mut c_void,
        u32, *const Handle, *mut Handle
    ) -> i32;
    write_image = c"clEnqueueWriteImage" (
        Handle, Handle, u32, *const usize, *const usize, usize, usize, *const c_void,
        u32, *const Handle, *mut Handle
    ) -> i32;
    copy_buffer = c"clEnqueueCopyBuffer" (
        Handle, Handle, Handle, usize, usize, usize, u32, *const Handle, *mut Handle
    ) -> i32;
    copy_buffer_rect = c"clEnqueueCopyBufferRect" (
        Handle, Handle, Handle, *const usize, *const usize, *const usize, usize, usize, usize, usize,
        u32, *const Handle, *mut Handle
    ) -> i32;
    copy_image_to_buffer = c"clEnqueueCopyImageToBuffer" (
        Handle, Handle, Handle, *const usize, *const usize, usize, u32, *const Handle, *mut Handle
    ) -> i32;
    copy_buffer_to_image = c"clEnqueueCopyBufferToImage" (
        Handle, Handle, Handle, usize, *const usize, *const usize, u32, *const Handle, *mut Handle
    ) -> i32;
    barrier = c"clEnqueueBarrierWithWaitList" (Handle, u32, *const Handle, *mut Handle) -> i32;
    wait_for_events = c"clWaitForEvents" (u32, *const Handle) -> i32;
    event_info = c"clGetEventInfo" (Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    release_event = c"clReleaseEvent" (Handle) -> i32;
    flush = c"clFlush" (Handle) -> i32;
    finish = c"clFinish" (Handle) -> i32;
}

impl Functions {
    /// Loads the system's OpenCL loader, `libOpenCL.so.1`, or another library. It stays loaded until the
    /// process ends: drivers do not bear being unloaded.
    ///
    /// # Errors
    ///
    /// - [`Error::Library`]: not there.
    /// - [`Error::Missing`]: too old for this (OpenCL 1.2 is needed).
    pub fn load(library: &str) -> Result<Self> {
        let failed = |error: libloading::Error| Error::Library {
            library: library.to_owned(),
            reason: error.to_string(),
        };
        // SAFETY: the OpenCL loader runs no code on load that others could meet half-done; it is never
        // unloaded.
        let loaded = unsafe { libloading::os::unix::Library::new(library) }.map_err(failed)?;
        let loaded = std::mem::ManuallyDrop::new(loaded);
        let lookup = |name: &CStr| {
            // SAFETY: the symbol is taken as an address only.
            let symbol = unsafe { loaded.get::<*const c_void>(name.to_bytes_with_nul()) };
            symbol.map_or(std::ptr::null(), |symbol| symbol.into_raw().cast_const())
        };
        // SAFETY: libOpenCL's functions have the ABI of the specification, and stay loaded.
        unsafe { Self::from_lookup(lookup) }
    }
}

/// Success.
pub const SUCCESS: i32 = 0;
/// Blocking call.
pub const TRUE: u32 = 1;
/// Call that returns at once.
pub const FALSE: u32 = 0;
pub(super) const MEM_READ_WRITE: u64 = 1;
pub(super) const MEM_ALLOC_HOST_PTR: u64 = 1 << 4;
pub(super) const MAP_READ_WRITE: u64 = 3;
pub(super) const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
pub(super) const PLATFORM_NAME: u32 = 0x0902;
pub(super) const DEVICE_MAX_ALLOCATION: u32 = 0x1010;
pub(super) const DEVICE_NAME: u32 = 0x102b;
pub(super) const DRIVER_VERSION: u32 = 0x102d;
pub(super) const DEVICE_UNIFIED_MEMORY: u32 = 0x1035;
pub(super) const DEVICE_IMAGES: u32 = 0x1016;
pub(super) const IMAGE_2D: u32 = 0x10f1;
/// `CL_EVENT_COMMAND_EXECUTION_STATUS`.
pub(super) const EVENT_STATUS: u32 = 0x11d3;
/// Red, green, blue, alpha.
pub(super) const RGBA: u32 = 0x10b5;
/// Eight bits, 0 to 1.
pub(super) const UNORM_INT8: u32 = 0x10d2;
/// 32-bit floating point.
pub(super) const FLOAT: u32 = 0x10de;

const _: () = assert!(size_of::<ImageFormat>() == 8);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ImageDescription>() == 72);
