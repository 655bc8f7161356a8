//! The library behind us, and its interface (`virglrenderer.h`, stable since 0.8).

#![expect(unsafe_code, reason = "functions found by name")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libc::iovec;

/// `struct virgl_renderer_resource_create_args`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
    pub(crate) w: u32,
    pub(crate) h: u32,
    pub(crate) d: u32,
}

const _: () = assert!(size_of::<CreateArgs>() == 44 && size_of::<Extent>() == 24);

pub(crate) type Create = unsafe extern "C" fn(*mut CreateArgs, *mut iovec, u32) -> c_int;
pub(crate) type CreateBlob = unsafe extern "C" fn(*const u32) -> c_int;
pub(crate) type ImportImage = unsafe extern "C" fn(*const u32, *mut c_void) -> c_int;
pub(crate) type Unref = unsafe extern "C" fn(u32);
pub(crate) type Attach = unsafe extern "C" fn(c_int, *mut iovec, c_int) -> c_int;
pub(crate) type Detach = unsafe extern "C" fn(c_int, *mut *mut iovec, *mut c_int);
pub(crate) type Write =
    unsafe extern "C" fn(u32, u32, c_int, u32, u32, *mut Extent, u64, *mut iovec, c_uint) -> c_int;
pub(crate) type Read =
    unsafe extern "C" fn(u32, u32, u32, u32, u32, *mut Extent, u64, *mut iovec, c_int) -> c_int;
pub(crate) type Submit = unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int;
pub(crate) type Reset = unsafe extern "C" fn();
pub(crate) type Cleanup = unsafe extern "C" fn(*mut c_void);

/// The functions that we stand in front of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real {
    pub(crate) create: Option<Create>,
    pub(crate) create_blob: Option<CreateBlob>,
    pub(crate) import_blob: Option<CreateBlob>,
    pub(crate) import_image: Option<ImportImage>,
    pub(crate) unref: Option<Unref>,
    pub(crate) attach: Option<Attach>,
    pub(crate) detach: Option<Detach>,
    pub(crate) write: Option<Write>,
    pub(crate) read: Option<Read>,
    pub(crate) submit: Option<Submit>,
    pub(crate) reset: Option<Reset>,
    pub(crate) cleanup: Option<Cleanup>,
}

static REAL: OnceLock<Real> = OnceLock::new();

/// The library's functions, found at the first call.
pub(crate) fn get() -> &'static Real {
    REAL.get_or_init(Real::find)
}

/// The library's functions, if they were found already: a load and a branch.
#[inline(always)]
#[expect(clippy::inline_always, reason = "stands before every transfer")]
pub(crate) fn known() -> Option<&'static Real> {
    REAL.get()
}

impl Real {
    fn find() -> Self {
        let library = Library::find();
        macro_rules! symbol {
            ($name:literal, $type:ty) => {{
                let found = library.symbol($name);
                // SAFETY: the type is that of the public header; null becomes `None`.
                unsafe { std::mem::transmute::<*mut c_void, Option<$type>>(found) }
            }};
        }
        Self {
            create: symbol!(c"virgl_renderer_resource_create", Create),
            create_blob: symbol!(c"virgl_renderer_resource_create_blob", CreateBlob),
            import_blob: symbol!(c"virgl_renderer_resource_import_blob", CreateBlob),
            import_image: symbol!(c"virgl_renderer_resource_import_eglimage", ImportImage),
            unref: symbol!(c"virgl_renderer_resource_unref", Unref),
            attach: symbol!(c"virgl_renderer_resource_attach_iov", Attach),
            detach: symbol!(c"virgl_renderer_resource_detach_iov", Detach),
            write: symbol!(c"virgl_renderer_transfer_write_iov", Write),
            read: symbol!(c"virgl_renderer_transfer_read_iov", Read),
            submit: symbol!(c"virgl_renderer_submit_cmd", Submit),
            reset: symbol!(c"virgl_renderer_reset", Reset),
            cleanup: symbol!(c"virgl_renderer_cleanup", Cleanup),
        }
    }
}

/// Where symbols are looked for.
struct Library {
    handle: *mut c_void,
}

/// The function of that name in the libraries behind this one; null if there is none.
pub(crate) fn following(name: &CStr) -> *mut c_void {
    Library::NEXT.symbol(name)
}

impl Library {
    const NEXT: Self = Self {
        handle: libc::RTLD_NEXT,
    };

    /// Next in line as a preloaded library should; else the library that a plugin loaded for itself; else
    /// our own copy of it.
    fn find() -> Self {
        if !following(c"virgl_renderer_init").is_null() {
            return Self::NEXT;
        }
        let name: *const c_char = c"libvirglrenderer.so.1".as_ptr();
        // SAFETY: a terminated name; RTLD_NOLOAD only looks.
        let loaded = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !loaded.is_null() {
            return Self { handle: loaded };
        }
        // SAFETY: as above; it is never closed, so the functions stay.
        let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY) };
        Self { handle }
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        if self.handle.is_null() {
            return std::ptr::null_mut();
        }
        // SAFETY: a live handle or RTLD_NEXT, and a terminated name.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }
}
