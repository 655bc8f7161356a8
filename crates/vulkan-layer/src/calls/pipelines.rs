//! Pipeline creation.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use ash::vk;
use towpath_ledger::Outcome;

use super::NO_DEVICE;
use crate::device::{self, Device};
use crate::record::{At, Made, Started, start};
use crate::wall;

/// `vkCreateGraphicsPipelines`.
pub(crate) unsafe extern "system" fn graphics(
    handle: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::GraphicsPipelineCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_graphics) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, cache, count, infos, alloc, out) };
    wall::beside(|| made(device, At::CreateGraphics, started, count, answer));
    answer
}

/// `vkCreateComputePipelines`.
pub(crate) unsafe extern "system" fn compute(
    handle: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_compute) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, cache, count, infos, alloc, out) };
    wall::beside(|| made(device, At::CreateCompute, started, count, answer));
    answer
}

/// `vkCreateRayTracingPipelinesKHR`.
pub(crate) unsafe extern "system" fn ray_tracing(
    handle: vk::Device,
    deferred: vk::DeferredOperationKHR,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoKHR<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_ray_tracing) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, deferred, cache, count, infos, alloc, out) };
    wall::beside(|| made(device, At::CreateRayTracing, started, count, answer));
    answer
}

fn made(device: &Device, at: At, started: Started, count: u32, answer: vk::Result) {
    let outcome = if answer.as_raw() < 0 {
        Outcome::CallFailed
    } else {
        Outcome::Observed
    };
    device.recorder.pipelines(
        at,
        started,
        &Made {
            count,
            compiled: 0,
            outcome,
        },
    );
}
