//! Fences and timeline values: waits are timed, and counted where they ask for what is known.
//!
//! With the waits fix on, such a wait is answered without the driver (see `repeat`).

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use ash::vk;
use ash::vk::Handle;
use towpath_settings::{Fix, Mode};

use super::NO_DEVICE;
use crate::abi;
use crate::device::{self, Device};
use crate::process;
use crate::record::{At, Started, Wait, start};
use crate::wall;

/// Whether a wait that is known to be over is to be answered here.
fn skips(is_known: bool) -> bool {
    is_known && process::get().fixes().mode(Fix::Waits) != Mode::Off
}

fn how(is_known: bool) -> Wait {
    if is_known { Wait::Repeated } else { Wait::New }
}

/// The answer to a wait that is known to be over.
fn skipped(device: &Device, at: At, started: Started, objects: u32) -> vk::Result {
    wall::beside(|| device.recorder.wait(at, started, objects, Wait::Skipped));
    vk::Result::SUCCESS
}

/// `vkCreateFence`.
pub(crate) unsafe extern "system" fn create_fence(
    handle: vk::Device,
    info: *const vk::FenceCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Fence,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_fence) else {
        return NO_DEVICE;
    };
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, info, alloc, out) };
    if let (vk::Result::SUCCESS, Some(info), Some(fence)) = (answer, abi::get(info), abi::get(out))
    {
        let state = u64::from(info.flags.contains(vk::FenceCreateFlags::SIGNALED));
        // An export, or something newer that may let others change the fence as well.
        let export = !info.p_next.is_null();
        wall::beside(|| device.known.created(fence.as_raw(), state, export));
    }
    answer
}

/// `vkDestroyFence`.
pub(crate) unsafe extern "system" fn destroy_fence(
    handle: vk::Device,
    fence: vk::Fence,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    if let Some((device, next)) = device::next(handle, |next| next.destroy_fence) {
        device.known.destroyed(fence.as_raw());
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(handle, fence, alloc) };
    }
}

/// `vkResetFences`. A temporary payload is taken off by it, and the one below is not known either.
pub(crate) unsafe extern "system" fn reset_fences(
    handle: vk::Device,
    count: u32,
    fences: *const vk::Fence,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.reset_fences) else {
        return NO_DEVICE;
    };
    for fence in abi::list(fences, count) {
        device.known.forget(fence.as_raw());
    }
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, count, fences) }
}

/// `vkGetFenceStatus`.
pub(crate) unsafe extern "system" fn fence_status(
    handle: vk::Device,
    fence: vk::Fence,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.fence_status) else {
        return NO_DEVICE;
    };
    let started = start();
    let repeat = device.known.has_reached(fence.as_raw(), 1);
    if skips(repeat) {
        return skipped(device, At::FenceStatus, started, 1);
    }
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, fence) };
    wall::beside(|| {
        device.known.heard(answer);
        device
            .recorder
            .wait(At::FenceStatus, started, 1, how(repeat));
        if answer == vk::Result::SUCCESS && !repeat {
            device.known.reached(fence.as_raw(), 1);
        }
    });
    answer
}

/// `vkWaitForFences`.
pub(crate) unsafe extern "system" fn wait_fences(
    handle: vk::Device,
    count: u32,
    fences: *const vk::Fence,
    all: vk::Bool32,
    timeout: u64,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.wait_fences) else {
        return NO_DEVICE;
    };
    let started = start();
    let list = abi::list(fences, count);
    let mut states = list
        .iter()
        .map(|fence| device.known.has_reached(fence.as_raw(), 1));
    let is_all = all == vk::TRUE;
    let repeat = if is_all {
        states.all(|known| known)
    } else {
        states.any(|known| known)
    };
    // An empty list is the application's error, which the driver is to see.
    if skips(repeat && !list.is_empty()) {
        return skipped(device, At::WaitFences, started, count);
    }
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, count, fences, all, timeout) };
    wall::beside(|| {
        device.known.heard(answer);
        device
            .recorder
            .wait(At::WaitFences, started, count, how(repeat));
        // After a wait for any of several nobody knows which.
        if answer == vk::Result::SUCCESS && (is_all || count == 1) {
            for fence in list {
                device.known.reached(fence.as_raw(), 1);
            }
        }
    });
    answer
}

/// `vkGetFenceFdKHR`. SYNC_FD resets the fence; an opaque descriptor lets others change it.
pub(crate) unsafe extern "system" fn get_fence_fd(
    handle: vk::Device,
    info: *const vk::FenceGetFdInfoKHR<'_>,
    out: *mut i32,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.get_fence_fd) else {
        return NO_DEVICE;
    };
    if let Some(info) = abi::get(info) {
        let fence = info.fence.as_raw();
        if info.handle_type == vk::ExternalFenceHandleTypeFlags::SYNC_FD {
            device.known.forget(fence);
        } else {
            device.known.give_away(fence);
        }
    }
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, info, out) }
}

