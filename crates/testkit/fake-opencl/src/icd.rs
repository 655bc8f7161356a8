//! The loader's contract: platform and devices, the dispatch table, and the exported functions.
#![expect(unsafe_code, reason = "exports C functions by name")]

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use opencl_sys::cl_icd::cl_icd_dispatch;
use opencl_sys::{
    CL_DEVICE_NOT_FOUND, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_DEFAULT, CL_DEVICE_TYPE_GPU,
    CL_INVALID_VALUE, CL_SUCCESS, cl_context, cl_device_id, cl_device_type, cl_int, cl_platform_id,
    cl_uint,
};

use crate::boundary::{self, put};
use crate::event::{self, EventBody};
use crate::knobs::{self, Knob};
use crate::memory::{ContextBody, MemBody};
use crate::object::{release, retain};
use crate::queue::QueueBody;
use crate::{create, device_copies, enqueue, host_copies, info, maps};

/// A platform or device; the loader reads the first field.
#[repr(C)]
struct Fixed {
    dispatch: &'static cl_icd_dispatch,
}

/// The table behind every handle.
pub(crate) fn table() -> &'static cl_icd_dispatch {
    static TABLE: OnceLock<Box<cl_icd_dispatch>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Box::new(boundary::empty_table());
        fill_objects(&mut table);
        fill_info(&mut table);
        fill_commands(&mut table);
        table
    })
}

fn platform_body() -> &'static Fixed {
    static PLATFORM: OnceLock<Fixed> = OnceLock::new();
    PLATFORM.get_or_init(|| Fixed { dispatch: table() })
}

fn device_bodies() -> &'static [Fixed] {
    static DEVICES: OnceLock<Vec<Fixed>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let count = Knob::Devices.get().clamp(1, 16);
        (0..count).map(|_| Fixed { dispatch: table() }).collect()
    })
}

/// The platform's handle.
pub(crate) fn platform() -> cl_platform_id {
    std::ptr::from_ref(platform_body()).cast_mut().cast()
}

/// The devices' handles.
pub(crate) fn devices() -> Vec<cl_device_id> {
    device_bodies()
        .iter()
        .map(|device| std::ptr::from_ref(device).cast_mut().cast())
        .collect()
}

/// Which device a handle is.
pub(crate) fn device_index(device: cl_device_id) -> Option<usize> {
    devices().iter().position(|known| *known == device)
}

/// Handles of contexts, so that queues and buffers can answer with the program's own.
static CONTEXTS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// The handle under which the program knows `context`; null if it released it.
pub(crate) fn context_handle(context: &Arc<ContextBody>) -> cl_context {
    let body = Arc::as_ptr(context).addr();
    let known = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.iter().rev().find(|(of, _)| *of == body);
    std::ptr::with_exposed_provenance_mut(found.map_or(0, |(_, handle)| *handle))
}

extern "C" fn create_context(
    properties: *const isize,
    count: cl_uint,
    list: *const cl_device_id,
    notify: Option<unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void)>,
    data: *mut c_void,
    error: *mut cl_int,
) -> cl_context {
    note_context(create::context(
        properties, count, list, notify, data, error,
    ))
}

fn note_context(handle: cl_context) -> cl_context {
    if let Ok(body) = crate::object::get::<ContextBody>(handle) {
        let mut known = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(&body).addr();
        known.retain(|(of, _)| *of != address);
        known.push((address, handle.expose_provenance()));
    }
    handle
}

extern "C" fn get_platform_ids(
    entries: cl_uint,
    list: *mut cl_platform_id,
    count: *mut cl_uint,
) -> cl_int {
    knobs::from_environment();
    put(count, 1);
    if entries > 0 {
        put(list, platform());
    }
    CL_SUCCESS
}

extern "C" fn get_device_ids(
    _platform: cl_platform_id,
    kind: cl_device_type,
    entries: cl_uint,
    list: *mut cl_device_id,
    count: *mut cl_uint,
) -> cl_int {
    let wanted = CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT;
    if kind != CL_DEVICE_TYPE_ALL && kind & wanted == 0 {
        return CL_DEVICE_NOT_FOUND;
    }
    if entries == 0 && !list.is_null() {
        return CL_INVALID_VALUE;
    }
    let all = devices();
    put(count, cl_uint::try_from(all.len()).unwrap_or(0));
    if !list.is_null() {
        for (index, device) in all.into_iter().take(entries as usize).enumerate() {
            put(list.wrapping_add(index), device);
        }
    }
    CL_SUCCESS
}

extern "C" fn fixed(_handle: *mut c_void) -> cl_int {
    CL_SUCCESS
}

