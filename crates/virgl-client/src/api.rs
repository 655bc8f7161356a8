//! The functions of `virglrenderer.h` (0.8 and later) that are used here.

#![expect(unsafe_code, reason = "functions found by name")]

use std::ffi::{OsStr, c_char, c_int, c_uint, c_void};

use libc::iovec;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};

use crate::{Error, Result};

/// `struct virgl_renderer_resource_create_args`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CreateArgs {
    pub(crate) handle: u32,
    pub(crate) target: u32,
    pub(crate) format: u32,
    pub(crate) bind: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: u32,
    pub(crate) array_size: u32,
    pub(crate) last_level: u32,
    pub(crate) nr_samples: u32,
    pub(crate) flags: u32,
}

/// `struct virgl_box`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
    pub(crate) w: u32,
    pub(crate) h: u32,
    pub(crate) d: u32,
}

/// `struct virgl_renderer_callbacks`, version 1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callbacks {
    pub(crate) version: c_int,
    pub(crate) write_fence: Option<unsafe extern "C" fn(*mut c_void, u32)>,
    /// Not asked for, since the library makes its own EGL contexts.
    pub(crate) rest: [*const c_void; 4],
}

type Init = unsafe extern "C" fn(*mut c_void, c_int, *const Callbacks) -> c_int;
type Cleanup = unsafe extern "C" fn(*mut c_void);
type ContextCreate = unsafe extern "C" fn(u32, u32, *const c_char) -> c_int;
type ContextResource = unsafe extern "C" fn(c_int, c_int);
type Create = unsafe extern "C" fn(*mut CreateArgs, *mut iovec, u32) -> c_int;
type Unref = unsafe extern "C" fn(u32);
type Attach = unsafe extern "C" fn(c_int, *mut iovec, c_int) -> c_int;
type Detach = unsafe extern "C" fn(c_int, *mut *mut iovec, *mut c_int);
type Transfer<Level, Count> =
    unsafe extern "C" fn(u32, u32, Level, u32, u32, *mut Extent, u64, *mut iovec, Count) -> c_int;
type Submit = unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int;

/// The library's functions, as one library or another gives them.
#[derive(Debug)]
pub struct Api {
    pub(crate) init: Symbol<Init>,
    pub(crate) cleanup: Symbol<Cleanup>,
    pub(crate) context_create: Symbol<ContextCreate>,
    pub(crate) context_attach: Symbol<ContextResource>,
    pub(crate) create: Symbol<Create>,
    pub(crate) unref: Symbol<Unref>,
    pub(crate) attach: Symbol<Attach>,
    pub(crate) detach: Symbol<Detach>,
    pub(crate) write: Symbol<Transfer<c_int, c_uint>>,
    pub(crate) read: Symbol<Transfer<u32, c_int>>,
    pub(crate) submit: Symbol<Submit>,
}

impl Api {
    /// The library itself, past anything that is preloaded.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if it is not installed.
    pub fn real() -> Result<Self> {
        let library = open(OsStr::new(NAME))?;
        Self::from_libraries(library, library)
    }

    /// What a program that is linked with the library gets: preloaded libraries first.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if it is not installed.
    pub fn linked() -> Result<Self> {
        // Global, so that a lookup in the whole program finds it after what is preloaded.
        let _library = open(OsStr::new(NAME))?;
        let all = Library::this();
        Self::from_libraries(&all, &all)
    }

    /// The functions of `layer`, and of the library for those that it lacks.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if either is not there.
    pub fn through(layer: &std::path::Path) -> Result<Self> {
        let library = open(OsStr::new(NAME))?;
        let layer = open(layer.as_os_str())?;
        Self::from_libraries(layer, library)
    }

    fn from_libraries(first: &Library, second: &Library) -> Result<Self> {
        macro_rules! symbol {
            ($name:literal) => {{
                // SAFETY: the type of the field is that of the public header.
                let found = unsafe { first.get($name) };
                // SAFETY: as above. The library is never unloaded: `open` keeps it.
                found.or_else(|_absent| unsafe { second.get($name) })
            }
            .map_err(|source| Error::Load {
                path: NAME.into(),
                source,
            })?};
        }
        Ok(Self {
            init: symbol!(b"virgl_renderer_init\0"),
            cleanup: symbol!(b"virgl_renderer_cleanup\0"),
            context_create: symbol!(b"virgl_renderer_context_create\0"),
            context_attach: symbol!(b"virgl_renderer_ctx_attach_resource\0"),
            create: symbol!(b"virgl_renderer_resource_create\0"),
            unref: symbol!(b"virgl_renderer_resource_unref\0"),
            attach: symbol!(b"virgl_renderer_resource_attach_iov\0"),
            detach: symbol!(b"virgl_renderer_resource_detach_iov\0"),
            write: symbol!(b"virgl_renderer_transfer_write_iov\0"),
            read: symbol!(b"virgl_renderer_transfer_read_iov\0"),
            submit: symbol!(b"virgl_renderer_submit_cmd\0"),
        })
    }
}

/// Opens a library and keeps it until the process ends: GL drivers do not survive being unloaded.
fn open(path: &OsStr) -> Result<&'static Library> {
    let load = |source| Error::Load {
        path: path.into(),
        source,
    };
    // SAFETY: the library's initialisers are those of Debian's package or of our own layer.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(load)?;
    Ok(Box::leak(Box::new(library)))
}

const NAME: &str = "libvirglrenderer.so.1";
