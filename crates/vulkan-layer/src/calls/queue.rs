//! Submissions, presents, and waits for whole queues.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use ash::vk;
use ash::vk::Handle;
use towpath_ledger::Outcome;

use super::NO_DEVICE;
use crate::device::{self, Device};
use crate::process;
use crate::record::{At, Started, Wait, start};
use crate::wall;

/// `vkQueueSubmit`.
pub(crate) unsafe extern "system" fn submit(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    let Some((device, next)) = device::next(queue, |next| next.queue_submit) else {
        return NO_DEVICE;
    };
    let started = start();
    device.known.forget(fence.as_raw());
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(queue, count, infos, fence) };
    device.known.heard(answer);
    wall::beside(|| submitted(device, started));
    answer
}

/// `vkQueueSubmit2`.
pub(crate) unsafe extern "system" fn submit2(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::SubmitInfo2<'_>,
    fence: vk::Fence,
) -> vk::Result {
    let Some((device, next)) = device::next(queue, |next| next.queue_submit2) else {
        return NO_DEVICE;
    };
    let started = start();
    device.known.forget(fence.as_raw());
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(queue, count, infos, fence) };
    device.known.heard(answer);
    wall::beside(|| submitted(device, started));
    answer
}

fn submitted(device: &Device, started: Started) {
    device
        .recorder
        .call(At::Submit, started, 0, Outcome::Observed);
    if let Some(frames) = process::get().frames.as_ref() {
        frames.submit(started.at());
    }
}

/// `vkQueuePresentKHR`.
pub(crate) unsafe extern "system" fn present(
    queue: vk::Queue,
    info: *const vk::PresentInfoKHR<'_>,
) -> vk::Result {
    let Some((device, next)) = device::next(queue, |next| next.queue_present) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(queue, info) };
    device.known.heard(answer);
    wall::beside(|| {
        // A present that is refused (the window has another size now) shows nothing.
        let is_frame = answer.as_raw() >= 0;
        device.recorder.present(started, is_frame);
        if let Some(frames) = process::get().frames.as_ref().filter(|_| is_frame) {
            frames.present(started.at());
        }
    });
    answer
}

/// `vkAcquireNextImageKHR`.
pub(crate) unsafe extern "system" fn acquire(
    handle: vk::Device,
    swapchain: vk::SwapchainKHR,
    timeout: u64,
    semaphore: vk::Semaphore,
    fence: vk::Fence,
    out: *mut u32,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.acquire) else {
        return NO_DEVICE;
    };
    let started = start();
    device.known.forget(fence.as_raw());
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, swapchain, timeout, semaphore, fence, out) };
    device.known.heard(answer);
    wall::beside(|| {
        device
            .recorder
            .call(At::Acquire, started, 0, Outcome::Observed);
    });
    answer
}

/// `vkAcquireNextImage2KHR`.
pub(crate) unsafe extern "system" fn acquire2(
    handle: vk::Device,
    info: *const vk::AcquireNextImageInfoKHR<'_>,
    out: *mut u32,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.acquire2) else {
        return NO_DEVICE;
    };
    let started = start();
    if let Some(info) = crate::abi::get(info) {
        device.known.forget(info.fence.as_raw());
    }
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, info, out) };
    device.known.heard(answer);
    wall::beside(|| {
        device
            .recorder
            .call(At::Acquire, started, 0, Outcome::Observed);
    });
    answer
}

/// `vkQueueWaitIdle`.
pub(crate) unsafe extern "system" fn wait_idle(queue: vk::Queue) -> vk::Result {
    let Some((device, next)) = device::next(queue, |next| next.queue_wait_idle) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's argument, unchanged.
    let answer = unsafe { next(queue) };
    device.known.heard(answer);
    wall::beside(|| device.recorder.wait(At::QueueIdle, started, 0, Wait::New));
    answer
}

/// `vkDeviceWaitIdle`.
pub(crate) unsafe extern "system" fn device_wait_idle(handle: vk::Device) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.device_wait_idle) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's argument, unchanged.
    let answer = unsafe { next(handle) };
    device.known.heard(answer);
    wall::beside(|| device.recorder.wait(At::DeviceIdle, started, 0, Wait::New));
    answer
}
