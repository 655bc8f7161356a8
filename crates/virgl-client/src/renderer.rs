//! One renderer and its textures.

#![expect(unsafe_code, reason = "calls of the C interface")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use libc::iovec;

use crate::api::{Api, Callbacks, CreateArgs, Extent};
use crate::{Error, Guest, Piece, Result};

/// How texels are stored.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// One byte.
    R8,
    /// Four bytes.
    Rgba8,
}

impl Format {
    /// The number in `enum virgl_formats`.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::R8 => 64,
            Self::Rgba8 => 67,
        }
    }

    /// Bytes of a texel.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::R8 => 1,
            Self::Rgba8 => 4,
        }
    }
}

/// A picture to make.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Spec {
    /// Its number.
    pub handle: u32,
    /// How texels are stored.
    pub format: Format,
    /// Texels from left to right.
    pub width: u32,
    /// Texels from top to bottom.
    pub height: u32,
}

impl Spec {
    /// Bytes of all texels.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.width as u64 * self.height as u64 * self.format.bytes() as u64
    }

    /// Bytes of a row.
    #[must_use]
    pub const fn stride(&self) -> u32 {
        self.width * self.format.bytes()
    }
}

/// A list of pieces as the library holds it.
#[derive(Debug)]
pub struct Attached {
    list: Box<[iovec]>,
}

impl Attached {
    /// The pieces' addresses in this process.
    #[must_use]
    pub fn new(guest: &Guest, pieces: &[Piece]) -> Self {
        let runs = pieces.iter().filter_map(|piece| guest.bytes(*piece));
        let list = runs.map(|run| iovec {
            iov_base: run.as_ptr().cast(),
            iov_len: run.len(),
        });
        Self {
            list: list.collect(),
        }
    }
}

/// The library, initialised: EGL without a surface. One per process, for one thread.
#[derive(Debug)]
pub struct Renderer {
    context: u32,
    /// The library keeps the pointer.
    _callbacks: Box<Callbacks>,
    not_send: PhantomData<*const ()>,
}

impl Renderer {
    /// Initialises the library and makes a context.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] where there is no EGL without a surface.
    pub fn new(api: &Api) -> Result<Self> {
        let callbacks = Box::new(Callbacks {
            version: 1,
            write_fence: Some(write_fence),
            rest: [ptr::null(); 4],
        });
        let flags = USE_EGL | USE_SURFACELESS;
        let cookie: *mut c_void = (&raw const COOKIE).cast_mut().cast();
        // SAFETY: the callbacks live as long as the renderer; the cookie is never looked into.
        let code = unsafe { (api.init)(cookie, flags, &raw const *callbacks) };
        check("virgl_renderer_init", code)?;
        let name = c"towpath";
        // SAFETY: a name of that length.
        let code = unsafe { (api.context_create)(CONTEXT, 7, name.as_ptr()) };
        check("virgl_renderer_context_create", code)?;
        Ok(Self {
            context: CONTEXT,
            _callbacks: callbacks,
            not_send: PhantomData,
        })
    }

