//! Calls that ask: small answers, enough for programs of tests and for `clinfo`.
#![cfg_attr(
    not(test),
    expect(
        clippy::wildcard_imports,
        reason = "sixty constants by their own names"
    )
)]

use std::ffi::c_void;

use opencl_sys::*;

use crate::boundary::{answer, bytes_of};
use crate::event::EventBody;
use crate::icd;
use crate::knobs::{Count, Knob};
use crate::memory::{ContextBody, MemBody};
use crate::object;
use crate::queue::QueueBody;

/// Ends a text as C wants it.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn value<T: Copy>(value: T) -> Vec<u8> {
    bytes_of(&value).to_vec()
}

fn reply(
    found: Result<Vec<u8>, cl_int>,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    Count::Info.add(1);
    match found {
        Ok(bytes) => answer(&bytes, size, value, size_ret),
        Err(code) => code,
    }
}

pub(crate) extern "C" fn platform(
    _platform: cl_platform_id,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let found = match name {
        CL_PLATFORM_PROFILE => Ok(text("FULL_PROFILE")),
        CL_PLATFORM_VERSION => Ok(text("OpenCL 3.0 towpath")),
        CL_PLATFORM_NAME => Ok(text("towpath fake")),
        CL_PLATFORM_VENDOR => Ok(text("towpath")),
        CL_PLATFORM_EXTENSIONS => Ok(text("cl_khr_icd")),
        // CL_PLATFORM_ICD_SUFFIX_KHR
        0x920 => Ok(text("TOWPATH")),
        _ => Err(CL_INVALID_VALUE),
    };
    reply(found, size, value, size_ret)
}

pub(crate) extern "C" fn device(
    device: cl_device_id,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let found = icd::device_index(device)
        .ok_or(CL_INVALID_DEVICE)
        .and_then(|index| device_value(index, name));
    reply(found, size, value, size_ret)
}

