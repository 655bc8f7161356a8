//! Fences and semaphores. The queue sets the moment at which they signal; waits sleep until then.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ash::vk;

use crate::device::{self, Device};
use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::{call, fault};

/// What a fence or binary semaphore holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload {
    Unsignaled,
    At(Instant),
}

impl Payload {
    fn is_signaled(self, now: Instant) -> bool {
        matches!(self, Self::At(at) if at <= now)
    }
}

/// Permanent payload, and a temporary one that stands before it until the next reset.
#[derive(Debug)]
struct Payloads {
    permanent: Arc<Mutex<Payload>>,
    temporary: Option<Payload>,
}

#[derive(Debug)]
pub(crate) struct Fence(Mutex<Payloads>);

#[derive(Debug)]
pub(crate) struct Semaphore(Mutex<Value>);

#[derive(Debug)]
enum Value {
    Binary(Payload),
    /// Value reached, and values to come with their moments.
    Timeline {
        reached: u64,
        pending: BTreeMap<u64, Instant>,
    },
}

pub(crate) static FENCES: Registry<Fence> = Registry::new(Kind::Fence);
pub(crate) static SEMAPHORES: Registry<Semaphore> = Registry::new(Kind::Semaphore);

/// Counts signals, so that a waiter that looked before one does not sleep past it.
static SIGNALS: Mutex<u64> = Mutex::new(0);
static SIGNALED: Condvar = Condvar::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes all waiters to look again.
pub(crate) fn announce() {
    *lock(&SIGNALS) += 1;
    SIGNALED.notify_all();
}

impl Fence {
    fn new(signaled: bool) -> Self {
        let payload = if signaled {
            Payload::At(Instant::now())
        } else {
            Payload::Unsignaled
        };
        Self(Mutex::new(Payloads {
            permanent: Arc::new(Mutex::new(payload)),
            temporary: None,
        }))
    }

    fn payload(&self) -> Payload {
        let payloads = lock(&self.0);
        payloads
            .temporary
            .unwrap_or_else(|| *lock(&payloads.permanent))
    }

    pub(crate) fn set(&self, payload: Payload) {
        let mut payloads = lock(&self.0);
        match &mut payloads.temporary {
            Some(temporary) => *temporary = payload,
            None => *lock(&payloads.permanent) = payload,
        }
    }

    /// Takes a temporary payload away; without one, the permanent payload becomes unsignaled.
    fn reset(&self) {
        let mut payloads = lock(&self.0);
        if payloads.temporary.take().is_none() {
            *lock(&payloads.permanent) = Payload::Unsignaled;
        }
    }
}

impl Semaphore {
    pub(crate) fn signal(&self, value: u64, at: Instant) {
        match &mut *lock(&self.0) {
            Value::Binary(payload) => *payload = Payload::At(at),
            Value::Timeline { pending, .. } => {
                pending.insert(value, at);
            }
        }
    }

    /// The moment from which a queue's wait for `value` is over; consumes a binary signal.
    pub(crate) fn consume(&self, value: u64) -> Option<Instant> {
        match &mut *lock(&self.0) {
            Value::Binary(payload) => match core::mem::replace(payload, Payload::Unsignaled) {
                Payload::At(at) => Some(at),
                Payload::Unsignaled => None,
            },
            Value::Timeline { reached, pending } if *reached < value => {
                pending.range(value..).map(|(_, at)| *at).min()
            }
            Value::Timeline { .. } => Some(Instant::now()),
        }
    }

