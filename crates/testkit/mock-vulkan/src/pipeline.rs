//! Pipelines of every kind: a key made from the shaders and state, looked up, else compiled.

use core::ffi::c_void;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as binary;

use crate::binary::BINARIES;
use crate::blob::{self, Code};
use crate::cache::{CACHES, Cache};
use crate::device::{self, Device};
use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::{call, fault};
use crate::key;
use crate::objects::DEFERRED;
use crate::script::script;

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) key: u64,
    pub(crate) code: Code,
    pub(crate) captured: bool,
}

pub(crate) static PIPELINES: Registry<Pipeline> = Registry::new(Kind::Pipeline);

/// The driver's own cache (script `internal_cache`).
static INTERNAL: LazyLock<Mutex<HashMap<u64, Code>>> = LazyLock::new(Mutex::default);
static COMPILES: AtomicU64 = AtomicU64::new(0);

/// Flags of one creation, from wherever the application put them.
#[derive(Clone, Copy)]
struct Flags(u64);

impl Flags {
    fn of(flags: vk::PipelineCreateFlags, chain: *const c_void) -> Self {
        let wide = ffi::chained::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>(chain);
        Self(wide.map_or(u64::from(flags.as_raw()), |wide| wide.flags.as_raw()))
    }

    fn has(self, flag: vk::PipelineCreateFlags) -> bool {
        self.0 & u64::from(flag.as_raw()) != 0
    }
}

struct Request<'a> {
    call: &'static str,
    device: &'a Device,
    cache: Option<&'a Cache>,
    chain: *const c_void,
    flags: Flags,
    key: Option<u64>,
}

enum Source {
    Binary,
    Cache,
    Internal,
    Compile,
}

fn make(request: &Request<'_>) -> Result<vk::Pipeline, vk::Result> {
    if request.device.is_lost() {
        return Err(vk::Result::ERROR_DEVICE_LOST);
    }
    let (key, code, source) = find_or_compile(request)?;
    let captured = request.flags.0 & binary::CREATE_2_CAPTURE_DATA != 0;
    if captured && request.cache.is_some() {
        fault(
            request.call,
            format_args!("VUID-09616: captures with a cache"),
        );
    }
    feedback(request.chain, &source);
    Ok(PIPELINES.add(Pipeline {
        key,
        code,
        captured,
    }))
}

fn find_or_compile(request: &Request<'_>) -> Result<(u64, Code, Source), vk::Result> {
    if let Some(found) = from_binaries(request) {
        call!("hit", "from=binary");
        return Ok((found.0, found.1, Source::Binary));
    }
    let key = request.key.ok_or(vk::Result::PIPELINE_COMPILE_REQUIRED)?;
    let key = key ^ request.device.code_salt();
    if let Some(code) = request.cache.and_then(|cache| cache.get(key)) {
        call!("hit", "from=cache key={key:016x}");
        std::thread::sleep(script().hit);
        return Ok((key, code, Source::Cache));
    }
    if script().internal_cache && !request.device.internal_cache_off() {
        let internal = INTERNAL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = internal.get(&key).cloned() {
            call!("hit", "from=internal key={key:016x}");
            if let Some(cache) = request.cache {
                cache.insert(key, code.clone());
            }
            return Ok((key, code, Source::Internal));
        }
    }
    if request
        .flags
        .has(vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED)
    {
        if !request.device.cache_control_enabled() {
            fault(
                request.call,
                format_args!("VUID-02878: pipelineCreationCacheControl is off"),
            );
        }
        call!("required", "key={key:016x}");
        return Err(vk::Result::PIPELINE_COMPILE_REQUIRED);
    }
    Ok((key, compile(key, request.cache)?, Source::Compile))
}

fn compile(key: u64, cache: Option<&Cache>) -> Result<Code, vk::Result> {
    let number = COMPILES.fetch_add(1, Ordering::Relaxed) + 1;
    if number == script().fail {
        return Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY);
    }
    call!("compile", "key={key:016x}");
    std::thread::sleep(script().compile);
    let code = blob::compile(key, script().entry_bytes, number == script().mark);
    if let Some(cache) = cache {
        cache.insert(key, code.clone());
    }
    if script().internal_cache {
        let mut internal = INTERNAL.lock().unwrap_or_else(PoisonError::into_inner);
        internal.insert(key, code.clone());
    }
    Ok(code)
}

fn from_binaries(request: &Request<'_>) -> Option<(u64, Code)> {
    let info = ffi::chained::<binary::BinaryInfo>(request.chain).filter(|i| i.binary_count > 0)?;
    if request.cache.is_some() {
        fault(
            request.call,
            format_args!("VUID-09617: binaries with a cache"),
        );
    }
    let first = ffi::list(info.binaries, info.binary_count).first()?;
    let binary = BINARIES.get(request.call, crate::binary::Raw(*first))?;
    Some((binary.key, binary.code.clone()))
}