fn fill_objects(table: &mut cl_icd_dispatch) {
    table.clGetPlatformIDs = Some(get_platform_ids);
    table.clGetDeviceIDs = Some(get_device_ids);
    table.clRetainDevice = Some(fixed);
    table.clReleaseDevice = Some(fixed);
    table.clCreateContext = Some(create_context);
    table.clCreateContextFromType = Some(create::context_from_type);
    table.clRetainContext = Some(retain_any::<ContextBody>);
    table.clReleaseContext = Some(release_any::<ContextBody>);
    table.clCreateCommandQueue = Some(create::queue);
    table.clCreateCommandQueueWithProperties = Some(create::queue_with_properties);
    table.clRetainCommandQueue = Some(retain_any::<QueueBody>);
    table.clReleaseCommandQueue = Some(release_any::<QueueBody>);
    table.clCreateBuffer = Some(create::buffer);
    table.clCreateSubBuffer = Some(create::sub_buffer);
    table.clCreateImage = Some(create::image);
    table.clRetainMemObject = Some(retain_any::<MemBody>);
    table.clReleaseMemObject = Some(release_any::<MemBody>);
    table.clSVMAlloc = Some(create::svm_alloc);
    table.clSVMFree = Some(create::svm_free);
    table.clRetainEvent = Some(retain_any::<EventBody>);
    table.clReleaseEvent = Some(release_any::<EventBody>);
    table.clCreateUserEvent = Some(event::create_user_event);
    table.clSetUserEventStatus = Some(event::set_user_event_status);
    table.clSetEventCallback = Some(event::set_event_callback);
    table.clWaitForEvents = Some(event::wait_for_events);
}

fn fill_info(table: &mut cl_icd_dispatch) {
    table.clGetPlatformInfo = Some(info::platform);
    table.clGetDeviceInfo = Some(info::device);
    table.clGetContextInfo = Some(info::context);
    table.clGetCommandQueueInfo = Some(info::queue);
    table.clGetMemObjectInfo = Some(info::memory);
    table.clGetImageInfo = Some(info::image);
    table.clGetEventInfo = Some(info::event);
    table.clGetEventProfilingInfo = Some(event::profiling_info);
}

fn fill_commands(table: &mut cl_icd_dispatch) {
    table.clEnqueueReadBuffer = Some(host_copies::read_buffer);
    table.clEnqueueReadBufferRect = Some(host_copies::read_buffer_rect);
    table.clEnqueueReadImage = Some(host_copies::read_image);
    table.clEnqueueWriteBuffer = Some(host_copies::write_buffer);
    table.clEnqueueWriteBufferRect = Some(host_copies::write_buffer_rect);
    table.clEnqueueWriteImage = Some(host_copies::write_image);
    table.clEnqueueCopyBuffer = Some(device_copies::copy_buffer);
    table.clEnqueueCopyBufferRect = Some(device_copies::copy_buffer_rect);
    table.clEnqueueCopyImageToBuffer = Some(device_copies::copy_image_to_buffer);
    table.clEnqueueCopyBufferToImage = Some(device_copies::copy_buffer_to_image);
    table.clEnqueueFillBuffer = Some(device_copies::fill_buffer);
    table.clEnqueueSVMMemcpy = Some(host_copies::svm_memcpy);
    table.clEnqueueMapBuffer = Some(maps::map_buffer);
    table.clEnqueueMapImage = Some(maps::map_image);
    table.clEnqueueUnmapMemObject = Some(maps::unmap);
    table.clEnqueueMarkerWithWaitList = Some(device_copies::marker);
    table.clEnqueueBarrierWithWaitList = Some(device_copies::barrier);
    table.clFlush = Some(enqueue::flush);
    table.clFinish = Some(enqueue::finish);
}

extern "C" fn retain_any<T: crate::object::Body>(handle: *mut c_void) -> cl_int {
    retain::<T>(handle)
}

extern "C" fn release_any<T: crate::object::Body>(handle: *mut c_void) -> cl_int {
    release::<T>(handle)
}

/// Answers the two functions that the loader asks for by name, and the test interface.
#[unsafe(no_mangle)]
extern "C" fn clGetExtensionFunctionAddress(name: *const c_char) -> *mut c_void {
    let address: *const () = match boundary::text(name).to_bytes() {
        b"clIcdGetPlatformIDsKHR" => get_platform_ids as *const (),
        b"clGetPlatformInfo" => info::platform as *const (),
        b"towpath_fake_set" => towpath_fake_set as *const (),
        b"towpath_fake_get" => towpath_fake_get as *const (),
        _ => std::ptr::null(),
    };
    address.cast_mut().cast()
}

/// The loader wants it by name too.
#[unsafe(no_mangle)]
extern "C" fn clIcdGetPlatformIDsKHR(
    entries: cl_uint,
    list: *mut cl_platform_id,
    count: *mut cl_uint,
) -> cl_int {
    get_platform_ids(entries, list, count)
}

/// Sets a knob by name; 0 if there is none.
#[unsafe(no_mangle)]
extern "C" fn towpath_fake_set(name: *const c_char, value: u64) -> u32 {
    knobs::set(name, value)
}

/// Reads a count or knob by name; all ones if there is none.
#[unsafe(no_mangle)]
extern "C" fn towpath_fake_get(name: *const c_char) -> u64 {
    knobs::get(name)
}

/// What the knob `fail_call` is to be for a call, by the name of its count; 0 if there is none.
#[unsafe(no_mangle)]
extern "C" fn towpath_fake_number(name: *const c_char) -> u64 {
    knobs::number(name)
}

const _: () = assert!(size_of::<Fixed>() == size_of::<usize>());