    fn value(&self, now: Instant) -> u64 {
        match &mut *lock(&self.0) {
            Value::Binary(_) => 0,
            Value::Timeline { reached, pending } => {
                pending.retain(|value, at| {
                    let done = *at <= now;
                    if done {
                        *reached = (*reached).max(*value);
                    }
                    !done
                });
                *reached
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        match &*lock(&self.0) {
            Value::Timeline { pending, .. } => pending.values().min().copied(),
            Value::Binary(_) => None,
        }
    }
}

/// Sleeps until `look` says yes, the timeout is over or the device is lost. `look` also says when the
/// next change is due.
fn wait(
    device: &Device,
    timeout: u64,
    look: impl Fn(Instant) -> (bool, Option<Instant>),
) -> vk::Result {
    let end = Instant::now().checked_add(Duration::from_nanos(timeout));
    let mut signals = lock(&SIGNALS);
    loop {
        if device.is_lost() {
            return vk::Result::ERROR_DEVICE_LOST;
        }
        let now = Instant::now();
        let (done, due) = look(now);
        if done {
            return vk::Result::SUCCESS;
        }
        if end.is_some_and(|end| end <= now) {
            return vk::Result::TIMEOUT;
        }
        let until = [end, due].into_iter().flatten().min();
        let rest = until.map_or(Duration::from_hours(1), |until| {
            until.saturating_duration_since(now)
        });
        let (guard, _timed_out) = SIGNALED
            .wait_timeout(signals, rest)
            .unwrap_or_else(PoisonError::into_inner);
        signals = guard;
    }
}

pub(crate) extern "system" fn create_fence(
    _device: vk::Device,
    info: *const vk::FenceCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Fence,
) -> vk::Result {
    let signaled = ffi::get(info).is_some_and(|i| i.flags.contains(vk::FenceCreateFlags::SIGNALED));
    call!("vkCreateFence", "signaled={signaled}");
    ffi::put(out, FENCES.add(Fence::new(signaled)));
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy_fence(
    _device: vk::Device,
    fence: vk::Fence,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyFence");
    FENCES.remove("vkDestroyFence", fence);
}

pub(crate) extern "system" fn reset_fences(
    _device: vk::Device,
    count: u32,
    fences: *const vk::Fence,
) -> vk::Result {
    call!("vkResetFences", "count={count}");
    for fence in ffi::list(fences, count) {
        if let Some(fence) = FENCES.get("vkResetFences", *fence) {
            fence.reset();
        }
    }
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn fence_status(device: vk::Device, fence: vk::Fence) -> vk::Result {
    call!("vkGetFenceStatus", "fence={fence:?}");
    let (Some(device), Some(fence)) = (
        device::get("vkGetFenceStatus", device),
        FENCES.get("vkGetFenceStatus", fence),
    ) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    if device.is_lost() {
        vk::Result::ERROR_DEVICE_LOST
    } else if fence.payload().is_signaled(Instant::now()) {
        vk::Result::SUCCESS
    } else {
        vk::Result::NOT_READY
    }
}

pub(crate) extern "system" fn wait_fences(
    device: vk::Device,
    count: u32,
    fences: *const vk::Fence,
    all: vk::Bool32,
    timeout: u64,
) -> vk::Result {
    const NAME: &str = "vkWaitForFences";
    call!(
        "vkWaitForFences",
        "count={count} all={all} timeout={timeout}"
    );
    let Some(device) = device::get(NAME, device) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let fences: Vec<_> = ffi::list(fences, count)
        .iter()
        .filter_map(|fence| FENCES.get(NAME, *fence))
        .collect();
    wait(&device, timeout, |now| {
        let payloads = || fences.iter().map(|fence| fence.payload());
        let done = if all == vk::TRUE {
            payloads().all(|payload| payload.is_signaled(now))
        } else {
            payloads().any(|payload| payload.is_signaled(now))
        };
        let due = payloads().filter_map(|payload| match payload {
            Payload::At(at) if at > now => Some(at),
            Payload::At(_) | Payload::Unsignaled => None,
        });
        (done, due.min())
    })
}

/// SYNC_FD: hands out -1 ("already signaled"; the payload moves out, so the fence is reset).
pub(crate) extern "system" fn get_fence_fd(
    _device: vk::Device,
    info: *const vk::FenceGetFdInfoKHR<'_>,
    out: *mut i32,
) -> vk::Result {
    call!("vkGetFenceFdKHR");
    let Some(info) = ffi::get(info) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let Some(fence) = FENCES.get("vkGetFenceFdKHR", info.fence) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    if info.handle_type != vk::ExternalFenceHandleTypeFlags::SYNC_FD {
        return vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
    }
    if matches!(fence.payload(), Payload::Unsignaled) {
        fault(
            "vkGetFenceFdKHR",
            format_args!("SYNC_FD of a fence with no signal"),
        );
    }
    fence.reset();
    ffi::put(out, -1);
    vk::Result::SUCCESS
}

/// SYNC_FD -1: a temporary payload that is signaled.
pub(crate) extern "system" fn import_fence_fd(
    _device: vk::Device,
    info: *const vk::ImportFenceFdInfoKHR<'_>,
) -> vk::Result {
    call!("vkImportFenceFdKHR");
    let Some(info) = ffi::get(info) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let Some(fence) = FENCES.get("vkImportFenceFdKHR", info.fence) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    if info.handle_type != vk::ExternalFenceHandleTypeFlags::SYNC_FD || info.fd != -1 {
        return vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
    }
    lock(&fence.0).temporary = Some(Payload::At(Instant::now()));
    announce();
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn create_semaphore(
    _device: vk::Device,
    info: *const vk::SemaphoreCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Semaphore,
) -> vk::Result {
    let chain = ffi::get(info).map_or(core::ptr::null(), |info| info.p_next);
    let timeline = ffi::chained::<vk::SemaphoreTypeCreateInfo<'_>>(chain)
        .filter(|kind| kind.semaphore_type == vk::SemaphoreType::TIMELINE);
    call!("vkCreateSemaphore", "timeline={}", timeline.is_some());
    let value = match timeline {
        Some(kind) => Value::Timeline {
            reached: kind.initial_value,
            pending: BTreeMap::new(),
        },
        None => Value::Binary(Payload::Unsignaled),
    };
    ffi::put(out, SEMAPHORES.add(Semaphore(Mutex::new(value))));
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy_semaphore(
    _device: vk::Device,
    semaphore: vk::Semaphore,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroySemaphore");
    SEMAPHORES.remove("vkDestroySemaphore", semaphore);
}

pub(crate) extern "system" fn counter_value(
    device: vk::Device,
    semaphore: vk::Semaphore,
    out: *mut u64,
) -> vk::Result {
    const NAME: &str = "vkGetSemaphoreCounterValue";
    call!("vkGetSemaphoreCounterValue");
    let (Some(device), Some(semaphore)) =
        (device::get(NAME, device), SEMAPHORES.get(NAME, semaphore))
    else {
        return vk::Result::ERROR_UNKNOWN;
    };
    if device.is_lost() {
        return vk::Result::ERROR_DEVICE_LOST;
    }
    ffi::put(out, semaphore.value(Instant::now()));
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn wait_semaphores(
    device: vk::Device,
    info: *const vk::SemaphoreWaitInfo<'_>,
    timeout: u64,
) -> vk::Result {
    const NAME: &str = "vkWaitSemaphores";
    let (Some(device), Some(info)) = (device::get(NAME, device), ffi::get(info)) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let count = info.semaphore_count;
    call!("vkWaitSemaphores", "count={count} timeout={timeout}");
    let pairs = ffi::list(info.p_semaphores, count)
        .iter()
        .zip(ffi::list(info.p_values, count));
    let pairs: Vec<_> = pairs
        .filter_map(|(semaphore, value)| Some((SEMAPHORES.get(NAME, *semaphore)?, *value)))
        .collect();
    let any = info.flags.contains(vk::SemaphoreWaitFlags::ANY);
    wait(&device, timeout, |now| {
        let mut reached = pairs
            .iter()
            .map(|(semaphore, value)| semaphore.value(now) >= *value);
        let done = if any {
            reached.any(|yes| yes)
        } else {
            reached.all(|yes| yes)
        };
        (
            done,
            pairs
                .iter()
                .filter_map(|(semaphore, _)| semaphore.next())
                .min(),
        )
    })
}

pub(crate) extern "system" fn signal_semaphore(
    _device: vk::Device,
    info: *const vk::SemaphoreSignalInfo<'_>,
) -> vk::Result {
    call!("vkSignalSemaphore");
    let Some(info) = ffi::get(info) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let Some(semaphore) = SEMAPHORES.get("vkSignalSemaphore", info.semaphore) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    semaphore.signal(info.value, Instant::now());
    announce();
    vk::Result::SUCCESS
}
