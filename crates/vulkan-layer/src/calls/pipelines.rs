//! Pipeline creation: timed, and served from the store where the cache fix may.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use ash::vk;
use towpath_cache::policy::{CreateCall, Use, Why, decide};
use towpath_cache::vulkan::Made as Served;
use towpath_ledger::Outcome;
use towpath_settings::{Fix, Mode};

use super::NO_DEVICE;
use crate::abi;
use crate::device::{self, Device};
use crate::fix::CacheFix;
use crate::fix::describe::{self, Describe};
use crate::fork;
use crate::process;
use crate::record::{At, Made, start};
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
    let call = Call {
        device,
        at: At::CreateGraphics,
        cache,
        is_deferred: false,
        count,
    };
    call.run(infos, out, |cache, count, infos, out| {
        // SAFETY: the application's arguments, or one element of them with a flag and a cache of ours.
        unsafe { next(handle, cache, count, infos, alloc, out) }
    })
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
    let call = Call {
        device,
        at: At::CreateCompute,
        cache,
        is_deferred: false,
        count,
    };
    call.run(infos, out, |cache, count, infos, out| {
        // SAFETY: the application's arguments, or one element of them with a flag and a cache of ours.
        unsafe { next(handle, cache, count, infos, alloc, out) }
    })
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
    let is_deferred = deferred != vk::DeferredOperationKHR::null();
    let call = Call {
        device,
        at: At::CreateRayTracing,
        cache,
        is_deferred,
        count,
    };
    call.run(infos, out, |cache, count, infos, out| {
        // SAFETY: the application's arguments, or one element of them with a flag and a cache of ours;
        // the overlay serves no deferred call, so each operation is handed on once.
        unsafe { next(handle, deferred, cache, count, infos, alloc, out) }
    })
}

/// `vkCreateShadersEXT`: Vulkan gives it no cache, so that there is nothing to serve from.
pub(crate) unsafe extern "system" fn shader_objects(
    handle: vk::Device,
    count: u32,
    infos: *const vk::ShaderCreateInfoEXT<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::ShaderEXT,
) -> vk::Result {
    let Some((device, next)) = device::next(handle, |next| next.create_shaders) else {
        return NO_DEVICE;
    };
    let started = start();
    // SAFETY: the application's arguments, unchanged.
    let answer = unsafe { next(handle, count, infos, alloc, out) };
    let made = passed_on(count, answer);
    wall::beside(|| device.recorder.pipelines(At::CreateShaders, started, &made));
    answer
}

/// What is known of a call that the driver answered by itself.
fn passed_on(count: u32, answer: vk::Result) -> Made {
    let failed = answer.as_raw() < 0;
    let outcome = if failed {
        Outcome::CallFailed
    } else {
        Outcome::Observed
    };
    Made {
        count,
        compiled: 0,
        outcome,
    }
}

/// One create call of the program.
struct Call<'a> {
    device: &'a Device,
    at: At,
    cache: vk::PipelineCache,
    is_deferred: bool,
    count: u32,
}

impl Call<'_> {
    fn run<T: Describe>(
        &self,
        infos: *const T,
        out: *mut vk::Pipeline,
        next: impl Fn(vk::PipelineCache, u32, *const T, *mut vk::Pipeline) -> vk::Result,
    ) -> vk::Result {
        let started = start();
        let fix = wall::guarded(None, || self.fix(abi::list(infos, self.count)));
        let served = fix.and_then(|fix| {
            let infos = abi::list(infos, self.count);
            let out = abi::list_mut(out, self.count);
            // Nothing asked for, or no place for it, is for the driver to answer.
            if infos.is_empty() || out.is_empty() {
                return None;
            }
            let one = |cache, info: &T, out: &mut vk::Pipeline| {
                next(
                    cache,
                    1,
                    core::ptr::from_ref(info),
                    core::ptr::from_mut(out),
                )
            };
            // A panic of ours before the first creation leaves the call to be passed on.
            wall::guarded(None, || Some(self.serve(fix, infos, out, one)))
        });
        let (answer, made) = served.unwrap_or_else(|| {
            let answer = next(self.cache, self.count, infos, out);
            (answer, passed_on(self.count, answer))
        });
        wall::beside(|| self.device.recorder.pipelines(self.at, started, &made));
        answer
    }

    /// The fix, if it may serve this call; else the log says why not, once.
    fn fix<T: Describe>(&self, infos: &[T]) -> Option<&CacheFix> {
        let fix = self.device.fix.as_ref()?;
        let process = process::get();
        if fork::is_child() || process.fixes().mode(Fix::Cache) == Mode::Off {
            return None;
        }
        let base = CreateCall {
            has_program_cache: self.cache != vk::PipelineCache::null(),
            is_deferred: self.is_deferred,
            has_cache_control: true,
            is_overlay_ready: true,
            mode: fix.mode,
            ..CreateCall::default()
        };
        match decide(&describe::call(infos, base)) {
            Use::Overlay => Some(fix),
            Use::Pass(why) => {
                let number = Why::ALL.iter().position(|one| *one == why).unwrap_or(0);
                let line = format!("pipelines passed on as they are: {}", why.text());
                process.log_once(u32::try_from(number).unwrap_or(0), &line);
                None
            }
        }
    }

    /// Makes the elements one by one, as Vulkan makes a batch: null for what fails, the others made.
    fn serve<T: Describe>(
        &self,
        fix: &CacheFix,
        infos: &[T],
        out: &mut [vk::Pipeline],
        next: impl Fn(vk::PipelineCache, &T, &mut vk::Pipeline) -> vk::Result,
    ) -> (vk::Result, Made) {
        let own = self
            .device
            .caches
            .hold_data(self.cache)
            .then_some(self.cache);
        let mut answer = vk::Result::SUCCESS;
        let mut compiled = 0;
        for (info, slot) in infos.iter().zip(out) {
            let mut attempt = |cache, extra| next(cache, &info.with_flags(extra).info, slot);
            let flag = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
            if own.is_some_and(|own| attempt(own, flag) == vk::Result::SUCCESS) {
                continue;
            }
            match fix.create(attempt) {
                Served::Hit => {}
                Served::New => compiled += 1,
                Served::Failed(code) => {
                    if answer == vk::Result::SUCCESS || code.as_raw() < 0 {
                        answer = code;
                    }
                }
            }
        }
        let outcome = match (answer.as_raw() < 0, compiled) {
            (true, _) => Outcome::CallFailed,
            (false, 0) => Outcome::CacheHit,
            (false, _) => Outcome::CacheMiss,
        };
        (
            answer,
            Made {
                count: self.count,
                compiled,
                outcome,
            },
        )
    }
}
