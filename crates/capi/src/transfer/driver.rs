//! The OpenCL loader, opened at run time, and what it knows of the program's objects.

use std::ffi::{CStr, c_char, c_void};

use towpath_transfer::opencl::{Functions, Handle, SUCCESS};
use towpath_transfer::readback::ImageShape;

use crate::boundary::Answer;
use crate::status::tp_status as Status;

type Info = unsafe extern "C" fn(Handle, u32, usize, *mut c_void, *mut usize) -> i32;

/// The functions of a loader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    pub(crate) functions: Functions,
    memory_info: Info,
    image_info: Info,
    queue_info: Info,
}

/// Which functions ask about an object.
#[derive(Clone, Copy, Debug)]
enum About {
    Memory,
    Image,
    Queue,
}

/// An image as transfers see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) shape: ImageShape,
    pub(crate) pixel_bytes: usize,
    /// Pixels, rows, slices (or images of an array).
    pub(crate) size: [usize; 3],
}

/// Why a loader cannot be used, for the log.
pub(crate) type Refusal = String;

impl Driver {
    /// Opens the loader; it stays loaded until the process ends, since drivers do not bear being unloaded.
    ///
    /// # Safety
    ///
    /// `library` is a C string that names an OpenCL loader or driver, whose functions are as specified.
    pub(crate) unsafe fn open(library: *const c_char) -> Result<Self, Refusal> {
        // SAFETY: a C string; that loading it may run its code is the caller's wish.
        let loaded = unsafe { libc::dlopen(library, libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: a C string.
        let name = unsafe { CStr::from_ptr(library) }.to_string_lossy();
        if loaded.is_null() {
            return Err(format!("cannot load {name}"));
        }
        let lookup = |name: &CStr| -> *const c_void {
            // SAFETY: a handle that `dlopen` gave and nobody closes, and a C string.
            unsafe { libc::dlsym(loaded, name.as_ptr()) }.cast_const()
        };
        let info = |name: &CStr| -> Result<Info, Refusal> {
            let found = lookup(name);
            if found.is_null() {
                return Err(format!("the driver has no {}", name.to_string_lossy()));
            }
            // SAFETY: not null, and of this type in the OpenCL specification.
            Ok(unsafe { std::mem::transmute::<*const c_void, Info>(found) })
        };
        // SAFETY: the functions of these names have the ABI of the specification and stay loaded.
        let functions = unsafe { Functions::from_lookup(lookup) };
        Ok(Self {
            functions: functions.map_err(|error| error.to_string())?,
            memory_info: info(c"clGetMemObjectInfo")?,
            image_info: info(c"clGetImageInfo")?,
            queue_info: info(c"clGetCommandQueueInfo")?,
        })
    }

    /// One number that the driver knows of an object.
    fn ask<T: Default>(&self, about: About, object: Handle, name: u32) -> Answer<T> {
        let call = match about {
            About::Memory => self.memory_info,
            About::Image => self.image_info,
            About::Queue => self.queue_info,
        };
        let mut answer = T::default();
        let to: *mut c_void = (&raw mut answer).cast();
        // SAFETY: the object is live by the promise of the entry functions; `to` has the size given.
        let code = unsafe { call(object, name, size_of::<T>(), to, std::ptr::null_mut()) };
        if code == SUCCESS {
            Ok(answer)
        } else {
            Err(Status::TP_ERROR_INVALID)
        }
    }

    /// Whether a queue is of a context.
    pub(crate) fn is_of(&self, queue: Handle, context: Handle) -> Answer {
        let found: usize = self.ask(About::Queue, queue, QUEUE_CONTEXT)?;
        if found == context.addr() {
            Ok(())
        } else {
            Err(Status::TP_ERROR_INVALID)
        }
    }

    /// The bytes of a buffer; other objects are refused.
    pub(crate) fn buffer_bytes(&self, buffer: Handle) -> Answer<usize> {
        let kind: u32 = self.ask(About::Memory, buffer, MEMORY_TYPE)?;
        if kind != OBJECT_BUFFER {
            return Err(Status::TP_ERROR_INVALID);
        }
        self.ask(About::Memory, buffer, MEMORY_SIZE)
    }

    /// An image's shape; other objects, and images made from buffers, are refused.
    pub(crate) fn image(&self, image: Handle) -> Answer<Image> {
        let kind: u32 = self.ask(About::Memory, image, MEMORY_TYPE)?;
        let number = |name| self.ask::<usize>(About::Image, image, name);
        let (width, height) = (number(IMAGE_WIDTH)?, number(IMAGE_HEIGHT)?);
        let (shape, size) = match kind {
            OBJECT_IMAGE_1D => (ImageShape::D1, [width, 1, 1]),
            OBJECT_IMAGE_1D_ARRAY => (ImageShape::D1Array, [width, number(IMAGE_ARRAY)?, 1]),
            OBJECT_IMAGE_2D => (ImageShape::D2, [width, height, 1]),
            OBJECT_IMAGE_2D_ARRAY => (ImageShape::D2Array, [width, height, number(IMAGE_ARRAY)?]),
            OBJECT_IMAGE_3D => (ImageShape::D3, [width, height, number(IMAGE_DEPTH)?]),
            _ => return Err(Status::TP_ERROR_INVALID),
        };
        Ok(Image {
            shape,
            pixel_bytes: number(IMAGE_ELEMENT)?,
            size,
        })
    }

    /// Whether copies by way of memory of our own may stand in for calls on an object: not for memory that the
    /// program or the driver keeps on the host, nor for parts of another object.
    pub(crate) fn may_stage(&self, memory: Handle) -> bool {
        let flags: Answer<u64> = self.ask(About::Memory, memory, MEMORY_FLAGS);
        let parent: Answer<usize> = self.ask(About::Memory, memory, MEMORY_PARENT);
        flags.is_ok_and(|flags| flags & ON_HOST == 0) && parent == Ok(0)
    }
}

const MEMORY_TYPE: u32 = 0x1100;
const MEMORY_FLAGS: u32 = 0x1101;
const MEMORY_SIZE: u32 = 0x1102;
const MEMORY_PARENT: u32 = 0x1107;
const IMAGE_ELEMENT: u32 = 0x1111;
const IMAGE_WIDTH: u32 = 0x1114;
const IMAGE_HEIGHT: u32 = 0x1115;
const IMAGE_DEPTH: u32 = 0x1116;
const IMAGE_ARRAY: u32 = 0x1117;
const QUEUE_CONTEXT: u32 = 0x1090;
const OBJECT_BUFFER: u32 = 0x10f0;
const OBJECT_IMAGE_2D: u32 = 0x10f1;
const OBJECT_IMAGE_3D: u32 = 0x10f2;
const OBJECT_IMAGE_2D_ARRAY: u32 = 0x10f3;
const OBJECT_IMAGE_1D: u32 = 0x10f4;
const OBJECT_IMAGE_1D_ARRAY: u32 = 0x10f5;
/// `CL_MEM_USE_HOST_PTR` and `CL_MEM_ALLOC_HOST_PTR`, and the three that forbid the host a side.
const ON_HOST: u64 = 1 << 3 | 1 << 4 | 1 << 7 | 1 << 8 | 1 << 9;
