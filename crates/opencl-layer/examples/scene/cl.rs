//! OpenCL through the loader, opened at run time, and the fake driver's knobs.

use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;
use opencl_sys::cl_function_types::*;
use opencl_sys::*;

macro_rules! functions {
    ($($name:ident: $kind:ident,)+) => {
        /// The functions of the loader.
        #[expect(non_snake_case, reason = "the functions' own names")]
        pub(crate) struct Functions { $(pub(crate) $name: $kind,)+ }

        impl Functions {
            fn load(library: &Library) -> Self {
                Self { $(
                    // SAFETY: the loader exports the function with this type.
                    $name: unsafe {
                        *library.get::<$kind>(concat!(stringify!($name), "\0").as_bytes()).unwrap()
                    },
                )+ }
            }
        }
    };
}

functions! {
    clGetPlatformIDs: clGetPlatformIDs_t,
    clGetPlatformInfo: clGetPlatformInfo_t,
    clGetDeviceIDs: clGetDeviceIDs_t,
    clCreateContext: clCreateContext_t,
    clReleaseContext: clReleaseContext_t,
    clCreateCommandQueue: clCreateCommandQueue_t,
    clReleaseCommandQueue: clReleaseCommandQueue_t,
    clCreateBuffer: clCreateBuffer_t,
    clCreateImage: clCreateImage_t,
    clCreateSubBuffer: clCreateSubBuffer_t,
    clReleaseMemObject: clReleaseMemObject_t,
    clEnqueueReadBuffer: clEnqueueReadBuffer_t,
    clEnqueueReadBufferRect: clEnqueueReadBufferRect_t,
    clEnqueueReadImage: clEnqueueReadImage_t,
    clEnqueueWriteBuffer: clEnqueueWriteBuffer_t,
    clEnqueueWriteBufferRect: clEnqueueWriteBufferRect_t,
    clEnqueueWriteImage: clEnqueueWriteImage_t,
    clEnqueueFillBuffer: clEnqueueFillBuffer_t,
    clEnqueueMapBuffer: clEnqueueMapBuffer_t,
    clEnqueueUnmapMemObject: clEnqueueUnmapMemObject_t,
    clEnqueueSVMMemcpy: clEnqueueSVMMemcpy_t,
    clSVMAlloc: clSVMAlloc_t,
    clSVMFree: clSVMFree_t,
    clWaitForEvents: clWaitForEvents_t,
    clGetEventInfo: clGetEventInfo_t,
    clGetEventProfilingInfo: clGetEventProfilingInfo_t,
    clReleaseEvent: clReleaseEvent_t,
    clCreateUserEvent: clCreateUserEvent_t,
    clSetUserEventStatus: clSetUserEventStatus_t,
    clSetEventCallback: clSetEventCallback_t,
    clFinish: clFinish_t,
}

