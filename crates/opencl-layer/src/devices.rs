//! The names of devices, by queue.
#![expect(unsafe_code, reason = "asks the driver about the program's queue")]

use std::ffi::c_void;
use std::sync::OnceLock;

use opencl_sys::{CL_DEVICE_NAME, CL_QUEUE_DEVICE, CL_SUCCESS, cl_command_queue, cl_device_id};

use crate::handles::Handles;
use crate::{inside, next};

/// What is kept about a device.
#[derive(Debug)]
struct Device {
    id: usize,
    name: String,
}

static QUEUES: Handles<512> = Handles::new();
/// Filled from the front; a machine has few devices and a process keeps them.
static DEVICES: [OnceLock<Device>; 64] = [const { OnceLock::new() }; 64];

/// The name of the queue's device; empty where it is not known.
///
/// # Cost
///
/// A look into a table; for a queue not met before, two calls of the driver and an allocation.
pub(crate) fn name(queue: cl_command_queue) -> &'static str {
    index(queue)
        .and_then(|index| DEVICES.get(index)?.get())
        .map_or("", |device| device.name.as_str())
}

/// Forgets a queue that the program releases.
pub(crate) fn forget(queue: cl_command_queue) {
    QUEUES.remove(queue.addr());
}

fn index(queue: cl_command_queue) -> Option<usize> {
    if let Some(index) = QUEUES.get(queue.addr()) {
        return usize::try_from(index).ok();
    }
    if inside::is_callback() {
        return None;
    }
    let index = enter(device_of(queue)?)?;
    QUEUES.put(queue.addr(), index as u64);
    Some(index)
}

/// The place of a device in the table.
fn enter(device: cl_device_id) -> Option<usize> {
    DEVICES.iter().position(|slot| {
        let kept = slot.get_or_init(|| Device {
            id: device.addr(),
            name: ask_name(device),
        });
        kept.id == device.addr()
    })
}

fn device_of(queue: cl_command_queue) -> Option<cl_device_id> {
    let ask = next::table()?.clGetCommandQueueInfo?;
    let mut device: cl_device_id = std::ptr::null_mut();
    let value: *mut c_void = (&raw mut device).cast();
    let size = size_of::<cl_device_id>();
    // SAFETY: `value` has `size` bytes; a bad queue is the driver's to refuse.
    let answer = unsafe { ask(queue, CL_QUEUE_DEVICE, size, value, std::ptr::null_mut()) };
    (answer == CL_SUCCESS && !device.is_null()).then_some(device)
}

fn ask_name(device: cl_device_id) -> String {
    let mut text = [0_u8; 256];
    let Some(ask) = next::table().and_then(|table| table.clGetDeviceInfo) else {
        return String::new();
    };
    let value: *mut c_void = text.as_mut_ptr().cast();
    // SAFETY: `value` has the size given.
    let answer = unsafe {
        ask(
            device,
            CL_DEVICE_NAME,
            text.len(),
            value,
            std::ptr::null_mut(),
        )
    };
    if answer != CL_SUCCESS {
        return String::new();
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}