fn device_value(index: usize, name: cl_uint) -> Result<Vec<u8>, cl_int> {
    Ok(match name {
        CL_DEVICE_NAME => text(&format!("towpath fake device {index}")),
        CL_DEVICE_VENDOR => text("towpath"),
        CL_DRIVER_VERSION => text("1.0"),
        CL_DEVICE_VERSION => text("OpenCL 3.0 towpath"),
        CL_DEVICE_OPENCL_C_VERSION => text("OpenCL C 1.2"),
        CL_DEVICE_PROFILE => text("FULL_PROFILE"),
        CL_DEVICE_EXTENSIONS => text(""),
        CL_DEVICE_TYPE => value(CL_DEVICE_TYPE_GPU),
        CL_DEVICE_PLATFORM => value(icd::platform()),
        CL_DEVICE_HOST_UNIFIED_MEMORY => value(u32::from(Knob::Unified.get() != 0)),
        CL_DEVICE_AVAILABLE | CL_DEVICE_IMAGE_SUPPORT => value(u32::from(Knob::Lost.get() == 0)),
        CL_DEVICE_MAX_COMPUTE_UNITS => value(4_u32),
        CL_DEVICE_GLOBAL_MEM_SIZE | CL_DEVICE_MAX_MEM_ALLOC_SIZE => value(4_u64 << 30),
        CL_DEVICE_IMAGE2D_MAX_WIDTH | CL_DEVICE_IMAGE2D_MAX_HEIGHT => value(16_384_usize),
        CL_DEVICE_QUEUE_PROPERTIES => {
            value(CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        }
        CL_DEVICE_SVM_CAPABILITIES => value(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER),
        _ => return Err(CL_INVALID_VALUE),
    })
}

pub(crate) extern "C" fn context(
    handle: cl_context,
    name: cl_uint,
    size: usize,
    value_ret: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let found = object::get::<ContextBody>(handle).and_then(|context| {
        Ok(match name {
            CL_CONTEXT_REFERENCE_COUNT => value(object::references::<ContextBody>(handle)),
            CL_CONTEXT_NUM_DEVICES => value(u32::try_from(context.devices.len()).unwrap_or(0)),
            CL_CONTEXT_DEVICES => {
                let all = icd::devices();
                let some = context.devices.iter().filter_map(|&index| all.get(index));
                some.flat_map(|device| value(*device)).collect()
            }
            CL_CONTEXT_PROPERTIES => Vec::new(),
            _ => return Err(CL_INVALID_VALUE),
        })
    });
    reply(found, size, value_ret, size_ret)
}

pub(crate) extern "C" fn queue(
    handle: cl_command_queue,
    name: cl_uint,
    size: usize,
    value_ret: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let found = object::get::<QueueBody>(handle).and_then(|queue| {
        Ok(match name {
            CL_QUEUE_CONTEXT => value(icd::context_handle(&queue.context)),
            CL_QUEUE_DEVICE => value(*icd::devices().get(queue.device).ok_or(CL_INVALID_VALUE)?),
            CL_QUEUE_REFERENCE_COUNT => value(object::references::<QueueBody>(handle)),
            CL_QUEUE_PROPERTIES => value(queue.properties),
            _ => return Err(CL_INVALID_VALUE),
        })
    });
    reply(found, size, value_ret, size_ret)
}

pub(crate) extern "C" fn memory(
    handle: cl_mem,
    name: cl_uint,
    size: usize,
    value_ret: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let found = object::get::<MemBody>(handle).and_then(|memory| {
        Ok(match name {
            CL_MEM_TYPE => value(memory.kind()),
            CL_MEM_FLAGS => value(memory.flags),
            CL_MEM_SIZE => value(memory.bytes),
            CL_MEM_HOST_PTR => value(memory.host_pointer),
            CL_MEM_MAP_COUNT => value(u32::try_from(memory.mapped()).unwrap_or(0)),
            CL_MEM_REFERENCE_COUNT => value(object::references::<MemBody>(handle)),
            CL_MEM_CONTEXT => value(icd::context_handle(&memory.context)),
            CL_MEM_ASSOCIATED_MEMOBJECT => value(usize::from(memory.parent.is_some())),
            CL_MEM_OFFSET => value(memory.parent.as_ref().map_or(0, |(_, offset)| *offset)),
            CL_MEM_USES_SVM_POINTER => value(0_u32),
            _ => return Err(CL_INVALID_VALUE),
        })
    });
    reply(found, size, value_ret, size_ret)
}

pub(crate) extern "C" fn image(
    handle: cl_mem,
    name: cl_uint,
    size: usize,
    value_ret: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let found = object::get::<MemBody>(handle).and_then(|memory| {
        let image = memory.image.ok_or(CL_INVALID_MEM_OBJECT)?;
        let [width, height, depth] = image.extent;
        Ok(match name {
            CL_IMAGE_FORMAT => value([image.order, image.data]),
            CL_IMAGE_ELEMENT_SIZE => value(image.element),
            CL_IMAGE_ROW_PITCH => value(width * image.element),
            CL_IMAGE_SLICE_PITCH => value(width * height * image.element),
            CL_IMAGE_WIDTH => value(width),
            CL_IMAGE_HEIGHT => value(height),
            CL_IMAGE_DEPTH => value(depth),
            CL_IMAGE_ARRAY_SIZE => value(0_usize),
            _ => return Err(CL_INVALID_VALUE),
        })
    });
    reply(found, size, value_ret, size_ret)
}

pub(crate) extern "C" fn event(
    handle: cl_event,
    name: cl_uint,
    size: usize,
    value_ret: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let found = object::get::<EventBody>(handle).and_then(|event| {
        Ok(match name {
            CL_EVENT_COMMAND_EXECUTION_STATUS => value(event.status()),
            CL_EVENT_COMMAND_TYPE => value(event.command),
            CL_EVENT_REFERENCE_COUNT => value(object::references::<EventBody>(handle)),
            _ => return Err(CL_INVALID_VALUE),
        })
    });
    reply(found, size, value_ret, size_ret)
}