/// Calls a function of the loader.
macro_rules! call {
    ($cl:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let function = $cl.functions.$name.unwrap();
        // SAFETY: arguments as OpenCL wants them, or wrong ones that it must refuse.
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use call;

/// A context with one queue on one device.
pub(crate) struct Cl {
    pub(crate) functions: Functions,
    pub(crate) devices: Vec<cl_device_id>,
    pub(crate) context: cl_context,
    pub(crate) queue: cl_command_queue,
    fake: Option<Fake>,
}

struct Fake {
    set: unsafe extern "C" fn(*const c_char, u64) -> u32,
    get: unsafe extern "C" fn(*const c_char) -> u64,
    number: unsafe extern "C" fn(*const c_char) -> u64,
}

impl Cl {
    /// Opens the loader and makes an in-order queue without profiling on the first device.
    pub(crate) fn open() -> Self {
        Self::with_properties(0)
    }

    pub(crate) fn with_properties(properties: u64) -> Self {
        // SAFETY: the system's OpenCL loader.
        let library = unsafe { Library::new("libOpenCL.so.1") }.unwrap();
        let functions = Functions::load(&library);
        // Kept loaded until the process ends: its functions are used until then.
        let _kept = Box::leak(Box::new(library));
        let mut this = Self {
            functions,
            devices: Vec::new(),
            context: null_mut(),
            queue: null_mut(),
            fake: Fake::find(),
        };
        let platform = this.platform();
        let mut devices = [null_mut(); 8];
        let mut found = 0;
        let answer = call!(
            this,
            clGetDeviceIDs(
                platform,
                CL_DEVICE_TYPE_ALL,
                8,
                devices.as_mut_ptr(),
                &raw mut found
            )
        );
        assert_eq!(answer, 0);
        this.devices = devices[..found as usize].to_vec();
        this.context = this.make_context(0);
        this.queue = this.make_queue(this.context, 0, properties);
        this
    }

    /// The first platform whose name contains the program's second argument; the first without one.
    fn platform(&self) -> cl_platform_id {
        let wanted = std::env::args().nth(2).unwrap_or_default();
        let mut platforms = [null_mut(); 16];
        let mut found = 0;
        let code = call!(
            self,
            clGetPlatformIDs(16, platforms.as_mut_ptr(), &raw mut found)
        );
        assert_eq!(code, 0);
        let named = |platform: &&cl_platform_id| self.platform_name(**platform).contains(&wanted);
        *platforms[..found as usize].iter().find(named).unwrap()
    }

    fn platform_name(&self, platform: cl_platform_id) -> String {
        let mut text = [0_u8; 256];
        let value = text.as_mut_ptr().cast();
        let code = call!(
            self,
            clGetPlatformInfo(platform, CL_PLATFORM_NAME, text.len(), value, null_mut())
        );
        assert_eq!(code, 0);
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn make_context(&self, device: usize) -> cl_context {
        let device = self.devices[device];
        let mut error = 0;
        let context = call!(
            self,
            clCreateContext(
                null(),
                1,
                &raw const device,
                None,
                null_mut(),
                &raw mut error
            )
        );
        assert_eq!(error, 0);
        context
    }

    pub(crate) fn make_queue(
        &self,
        context: cl_context,
        device: usize,
        properties: u64,
    ) -> cl_command_queue {
        let mut error = 0;
        let queue = call!(
            self,
            clCreateCommandQueue(context, self.devices[device], properties, &raw mut error)
        );
        assert_eq!(error, 0);
        queue
    }

    /// A buffer with content that depends on the place.
    pub(crate) fn buffer(&self, bytes: usize) -> cl_mem {
        let content = pattern(bytes, 1);
        self.buffer_of(self.context, &content)
    }

    pub(crate) fn buffer_of(&self, context: cl_context, content: &[u8]) -> cl_mem {
        let mut error = 0;
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let host = content.as_ptr().cast_mut().cast();
        let buffer = call!(
            self,
            clCreateBuffer(context, flags, content.len(), host, &raw mut error)
        );
        assert_eq!(error, 0);
        buffer
    }

    /// An image of RGBA floats or other four-channel elements, with content.
    pub(crate) fn image(&self, extent: [usize; 3], channel: cl_channel_type) -> cl_mem {
        let [width, height, depth] = extent;
        let channel_bytes = if channel == CL_FLOAT { 4 } else { 1 };
        let content = pattern(width * height * depth * 4 * channel_bytes, 2);
        let format = cl_image_format {
            image_channel_order: CL_RGBA,
            image_channel_data_type: channel,
        };
        let shape = cl_image_desc {
            image_type: if depth > 1 {
                CL_MEM_OBJECT_IMAGE3D
            } else {
                CL_MEM_OBJECT_IMAGE2D
            },
            image_width: width,
            image_height: height,
            image_depth: depth,
            image_array_size: 0,
            image_row_pitch: 0,
            image_slice_pitch: 0,
            num_mip_levels: 0,
            num_samples: 0,
            buffer: null_mut(),
        };
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let host = content.as_ptr().cast_mut().cast();
        let mut error = 0;
        let image = call!(
            self,
            clCreateImage(
                self.context,
                flags,
                &raw const format,
                &raw const shape,
                host,
                &raw mut error
            )
        );
        assert_eq!(error, 0);
        image
    }

    pub(crate) fn release(&self, memory: cl_mem) {
        assert_eq!(call!(self, clReleaseMemObject(memory)), 0);
    }

    /// The status of an event.
    pub(crate) fn status(&self, event: cl_event) -> cl_int {
        let mut status: cl_int = 99;
        let value: *mut c_void = (&raw mut status).cast();
        let name = CL_EVENT_COMMAND_EXECUTION_STATUS;
        assert_eq!(
            call!(self, clGetEventInfo(event, name, 4, value, null_mut())),
            0
        );
        status
    }

    /// The kind of command that an event stands for.
    pub(crate) fn command(&self, event: cl_event) -> cl_uint {
        let mut kind: cl_uint = 0;
        let value: *mut c_void = (&raw mut kind).cast();
        let name = CL_EVENT_COMMAND_TYPE;
        assert_eq!(
            call!(self, clGetEventInfo(event, name, 4, value, null_mut())),
            0
        );
        kind
    }

    /// Waits for an event and releases it; answers wait's code, the status and the command.
    pub(crate) fn end(&self, event: cl_event) -> String {
        let waited = call!(self, clWaitForEvents(1, &raw const event));
        let text = format!("{waited} {} {:#x}", self.status(event), self.command(event));
        assert_eq!(call!(self, clReleaseEvent(event)), 0);
        text
    }

    /// Gives back what [`Self::open`] made.
    pub(crate) fn close(&self) {
        assert_eq!(call!(self, clReleaseCommandQueue(self.queue)), 0);
        assert_eq!(call!(self, clReleaseContext(self.context)), 0);
    }

    /// Whether the driver is the fake one.
    pub(crate) fn is_fake(&self) -> bool {
        self.fake.is_some()
    }

    /// Sets a knob of the fake driver.
    pub(crate) fn set(&self, knob: &str, value: u64) {
        let name = CString::new(knob).unwrap();
        let fake = self.fake.as_ref().unwrap();
        // SAFETY: a terminated name.
        let known = unsafe { (fake.set)(name.as_ptr(), value) };
        assert_eq!(known, 1, "no knob {knob}");
    }

    /// Lets one call of a kind fail once, after `skip` that pass.
    pub(crate) fn script(&self, call: &str, skip: u64, late: u64, code: u64) {
        let name = CString::new(call).unwrap();
        let fake = self.fake.as_ref().unwrap();
        // SAFETY: a terminated name.
        let number = unsafe { (fake.number)(name.as_ptr()) };
        assert_ne!(number, 0, "no call {call}");
        self.set("fail_skip", skip);
        self.set("fail_late", late);
        self.set("fail_code", code);
        self.set("fail_call", number);
        self.set("fail_times", 1);
    }

    /// Reads a count of the fake driver.
    pub(crate) fn get(&self, count: &str) -> u64 {
        let name = CString::new(count).unwrap();
        let fake = self.fake.as_ref().unwrap();
        // SAFETY: a terminated name.
        let value = unsafe { (fake.get)(name.as_ptr()) };
        assert_ne!(value, u64::MAX, "no count {count}");
        value
    }

    /// Prints counts of the fake driver, if it is the driver.
    pub(crate) fn print_counts(&self, names: &[&str]) {
        if self.is_fake() {
            for name in names {
                crate::count(name, self.get(name));
            }
        }
    }
}

impl Fake {
    /// The fake driver's test interface, if the tests named it as the driver.
    fn find() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "a program of tests")]
        let path = std::env::var_os("OCL_ICD_VENDORS")?;
        // SAFETY: the same library that the loader loads, whose start does nothing.
        let library = unsafe { Library::new(path) }.ok()?;
        let library = Box::leak(Box::new(library));
        // SAFETY: the function has this type.
        let set = unsafe { library.get(b"towpath_fake_set\0") }.ok()?;
        // SAFETY: the function has this type.
        let get = unsafe { library.get(b"towpath_fake_get\0") }.ok()?;
        // SAFETY: the function has this type.
        let number = unsafe { library.get(b"towpath_fake_number\0") }.ok()?;
        Some(Self {
            set: *set,
            get: *get,
            number: *number,
        })
    }
}

/// Content that differs from place to place; `seed` tells sources apart.
pub(crate) fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| at.wrapping_mul(0x9E37_79B1).to_le_bytes()[2] ^ at.to_le_bytes()[1] ^ seed)
        .collect()
}
