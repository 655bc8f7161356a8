//! What tests set, and what they read.

use std::ffi::{CStr, c_char};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::boundary;

macro_rules! named {
    ($(#[$outer:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $kind { $($(#[$doc])* $variant,)* }

        impl $kind {
            /// All, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
            /// The name for `towpath_fake_set` and `towpath_fake_get`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

named! {
    /// What the driver does; all are 0 at first.
    Knob {
        /// Devices of the platform (0 means one).
        Devices = "devices",
        /// Whether devices say that they share memory with the host.
        Unified = "unified",
        /// Time for each page that is cold when a read arrives, in ns.
        PenaltyNs = "penalty_ns",
        /// Time that a read or write takes per KiB, in ns.
        CopyNsPerKib = "copy_ns_per_kib",
        /// Time between start and effect of each command, in ns.
        StartNs = "start_ns",
        /// Time that `clEnqueueFillBuffer` takes, in ns: the stand-in for kernels.
        FillNs = "fill_ns",
        /// Whether commands wait for a flush before they start.
        HoldUntilFlush = "hold_until_flush",
        /// The call that fails: 1 + the position in [`Count::ALL`] of its count.
        FailCall = "fail_call",
        /// Calls of that kind that pass before it fails.
        FailSkip = "fail_skip",
        /// Calls that fail then.
        FailTimes = "fail_times",
        /// The error, without its minus sign.
        FailCode = "fail_code",
        /// Whether the failure comes when the command runs instead of from the call.
        FailLate = "fail_late",
        /// Whether the device is lost: everything that needs it fails with -5.
        Lost = "lost",
        /// Whether the driver ends the process at the next counted call, as broken drivers do.
        Crash = "crash",
        /// Bytes of host memory that `CL_MEM_ALLOC_HOST_PTR` may take; 0 is no limit.
        PinnedLimit = "pinned_limit",
        /// Bytes of device memory; 0 is no limit.
        DeviceLimit = "device_limit",
    }
}

named! {
    /// What the driver counted.
    Count {
        /// Calls of clEnqueueReadBuffer.
        ReadBuffer = "read_buffer",
        /// Calls of clEnqueueReadBufferRect.
        ReadBufferRect = "read_buffer_rect",
        /// Calls of clEnqueueReadImage.
        ReadImage = "read_image",
        /// Calls of clEnqueueWriteBuffer.
        WriteBuffer = "write_buffer",
        /// Calls of clEnqueueWriteBufferRect.
        WriteBufferRect = "write_buffer_rect",
        /// Calls of clEnqueueWriteImage.
        WriteImage = "write_image",
        /// Calls of clEnqueueCopyBuffer.
        CopyBuffer = "copy_buffer",
        /// Calls of clEnqueueCopyBufferRect.
        CopyBufferRect = "copy_buffer_rect",
        /// Calls of clEnqueueCopyImageToBuffer.
        CopyImageToBuffer = "copy_image_to_buffer",
        /// Calls of clEnqueueCopyBufferToImage.
        CopyBufferToImage = "copy_buffer_to_image",
        /// Calls of clEnqueueFillBuffer.
        FillBuffer = "fill_buffer",
        /// Calls of clEnqueueMapBuffer and clEnqueueMapImage.
        Map = "map",
        /// Calls of clEnqueueUnmapMemObject.
        Unmap = "unmap",
        /// Calls of clEnqueueSVMMemcpy.
        SvmMemcpy = "svm_memcpy",
        /// Calls of clEnqueueMarkerWithWaitList and clEnqueueBarrierWithWaitList.
        Marker = "marker",
        /// Calls of clFlush.
        Flush = "flush",
        /// Calls of clFinish.
        Finish = "finish",
        /// Calls of clWaitForEvents.
        Wait = "wait",
        /// Calls that create a buffer.
        CreateBuffer = "create_buffer",
        /// Calls that create a queue.
        CreateQueue = "create_queue",
        /// Calls that ask for information about any object.
        Info = "info",
        /// Pages that were cold when a read arrived.
        ColdPages = "cold_pages",
        /// Pages that reads were to write to.
        ReadPages = "read_pages",
        /// Minor faults of the driver's threads while they copied to the program.
        CopyFaults = "copy_faults",
        /// Bytes copied to the program by reads.
        BytesRead = "bytes_read",
        /// Bytes copied from the program by writes.
        BytesWritten = "bytes_written",
        /// Contexts alive.
        Contexts = "contexts",
        /// Queues alive.
        Queues = "queues",
        /// Buffers and images alive.
        Mems = "mems",
        /// Events alive.
        Events = "events",
        /// Mappings alive.
        Maps = "maps",
        /// Bytes of host memory held for `CL_MEM_ALLOC_HOST_PTR`.
        PinnedBytes = "pinned_bytes",
        /// Bytes of device memory held.
        DeviceBytes = "device_bytes",
        /// Uses of handles that are dead or of another kind.
        BadHandles = "bad_handles",
    }
}

static KNOBS: [AtomicU64; Knob::ALL.len()] = [const { AtomicU64::new(0) }; Knob::ALL.len()];
static COUNTS: [AtomicU64; Count::ALL.len()] = [const { AtomicU64::new(0) }; Count::ALL.len()];

fn slot(all: &[AtomicU64], index: usize) -> &AtomicU64 {
    static NONE: AtomicU64 = AtomicU64::new(0);
    all.get(index).unwrap_or(&NONE)
}

impl Knob {
    /// The value now.
    pub fn get(self) -> u64 {
        slot(&KNOBS, self as usize).load(Ordering::Relaxed)
    }

    /// Sets the value.
    pub fn set(self, value: u64) {
        slot(&KNOBS, self as usize).store(value, Ordering::Relaxed);
    }
}

impl Count {
    /// The value now.
    pub fn get(self) -> u64 {
        slot(&COUNTS, self as usize).load(Ordering::Relaxed)
    }

    pub(crate) fn add(self, n: u64) -> u64 {
        slot(&COUNTS, self as usize).fetch_add(n, Ordering::Relaxed)
    }

    pub(crate) fn sub(self, n: u64) {
        slot(&COUNTS, self as usize).fetch_sub(n, Ordering::Relaxed);
    }
}

/// What the script says about a call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Script {
    /// Error that the command ends with when it runs.
    pub(crate) late: Option<i32>,
}

/// Counts a call of `kind` and answers whether it is to fail.
pub(crate) fn enter(kind: Count) -> Result<Script, i32> {
    kind.add(1);
    if Knob::Crash.get() != 0 {
        std::process::abort();
    }
    if Knob::Lost.get() != 0 {
        return Err(-5);
    }
    if Knob::FailCall.get() != kind as u64 + 1 {
        return Ok(Script::default());
    }
    if Knob::FailSkip.get() > 0 {
        Knob::FailSkip.set(Knob::FailSkip.get() - 1);
        return Ok(Script::default());
    }
    if Knob::FailTimes.get() == 0 {
        return Ok(Script::default());
    }
    Knob::FailTimes.set(Knob::FailTimes.get() - 1);
    let code = -i32::try_from(Knob::FailCode.get()).unwrap_or(1);
    if Knob::FailLate.get() != 0 {
        Ok(Script { late: Some(code) })
    } else {
        Err(code)
    }
}

/// Reads the knobs from the environment, once.
pub(crate) fn from_environment() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for knob in Knob::ALL {
            let name = format!("TOWPATH_FAKE_{}", knob.name().to_uppercase());
            #[expect(clippy::disallowed_methods, reason = "testkit")]
            let value = std::env::var(name).ok();
            if let Some(value) = value.and_then(|text| text.parse().ok()) {
                knob.set(value);
            }
        }
    });
}

