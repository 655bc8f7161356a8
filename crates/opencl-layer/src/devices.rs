//! What is known of the program's queues: device and properties.
#![expect(unsafe_code, reason = "asks the driver about the program's queue")]

use std::ffi::c_void;
use std::sync::OnceLock;

use opencl_sys::{
    CL_DEVICE_NAME, CL_DRIVER_VERSION, CL_QUEUE_DEVICE, CL_QUEUE_PROPERTIES, CL_SUCCESS,
    cl_command_queue, cl_device_id, cl_uint,
};

use towpath_transfer::policy::Policy;
use towpath_transfer::readback::Rules;

use crate::handles::Handles;
use crate::{inside, next, state};

/// What is kept about a device.
#[derive(Debug)]
pub(crate) struct Device {
    id: usize,
    pub(crate) name: String,
    /// What pays on it, from its calibration or the rule table.
    pub(crate) policy: Policy,
    /// The numbers by which a read is prefaulted.
    pub(crate) rules: Rules,
}

static QUEUES: Handles<512> = Handles::new();
/// Filled from the front; a machine has few devices and a process keeps them.
static DEVICES: [OnceLock<Device>; 64] = [const { OnceLock::new() }; 64];

/// The queue's device; `None` where it is not known.
///
/// # Cost
///
/// A look into a table; for a queue not met before, two calls of the driver, and for a device not met
/// before also the reading of its calibration.
pub(crate) fn of(queue: cl_command_queue) -> Option<&'static Device> {
    word(queue).and_then(|word| DEVICES.get(device_index(word))?.get())
}

/// Whether commands of the queue run in order, and no times are kept about them.
pub(crate) fn is_plain(queue: cl_command_queue) -> bool {
    word(queue).is_some_and(|word| word >> PROPERTIES_SHIFT == 0)
}

/// Forgets a queue that the program releases.
pub(crate) fn forget(queue: cl_command_queue) {
    QUEUES.remove(queue.addr());
}

/// Device index and, above it, the properties.
fn word(queue: cl_command_queue) -> Option<u64> {
    if let Some(word) = QUEUES.get(queue.addr()) {
        return Some(word);
    }
    if inside::is_callback() {
        return None;
    }
    let index = enter(device_of(queue)?)?;
    let properties = ask_queue::<u64>(queue, CL_QUEUE_PROPERTIES)?;
    let word = index as u64 | properties << PROPERTIES_SHIFT;
    QUEUES.put(queue.addr(), word);
    Some(word)
}

fn device_index(word: u64) -> usize {
    usize::try_from(word & DEVICE_MASK).unwrap_or(usize::MAX)
}

const PROPERTIES_SHIFT: u32 = 8;
const DEVICE_MASK: u64 = 0xff;

/// The place of a device in the table.
fn enter(device: cl_device_id) -> Option<usize> {
    DEVICES.iter().position(|slot| {
        let kept = slot.get_or_init(|| describe(device));
        kept.id == device.addr()
    })
}

fn device_of(queue: cl_command_queue) -> Option<cl_device_id> {
    let device: usize = ask_queue(queue, CL_QUEUE_DEVICE)?;
    (device != 0).then(|| std::ptr::with_exposed_provenance_mut(device))
}

/// One integer that the driver knows of a queue.
pub(crate) fn ask_queue<T: Default>(queue: cl_command_queue, name: cl_uint) -> Option<T> {
    let ask = next::table()?.clGetCommandQueueInfo?;
    let mut answer = T::default();
    let value: *mut c_void = (&raw mut answer).cast();
    // SAFETY: `value` has the size given; a bad queue is the driver's to refuse.
    let code = unsafe { ask(queue, name, size_of::<T>(), value, std::ptr::null_mut()) };
    (code == CL_SUCCESS).then_some(answer)
}

fn describe(device: cl_device_id) -> Device {
    let (name, driver) = (
        text(device, CL_DEVICE_NAME),
        text(device, CL_DRIVER_VERSION),
    );
    let policy = Policy::new(state::get().calibration(&name, &driver));
    Device {
        id: device.addr(),
        rules: policy.rules(),
        name,
        policy,
    }
}

/// A text that the driver knows of a device; empty if it does not answer.
fn text(device: cl_device_id, name: cl_uint) -> String {
    let mut text = [0_u8; 256];
    let Some(ask) = next::table().and_then(|table| table.clGetDeviceInfo) else {
        return String::new();
    };
    let value: *mut c_void = text.as_mut_ptr().cast();
    // SAFETY: `value` has the size given.
    let answer = unsafe { ask(device, name, text.len(), value, std::ptr::null_mut()) };
    if answer != CL_SUCCESS {
        return String::new();
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}
