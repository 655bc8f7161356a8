//! Queues: a submission runs for the script's `gpu_us` after the one before it and after its waits.
//!
//! A wait for a value that nobody has promised yet is taken as over at once, and noted as
//! `wait-before-signal`; a binary semaphore without a signal is a fault.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ash::vk;

use crate::device::{self, Device};
use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::{call, fault};
use crate::objects::COMMANDS;
use crate::script::script;
use crate::sync::{self, FENCES, Payload, SEMAPHORES};

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) device: vk::Device,
    busy_until: Mutex<Instant>,
}

pub(crate) static QUEUES: Registry<Queue> = Registry::new(Kind::Queue);

impl Queue {
    pub(crate) fn new(device: vk::Device) -> Self {
        Self {
            device,
            busy_until: Mutex::new(Instant::now()),
        }
    }

    /// Appends one piece of work that starts no sooner than `ready`; returns its end.
    fn run(&self, ready: Instant) -> Instant {
        let mut busy = self
            .busy_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *busy = (*busy).max(ready) + script().gpu;
        *busy
    }

    fn idle_at(&self) -> Instant {
        *self
            .busy_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// When all of a submission's waits are over.
fn ready(name: &'static str, waits: impl Iterator<Item = (vk::Semaphore, u64)>) -> Instant {
    let mut ready = Instant::now();
    for (semaphore, value) in waits {
        let Some(object) = SEMAPHORES.get(name, semaphore) else {
            continue;
        };
        match object.consume(value) {
            Some(at) => ready = ready.max(at),
            None if value == 0 => {
                fault(
                    name,
                    format_args!("semaphore={semaphore:?} has no signal to wait for"),
                );
            }
            None => call!("wait-before-signal", "value={value}"),
        }
    }
    ready
}

fn signal(name: &'static str, signals: impl Iterator<Item = (vk::Semaphore, u64)>, at: Instant) {
    for (semaphore, value) in signals {
        if let Some(object) = SEMAPHORES.get(name, semaphore) {
            object.signal(value, at);
        }
    }
}

fn owner(
    name: &'static str,
    queue: vk::Queue,
) -> Option<(std::sync::Arc<Queue>, std::sync::Arc<Device>)> {
    let queue = QUEUES.get(name, queue)?;
    let device = device::get(name, queue.device)?;
    Some((queue, device))
}

fn finish(name: &'static str, queue: &Queue, fence: vk::Fence) {
    if let Some(fence) = FENCES.optional(name, fence) {
        fence.set(Payload::At(queue.idle_at()));
    }
    sync::announce();
}

pub(crate) extern "system" fn submit(
    queue: vk::Queue,
    count: u32,
    submits: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    const NAME: &str = "vkQueueSubmit";
    call!("vkQueueSubmit", "count={count}");
    let Some((queue, device)) = owner(NAME, queue) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    if device.submitted() {
        sync::announce();
        return vk::Result::ERROR_DEVICE_LOST;
    }
    for info in ffi::list(submits, count) {
        let values = ffi::chained::<vk::TimelineSemaphoreSubmitInfo<'_>>(info.p_next);
        let wait_values = values.map_or(&[][..], |values| {
            ffi::list(
                values.p_wait_semaphore_values,
                values.wait_semaphore_value_count,
            )
        });
        let signal_values = values.map_or(&[][..], |values| {
            ffi::list(
                values.p_signal_semaphore_values,
                values.signal_semaphore_value_count,
            )
        });
        for commands in ffi::list(info.p_command_buffers, info.command_buffer_count) {
            let _checked = COMMANDS.get(NAME, *commands);
        }
        let waits = ffi::list(info.p_wait_semaphores, info.wait_semaphore_count);
        let signals = ffi::list(info.p_signal_semaphores, info.signal_semaphore_count);
        let end = queue.run(ready(NAME, with_values(waits, wait_values)));
        signal(NAME, with_values(signals, signal_values), end);
    }
    finish(NAME, &queue, fence);
    vk::Result::SUCCESS
}

fn with_values<'a>(
    semaphores: &'a [vk::Semaphore],
    values: &'a [u64],
) -> impl Iterator<Item = (vk::Semaphore, u64)> + 'a {
    let values = values.iter().copied().chain(std::iter::repeat(0));
    semaphores.iter().copied().zip(values)
}

pub(crate) extern "system" fn submit2(
    queue: vk::Queue,
    count: u32,
    submits: *const vk::SubmitInfo2<'_>,
    fence: vk::Fence,
) -> vk::Result {
    const NAME: &str = "vkQueueSubmit2";
    call!("vkQueueSubmit2", "count={count}");
    let Some((queue, device)) = owner(NAME, queue) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    if device.submitted() {
        sync::announce();
        return vk::Result::ERROR_DEVICE_LOST;
    }
    let pair = |info: &vk::SemaphoreSubmitInfo<'_>| (info.semaphore, info.value);
    for info in ffi::list(submits, count) {
        for commands in ffi::list(info.p_command_buffer_infos, info.command_buffer_info_count) {
            let _checked = COMMANDS.get(NAME, commands.command_buffer);
        }
        let waits = ffi::list(info.p_wait_semaphore_infos, info.wait_semaphore_info_count);
        let signals = ffi::list(
            info.p_signal_semaphore_infos,
            info.signal_semaphore_info_count,
        );
        let end = queue.run(ready(NAME, waits.iter().map(pair)));
        signal(NAME, signals.iter().map(pair), end);
    }
    finish(NAME, &queue, fence);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn wait_idle(queue: vk::Queue) -> vk::Result {
    call!("vkQueueWaitIdle");
    let Some((queue, device)) = owner("vkQueueWaitIdle", queue) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    sleep_until_idle(&queue, &device)
}

pub(crate) fn sleep_until_idle(queue: &Queue, device: &Device) -> vk::Result {
    if device.is_lost() {
        return vk::Result::ERROR_DEVICE_LOST;
    }
    std::thread::sleep(queue.idle_at().saturating_duration_since(Instant::now()));
    vk::Result::SUCCESS
}

/// Present: consumes the waits; the image is shown at once.
pub(crate) extern "system" fn present(
    queue: vk::Queue,
    info: *const vk::PresentInfoKHR<'_>,
) -> vk::Result {
    const NAME: &str = "vkQueuePresentKHR";
    call!("vkQueuePresentKHR");
    let (Some((_queue, device)), Some(info)) = (owner(NAME, queue), ffi::get(info)) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let waits = ffi::list(info.p_wait_semaphores, info.wait_semaphore_count);
    ready(NAME, with_values(waits, &[]));
    let answer = if device.is_lost() {
        vk::Result::ERROR_DEVICE_LOST
    } else {
        vk::Result::SUCCESS
    };
    for slot in ffi::list_mut(info.p_results, info.swapchain_count) {
        *slot = answer;
    }
    answer
}