/// Sets a knob; 0 if there is none of that name.
pub(crate) extern "C" fn set(name: *const c_char, value: u64) -> u32 {
    let found = find(Knob::ALL, Knob::name, boundary::text(name));
    found.map(|knob| knob.set(value)).is_some().into()
}

/// Reads a count or a knob; all ones if there is none of that name.
pub(crate) extern "C" fn get(name: *const c_char) -> u64 {
    let text = boundary::text(name);
    find(Count::ALL, Count::name, text)
        .map(Count::get)
        .or_else(|| find(Knob::ALL, Knob::name, text).map(Knob::get))
        .unwrap_or(u64::MAX)
}

/// 1 + the position of a count, for [`Knob::FailCall`]; 0 if there is none of that name.
pub(crate) extern "C" fn number(name: *const c_char) -> u64 {
    find(Count::ALL, Count::name, boundary::text(name)).map_or(0, |count| count as u64 + 1)
}

fn find<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, text: &CStr) -> Option<T> {
    all.iter()
        .copied()
        .find(|&item| name(item).as_bytes() == text.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripted_failure_comes_when_it_should() {
        let call = Count::SvmMemcpy;
        Knob::FailCall.set(call as u64 + 1);
        Knob::FailSkip.set(1);
        Knob::FailTimes.set(1);
        Knob::FailCode.set(6);
        assert_eq!(enter(call), Ok(Script::default()));
        assert_eq!(enter(call), Err(-6));
        assert_eq!(enter(call), Ok(Script::default()));
        Knob::FailCall.set(0);
    }

    #[test]
    fn names_are_found() {
        assert_eq!(get(c"penalty_ns".as_ptr()), 0);
        assert_eq!(get(c"nonsense".as_ptr()), u64::MAX);
        assert_eq!(set(c"nonsense".as_ptr(), 1), 0);
    }
}
