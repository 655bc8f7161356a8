//! Calls that make objects, and the references to them.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use opencl_sys::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_INVALID_BUFFER_SIZE, CL_INVALID_DEVICE, CL_INVALID_HOST_PTR,
    CL_INVALID_IMAGE_DESCRIPTOR, CL_INVALID_VALUE, CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR,
    CL_QUEUE_PROPERTIES, CL_SUCCESS, cl_buffer_create_type, cl_buffer_region, cl_command_queue,
    cl_command_queue_properties, cl_context, cl_context_properties, cl_device_id, cl_image_desc,
    cl_image_format, cl_int, cl_mem, cl_mem_flags, cl_queue_properties, cl_uint,
};
use towpath_cold::Rows;

use crate::boundary::{self, put};
use crate::icd;
use crate::images;
use crate::knobs::{Count, Knob, enter};
use crate::memory::{ContextBody, Image, MemBody};
use crate::object;
use crate::queue::QueueBody;

/// Hands a new object out, or the error.
fn hand<T: object::Body>(made: Result<Arc<T>, cl_int>, error: *mut cl_int) -> *mut c_void {
    match made {
        Ok(body) => {
            put(error, CL_SUCCESS);
            object::new(body)
        }
        Err(code) => {
            put(error, code);
            std::ptr::null_mut()
        }
    }
}

type Notify = unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void);

pub(crate) extern "C" fn context(
    _properties: *const cl_context_properties,
    count: cl_uint,
    devices: *const cl_device_id,
    _notify: Option<Notify>,
    _data: *mut c_void,
    error: *mut cl_int,
) -> cl_context {
    let devices: Result<Vec<usize>, cl_int> = boundary::list(devices, count as usize)
        .into_iter()
        .map(|device| icd::device_index(device).ok_or(CL_INVALID_DEVICE))
        .collect();
    let made = devices.and_then(|devices| {
        if devices.is_empty() {
            return Err(CL_INVALID_VALUE);
        }
        Ok(Arc::new(ContextBody { devices }))
    });
    hand(made, error)
}

pub(crate) extern "C" fn context_from_type(
    properties: *const cl_context_properties,
    _kind: u64,
    notify: Option<Notify>,
    data: *mut c_void,
    error: *mut cl_int,
) -> cl_context {
    let devices = icd::devices();
    let count = cl_uint::try_from(devices.len()).unwrap_or(0);
    context(properties, count, devices.as_ptr(), notify, data, error)
}

fn make_queue(
    context: cl_context,
    device: cl_device_id,
    properties: u64,
) -> Result<Arc<QueueBody>, cl_int> {
    enter(Count::CreateQueue)?;
    let context = object::get::<ContextBody>(context)?;
    let device = icd::device_index(device).ok_or(CL_INVALID_DEVICE)?;
    if !context.devices.contains(&device) {
        return Err(CL_INVALID_DEVICE);
    }
    QueueBody::start(context, device, properties)
}

pub(crate) extern "C" fn queue(
    context: cl_context,
    device: cl_device_id,
    properties: cl_command_queue_properties,
    error: *mut cl_int,
) -> cl_command_queue {
    hand(make_queue(context, device, properties), error)
}

pub(crate) extern "C" fn queue_with_properties(
    context: cl_context,
    device: cl_device_id,
    list: *const cl_queue_properties,
    error: *mut cl_int,
) -> cl_command_queue {
    let mut properties = 0;
    let mut at = list;
    while let Some(name) = boundary::read(at).filter(|&name| name != 0) {
        let value = boundary::read(at.wrapping_add(1)).unwrap_or(0);
        if name == u64::from(CL_QUEUE_PROPERTIES) {
            properties = value;
        }
        at = at.wrapping_add(2);
    }
    hand(make_queue(context, device, properties), error)
}

fn make_memory(
    context: cl_context,
    flags: cl_mem_flags,
    bytes: usize,
    host: *mut c_void,
    image: Option<Image>,
) -> Result<Arc<MemBody>, cl_int> {
    enter(Count::CreateBuffer)?;
    let context = object::get::<ContextBody>(context)?;
    let needs_host = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    if needs_host == host.is_null() {
        return Err(CL_INVALID_HOST_PTR);
    }
    let memory = MemBody::new(context, flags, bytes, host.expose_provenance(), image)?;
    if flags & CL_MEM_COPY_HOST_PTR != 0 {
        let from = Rows::flat(host.expose_provenance(), bytes);
        boundary::copy_rows(&from, &Rows::flat(memory.address(), bytes));
    }
    Ok(Arc::new(memory))
}

pub(crate) extern "C" fn buffer(
    context: cl_context,
    flags: cl_mem_flags,
    bytes: usize,
    host: *mut c_void,
    error: *mut cl_int,
) -> cl_mem {
    let made = if bytes == 0 {
        Err(CL_INVALID_BUFFER_SIZE)
    } else {
        make_memory(context, flags, bytes, host, None)
    };
    hand(made, error)
}

pub(crate) extern "C" fn sub_buffer(
    parent: cl_mem,
    flags: cl_mem_flags,
    kind: cl_buffer_create_type,
    info: *const c_void,
    error: *mut cl_int,
) -> cl_mem {
    let made = object::get::<MemBody>(parent).and_then(|parent| {
        let region = boundary::read(info.cast::<cl_buffer_region>()).ok_or(CL_INVALID_VALUE)?;
        if kind != CL_BUFFER_CREATE_TYPE_REGION {
            return Err(CL_INVALID_VALUE);
        }
        parent.range(region.origin, region.size)?;
        Ok(Arc::new(MemBody::sub(
            &parent,
            flags,
            region.origin,
            region.size,
        )))
    });
    hand(made, error)
}

pub(crate) extern "C" fn image(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    shape: *const cl_image_desc,
    host: *mut c_void,
    error: *mut cl_int,
) -> cl_mem {
    let described = boundary::read(format)
        .zip(boundary::read(shape))
        .ok_or(CL_INVALID_IMAGE_DESCRIPTOR)
        .and_then(|(format, shape)| images::image(format, &shape));
    let made = described.and_then(|image| {
        let bytes = image.bytes().ok_or(CL_INVALID_IMAGE_DESCRIPTOR)?;
        make_memory(context, flags, bytes, host, Some(image))
    });
    hand(made, error)
}

pub(crate) extern "C" fn svm_alloc(
    context: cl_context,
    _flags: u64,
    bytes: usize,
    _alignment: cl_uint,
) -> *mut c_void {
    if object::get::<ContextBody>(context).is_err() || bytes == 0 || Knob::Lost.get() != 0 {
        return std::ptr::null_mut();
    }
    // The length lies in a page before the pointer, for the free.
    let length = bytes.saturating_add(towpath_cold::PAGE);
    let address = boundary::map(length);
    if address == 0 {
        return std::ptr::null_mut();
    }
    put(
        std::ptr::with_exposed_provenance_mut::<usize>(address),
        length,
    );
    std::ptr::with_exposed_provenance_mut(address + towpath_cold::PAGE)
}

pub(crate) extern "C" fn svm_free(_context: cl_context, pointer: *mut c_void) {
    if pointer.is_null() {
        return;
    }
    let address = pointer.expose_provenance() - towpath_cold::PAGE;
    let length = boundary::read(std::ptr::with_exposed_provenance::<usize>(address));
    boundary::unmap(address, length.unwrap_or(0));
}