    /// Makes a picture that can be sampled and drawn to.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn create(&self, api: &Api, spec: &Spec) -> Result<()> {
        let mut args = CreateArgs {
            handle: spec.handle,
            target: 2,
            format: spec.format.number(),
            bind: BIND_SAMPLER_VIEW | BIND_RENDER_TARGET,
            width: spec.width,
            height: spec.height,
            depth: 1,
            array_size: 1,
            ..CreateArgs::default()
        };
        self.create_any(api, &mut args)
    }

    /// Makes a buffer of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn create_buffer(&self, api: &Api, handle: u32, bytes: u32) -> Result<()> {
        let mut args = CreateArgs {
            handle,
            target: 0,
            format: Format::R8.number(),
            bind: BIND_VERTEX_BUFFER,
            width: bytes,
            height: 1,
            depth: 1,
            array_size: 1,
            ..CreateArgs::default()
        };
        self.create_any(api, &mut args)
    }

    fn create_any(&self, api: &Api, args: &mut CreateArgs) -> Result<()> {
        let none = ptr::null_mut();
        // SAFETY: a whole structure and no list.
        let code = unsafe { (api.create)(&raw mut *args, none, 0) };
        check("virgl_renderer_resource_create", code)?;
        let (context, number) = (signed(self.context), signed(args.handle));
        // SAFETY: both exist.
        unsafe { (api.context_attach)(context, number) };
        Ok(())
    }

    /// Puts a list of pieces behind a resource. The list must live until it is detached, the memory too.
    ///
    /// # Errors
    ///
    /// [`Error::Call`], for instance for a second list.
    pub fn attach(&self, api: &Api, handle: u32, attached: &mut Attached) -> Result<()> {
        let count = c_int::try_from(attached.list.len()).unwrap_or(c_int::MAX);
        let list = attached.list.as_mut_ptr();
        // SAFETY: `count` entries of mapped memory; the caller keeps both.
        let code = unsafe { (api.attach)(signed(handle), list, count) };
        check("virgl_renderer_resource_attach_iov", code)
    }

    /// Takes the list away; says whether it is the one of `attached`.
    pub fn detach(&self, api: &Api, handle: u32, attached: &Attached) -> bool {
        let mut list = ptr::null_mut();
        let mut count = 0;
        // SAFETY: two places of ours.
        unsafe { (api.detach)(signed(handle), &raw mut list, &raw mut count) };
        let is_count = usize::try_from(count) == Ok(attached.list.len());
        ptr::eq(list, attached.list.as_ptr()) && is_count
    }

    /// Ends a resource.
    pub fn unref(&self, api: &Api, handle: u32) {
        // SAFETY: no memory is involved.
        unsafe { (api.unref)(handle) };
    }

    /// Moves a box from the attached pieces into the texture. `region` is x, y, width, height.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn write(
        &self,
        api: &Api,
        handle: u32,
        region: [u32; 4],
        stride: u32,
        offset: u64,
    ) -> Result<()> {
        let mut extent = extent(region);
        let none = ptr::null_mut();
        let extent = &raw mut extent;
        let context = self.context;
        // SAFETY: a box of ours, no list: the attached one is used.
        let code = unsafe { (api.write)(handle, context, 0, stride, 0, extent, offset, none, 0) };
        check("virgl_renderer_transfer_write_iov", code)
    }

    /// Moves a box from the texture into the attached pieces.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn read(
        &self,
        api: &Api,
        handle: u32,
        region: [u32; 4],
        stride: u32,
        offset: u64,
    ) -> Result<()> {
        let mut extent = extent(region);
        let none = ptr::null_mut();
        let extent = &raw mut extent;
        let context = self.context;
        // SAFETY: as in `write`.
        let code = unsafe { (api.read)(handle, context, 0, stride, 0, extent, offset, none, 0) };
        check("virgl_renderer_transfer_read_iov", code)
    }

    /// Executes a command stream.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn submit(&self, api: &Api, words: &mut [u32]) -> Result<()> {
        let count = c_int::try_from(words.len()).unwrap_or(c_int::MAX);
        let start = words.as_mut_ptr().cast();
        // SAFETY: `count` words of ours.
        let code = unsafe { (api.submit)(start, signed(self.context), count) };
        check("virgl_renderer_submit_cmd", code)
    }

    /// Ends the library's state.
    pub fn cleanup(self, api: &Api) {
        // SAFETY: the cookie of `init`; nothing of the library is used afterwards.
        unsafe { (api.cleanup)((&raw const COOKIE).cast_mut().cast()) };
    }
}

fn extent([x, y, w, h]: [u32; 4]) -> Extent {
    Extent {
        x,
        y,
        z: 0,
        w,
        h,
        d: 1,
    }
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::Call { call, code })
}

const fn signed(number: u32) -> c_int {
    number.cast_signed()
}

/// Fences are not used: a readback waits.
unsafe extern "C" fn write_fence(_cookie: *mut c_void, _fence: u32) {}

static COOKIE: u8 = 0;
const CONTEXT: u32 = 1;
const USE_EGL: c_int = 1;
const USE_SURFACELESS: c_int = 1 << 3;
const BIND_RENDER_TARGET: u32 = 1 << 1;
const BIND_SAMPLER_VIEW: u32 = 1 << 3;
const BIND_VERTEX_BUFFER: u32 = 1 << 4;