fn feedback(chain: *const c_void, source: &Source) {
    let Some(info) = ffi::chained::<vk::PipelineCreationFeedbackCreateInfo<'_>>(chain) else {
        return;
    };
    let mut flags = vk::PipelineCreationFeedbackFlags::VALID;
    if matches!(source, Source::Cache) {
        flags |= vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT;
    }
    let nanoseconds = match source {
        Source::Compile => script().compile,
        Source::Binary | Source::Cache | Source::Internal => script().hit,
    };
    let duration = u64::try_from(nanoseconds.as_nanos()).unwrap_or(u64::MAX);
    ffi::put(
        info.p_pipeline_creation_feedback,
        vk::PipelineCreationFeedback { flags, duration },
    );
}

/// Creates a batch in Vulkan's way: null for what failed, the worst answer for all, early return.
fn batch<T>(
    infos: &[T],
    out: *mut vk::Pipeline,
    flags: impl Fn(&T) -> Flags,
    create: impl Fn(&T, Flags) -> Result<vk::Pipeline, vk::Result>,
) -> vk::Result {
    let count = u32::try_from(infos.len()).unwrap_or(0);
    let slots = ffi::list_mut(out, count);
    slots.fill(vk::Pipeline::null());
    let mut answer = vk::Result::SUCCESS;
    for (info, slot) in infos.iter().zip(slots) {
        let flags = flags(info);
        match create(info, flags) {
            Ok(pipeline) => *slot = pipeline,
            Err(error) => {
                if answer == vk::Result::SUCCESS || error.as_raw() < 0 {
                    answer = error;
                }
                if flags.has(vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE) {
                    break;
                }
            }
        }
    }
    answer
}

pub(crate) extern "system" fn create_graphics(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::GraphicsPipelineCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    const NAME: &str = "vkCreateGraphicsPipelines";
    let infos = ffi::list(infos, count);
    note_creation(
        NAME,
        cache,
        infos.first().map(|info| Flags::of(info.flags, info.p_next)),
        count,
    );
    let Some(device) = device::get(NAME, device) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let cache = CACHES.optional(NAME, cache);
    batch(
        infos,
        out,
        |info| Flags::of(info.flags, info.p_next),
        |info, flags| {
            make(&Request {
                call: NAME,
                device: &device,
                cache: cache.as_deref(),
                chain: info.p_next,
                flags,
                key: key::graphics(info),
            })
        },
    )
}

fn note_creation(name: &'static str, cache: vk::PipelineCache, flags: Option<Flags>, count: u32) {
    crate::journal::note(
        name,
        format_args!(
            "count={count} cache={cache:?} flags={:#x}",
            flags.map_or(0, |f| f.0)
        ),
    );
}

pub(crate) extern "system" fn create_compute(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    const NAME: &str = "vkCreateComputePipelines";
    let infos = ffi::list(infos, count);
    note_creation(
        NAME,
        cache,
        infos.first().map(|info| Flags::of(info.flags, info.p_next)),
        count,
    );
    let Some(device) = device::get(NAME, device) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let cache = CACHES.optional(NAME, cache);
    batch(
        infos,
        out,
        |info| Flags::of(info.flags, info.p_next),
        |info, flags| {
            make(&Request {
                call: NAME,
                device: &device,
                cache: cache.as_deref(),
                chain: info.p_next,
                flags,
                key: key::compute(info),
            })
        },
    )
}

pub(crate) extern "system" fn create_ray_tracing(
    device: vk::Device,
    deferred: vk::DeferredOperationKHR,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoKHR<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    const NAME: &str = "vkCreateRayTracingPipelinesKHR";
    let infos = ffi::list(infos, count);
    note_creation(
        NAME,
        cache,
        infos.first().map(|info| Flags::of(info.flags, info.p_next)),
        count,
    );
    let Some(device) = device::get(NAME, device) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let cache = CACHES.optional(NAME, cache);
    let operation = DEFERRED.optional(NAME, deferred);
    let answer = batch(
        infos,
        out,
        |info| Flags::of(info.flags, info.p_next),
        |info, flags| {
            make(&Request {
                call: NAME,
                device: &device,
                cache: cache.as_deref(),
                chain: info.p_next,
                flags,
                key: key::ray_tracing(info),
            })
        },
    );
    // A driver may do all of a deferred operation at once; the answer is then read from the operation.
    match operation {
        Some(operation) => {
            operation.finish(answer);
            vk::Result::OPERATION_DEFERRED_KHR
        }
        None => answer,
    }
}

pub(crate) extern "system" fn destroy(
    _device: vk::Device,
    pipeline: vk::Pipeline,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyPipeline");
    PIPELINES.remove("vkDestroyPipeline", pipeline);
}