/// `vkImportFenceFdKHR`.
pub(crate) unsafe extern "system" fn import_fence_fd(
    handle: vk::Device,
    info: *const vk::ImportFenceFdInfoKHR<'_>,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.import_fence_fd) else {
        return NO_DEVICE;
    };
    if let Some(info) = abi::get(info) {
        device.known.give_away(info.fence.as_raw());
    }
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, info) }
}

/// `vkCreateSemaphore`. Only timelines are followed.
pub(crate) unsafe extern "system" fn create_semaphore(
    handle: vk::Device,
    info: *const vk::SemaphoreCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Semaphore,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_semaphore) else {
        return NO_DEVICE;
    };
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, info, alloc, out) };
    if let (vk::Result::SUCCESS, Some(info), Some(made)) = (answer, abi::get(info), abi::get(out)) {
        let kind = abi::chained::<vk::SemaphoreTypeCreateInfo<'_>>(info.p_next);
        // As for fences; the type itself is one structure.
        let export = abi::chain(info.p_next).count() > 1;
        if let Some(kind) = kind.filter(|k| k.semaphore_type == vk::SemaphoreType::TIMELINE) {
            wall::beside(|| {
                device
                    .known
                    .created(made.as_raw(), kind.initial_value, export);
            });
        }
    }
    answer
}

/// `vkDestroySemaphore`.
pub(crate) unsafe extern "system" fn destroy_semaphore(
    handle: vk::Device,
    semaphore: vk::Semaphore,
    alloc: *const vk::AllocationCallbacks<'_>,
) {
    if let Some((device, next)) = device::next(handle, |next| next.destroy_semaphore) {
        device.known.destroyed(semaphore.as_raw());
        // SAFETY: the application's arguments, unchanged.
        unsafe { next(handle, semaphore, alloc) };
    }
}

/// `vkImportSemaphoreFdKHR`.
pub(crate) unsafe extern "system" fn import_semaphore_fd(
    handle: vk::Device,
    info: *const vk::ImportSemaphoreFdInfoKHR<'_>,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.import_semaphore_fd) else {
        return NO_DEVICE;
    };
    if let Some(info) = abi::get(info) {
        device.known.give_away(info.semaphore.as_raw());
    }
    // SAFETY: the application's arguments, unchanged.
    unsafe { next(handle, info) }
}

/// `vkGetSemaphoreCounterValue`. Asking is no wait: it is timed, and what it says is remembered.
pub(crate) unsafe extern "system" fn counter_value(
    handle: vk::Device,
    semaphore: vk::Semaphore,
    out: *mut u64,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.counter_value) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, semaphore, out) };
    wall::beside(|| {
        device.known.heard(answer);
        device
            .recorder
            .wait(At::CounterValue, started, 1, Wait::New);
        if let (vk::Result::SUCCESS, Some(value)) = (answer, abi::get(out)) {
            device.known.reached(semaphore.as_raw(), *value);
        }
    });
    answer
}

/// `vkWaitSemaphores`.
pub(crate) unsafe extern "system" fn wait_semaphores(
    handle: vk::Device,
    info: *const vk::SemaphoreWaitInfo<'_>,
    timeout: u64,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.wait_semaphores) else {
        return NO_DEVICE;
    };
    let started = start();
    let asked = abi::get(info);
    let (list, values) = asked.map_or((&[][..], &[][..]), |info| {
        let count = info.semaphore_count;
        (
            abi::list(info.p_semaphores, count),
            abi::list(info.p_values, count),
        )
    });
    let is_any = asked.is_some_and(|info| info.flags.contains(vk::SemaphoreWaitFlags::ANY));
    let pairs = || {
        list.iter()
            .map(|one| one.as_raw())
            .zip(values.iter().copied())
    };
    let known = |(one, value)| device.known.has_reached(one, value);
    let repeat = if is_any {
        pairs().any(known)
    } else {
        pairs().all(known)
    };
    let count = u32::try_from(list.len()).unwrap_or(u32::MAX);
    if skips(repeat && !list.is_empty()) {
        return skipped(device, At::WaitSemaphores, started, count);
    }
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, info, timeout) };
    wall::beside(|| {
        device.known.heard(answer);
        device
            .recorder
            .wait(At::WaitSemaphores, started, count, how(repeat));
        if answer == vk::Result::SUCCESS && (!is_any || list.len() == 1) {
            pairs().for_each(|(one, value)| device.known.reached(one, value));
        }
    });
    answer
}
