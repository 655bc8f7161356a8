//! Runs Vulkan steps named on the command line and prints one line per step.
//!
//! ```text
//! towpath-vulkan-steps [WISH...] STEP...
//!
//! wishes:  wide-features cache-control version-1.0 ray-tracing swapchain external device=N
//! steps:   compute=N@SEED   N compute pipelines, shaders SEED..SEED+N, one call each
//!          batch=N@SEED     the same in one call
//!          threads=N@SEED   N by each of 8 threads at once, all different
//!          fail-on=N@SEED   the same one by one with FAIL_ON_PIPELINE_COMPILE_REQUIRED
//!          graphics=N@SEED  rt=N@SEED  rt-deferred=N@SEED  (mock driver only)
//!          library=N@SEED   N graphics pipelines, each linked from a library of its own (mock driver only)
//!          shader-object=N@SEED  N shader objects (mock driver only)
//!          flags2=N@SEED unknown=N@SEED derivative=N@SEED   chains the overlay must leave alone
//!          cache=FILE       a cache from FILE (empty where it is missing) for the steps that follow
//!          no-cache         null for the steps that follow
//!          save=FILE        fetches the cache's data and writes FILE
//!          size             asks for the size
//!          submit=N         N submissions, each waited for and reset
//!          repeat=N         one submission, waited for N times
//!          frames=N         N presents
//!          timeline=N       one timeline value per submission, waited for twice each
//!          sync-fd          states of a fence around an export and an import of SYNC_FD (wish external)
//!          wait-any=N       of N fences the last is signaled; waits for any with timeout 0, twice
//!          reuse=N          fences destroyed and made anew, asked for their state
//!          cost=N           asks N times for the state of a fence, and the clock; prints ns of processor time each
//!          map-readback     a transfer target in uncached memory, mapped
//!          map-wide=USAGE   the same, but its use is that of a VkBufferUsageFlags2CreateInfo
//!          wrong-handle     a fence passed where a semaphore belongs (mock driver only)
//!          orphan           destroys the instance and leaves the device; nothing may follow but again, sleep and leave
//!          again            another instance and device of the same wishes, for the steps that follow
//!          sleep=MS  fork  kill  leave
//! ```

#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::print_stdout,
    reason = "every call of ash is unsafe by Vulkan's valid usage, which this program states as a whole"
)]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ash::vk;
use ash::vk::Handle as _;
use towpath_mock_game::gpu::{Gpu, Wishes};

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut wishes = Wishes::default();
    let mut steps = Vec::new();
    for word in &words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("wide-features", _) => wishes.wide_features = true,
            ("cache-control", _) => wishes.cache_control = true,
            ("version-1.0", _) => wishes.version_1_0 = true,
            ("ray-tracing", _) => wishes.ray_tracing = true,
            ("external", _) => wishes.external = true,
            ("swapchain", _) => wishes.swapchain = true,
            ("device", number) => wishes.number = number.parse()?,
            step => steps.push(step),
        }
    }
    let mut run = Run {
        gpu: Gpu::open(&wishes)?,
        wishes,
        cache: vk::PipelineCache::null(),
        pipelines: Vec::new(),
    };
    for (step, value) in steps {
        let said = run
            .step(step, value)
            .with_context(|| format!("step {step}={value}"))?;
        println!("{step} {said}");
        if step == "leave" {
            return Ok(ExitCode::SUCCESS);
        }
    }
    run.close();
    Ok(ExitCode::SUCCESS)
}

struct Run {
    gpu: Gpu,
    wishes: Wishes,
    cache: vk::PipelineCache,
    pipelines: Vec<vk::Pipeline>,
}

/// What a creation came to.
#[derive(Default)]
struct Tally {
    made: u32,
    required: u32,
    failed: u32,
}

impl Tally {
    fn say(&self) -> String {
        format!(
            "made={} required={} failed={}",
            self.made, self.required, self.failed
        )
    }
}

fn count_and_seed(value: &str) -> Result<(u64, u64)> {
    let (count, seed) = value.split_once('@').unwrap_or((value, "0"));
    Ok((count.parse()?, seed.parse()?))
}

impl Run {
    fn step(&mut self, step: &str, value: &str) -> Result<String> {
        match step {
            "compute" => self.one_by_one(value, vk::PipelineCreateFlags::empty()),
            "fail-on" => {
                let flag = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
                self.one_by_one(value, flag)
            }
            "batch" | "derivative" | "flags2" | "unknown" => self.batch(step, value),
            "threads" => self.threads(value),
            "graphics" => self.graphics(value),
            "library" => self.library(value),
            "shader-object" => self.shader_objects(value),
            "rt" | "rt-deferred" => self.ray_tracing(value, step == "rt-deferred"),
            "cache" => {
                let data = std::fs::read(value).unwrap_or_default();
                self.cache = self.gpu.cache(&data)?;
                Ok(format!("bytes={}", data.len()))
            }
            "no-cache" => {
                self.gpu.drop_cache(std::mem::take(&mut self.cache));
                Ok(String::new())
            }
            "save" => {
                let data = self.gpu.cache_data(self.cache)?;
                std::fs::write(value, &data)?;
                Ok(format!("bytes={}", data.len()))
            }
            "size" => Ok(format!("bytes={}", self.gpu.cache_size(self.cache)?)),
            _ => self.other(step, value),
        }
    }

    fn other(&mut self, step: &str, value: &str) -> Result<String> {
        match step {
            "submit" => self.submit(value.parse()?),
            "repeat" => self.repeat(value.parse()?),
            "frames" => self.frames(value.parse()?),
            "timeline" => self.timeline(value.parse()?),
            "cost" => self.cost(value.parse()?),
            "sync-fd" => self.sync_fd(),
            "wait-any" => self.wait_any(value.parse()?),
            "reuse" => self.reuse(value.parse()?),
            "map-readback" => self.map_readback(None),
            "map-wide" => self.map_readback(Some(value.parse()?)),
            "wrong-handle" => self.wrong_handle(),
            "sleep" => {
                std::thread::sleep(Duration::from_millis(value.parse()?));
                Ok(String::new())
            }
            "orphan" => {
                unsafe { self.gpu.instance.destroy_instance(None) };
                Ok(String::new())
            }
            "again" => {
                self.pipelines.clear();
                self.cache = vk::PipelineCache::null();
                self.gpu = Gpu::open(&self.wishes)?;
                Ok(String::new())
            }
            "fork" => self.fork(),
            "kill" => {
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
                bail!("still alive");
            }
            "leave" => Ok(String::new()),
            _ => bail!("no such step"),
        }
    }

    fn note(&mut self, tally: &mut Tally, made: Result<vk::Pipeline, vk::Result>) {
        match made {
            Ok(pipeline) => {
                tally.made += 1;
                self.pipelines.push(pipeline);
            }
            Err(vk::Result::PIPELINE_COMPILE_REQUIRED) => tally.required += 1,
            Err(_) => tally.failed += 1,
        }
    }

    fn one_by_one(&mut self, value: &str, flags: vk::PipelineCreateFlags) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let mut tally = Tally::default();
        for seed in seed..seed + count {
            let made = self.gpu.compute(self.cache, seed, flags);
            self.note(&mut tally, made);
        }
        Ok(tally.say())
    }

    fn threads(&mut self, value: &str) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let (gpu, cache) = (&self.gpu, self.cache);
        let made = std::thread::scope(|scope| {
            let work = |thread: u64| {
                let first = seed + thread * count;
                let empty = vk::PipelineCreateFlags::empty();
                scope.spawn(move || -> Vec<_> {
                    (first..first + count)
                        .map(|one| gpu.compute(cache, one, empty))
                        .collect()
                })
            };
            let all: Vec<_> = (0..8).map(work).collect();
            all.into_iter()
                .flat_map(|one| one.join().unwrap_or_default())
                .collect::<Vec<_>>()
        });
        let mut tally = Tally::default();
        for one in made {
            self.note(&mut tally, one);
        }
        Ok(tally.say())
    }

    fn batch(&mut self, step: &str, value: &str) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let modules: Result<Vec<_>, _> = (seed..seed + count)
            .map(|seed| self.gpu.module(seed))
            .collect();
        let modules = modules?;
        let wide = vk::PipelineCreateFlags2CreateInfoKHR::default();
        let unknown = vk::BaseInStructure {
            s_type: vk::StructureType::from_raw(0x7fff_fff0),
            ..Default::default()
        };
        let mut infos: Vec<_> = modules
            .iter()
            .map(|module| self.gpu.compute_info(*module))
            .collect();
        for (number, info) in infos.iter_mut().enumerate() {
            match step {
                "derivative" if number == 0 => {
                    info.flags = vk::PipelineCreateFlags::ALLOW_DERIVATIVES;
                }
                "derivative" => {
                    info.flags = vk::PipelineCreateFlags::DERIVATIVE;
                    info.base_pipeline_index = 0;
                }
                "flags2" => info.p_next = (&raw const wide).cast(),
                "unknown" => info.p_next = (&raw const unknown).cast(),
                _ => {}
            }
        }
        let mut tally = Tally::default();
        let made = unsafe {
            self.gpu
                .device
                .create_compute_pipelines(self.cache, &infos, None)
        };
        let (pipelines, error) = match made {
            Ok(pipelines) => (pipelines, vk::Result::SUCCESS),
            Err((pipelines, error)) => (pipelines, error),
        };
        for pipeline in pipelines {
            let null = pipeline == vk::Pipeline::null();
            self.note(&mut tally, if null { Err(error) } else { Ok(pipeline) });
        }
        for module in modules {
            self.gpu.drop_module(module);
        }
        Ok(tally.say())
    }

    fn graphics(&mut self, value: &str) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let mut tally = Tally::default();
        for seed in seed..seed + count {
            let module = self.gpu.module(seed)?;
            let stages = [vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::VERTEX)
                .module(module)
                .name(c"main")];
            let info = vk::GraphicsPipelineCreateInfo::default().stages(&stages);
            let made = unsafe {
                self.gpu
                    .device
                    .create_graphics_pipelines(self.cache, &[info], None)
            };
            let first = made.map_err(|(_, error)| error);
            let first = first.map(|all| all.first().copied().unwrap_or_default());
            self.note(&mut tally, first);
            self.gpu.drop_module(module);
        }
        Ok(tally.say())
    }

    fn library(&mut self, value: &str) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let mut tally = Tally::default();
        for seed in seed..seed + count {
            let module = self.gpu.module(seed)?;
            let stages = [vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::VERTEX)
                .module(module)
                .name(c"main")];
            let mut part = vk::GraphicsPipelineLibraryCreateInfoEXT::default()
                .flags(vk::GraphicsPipelineLibraryFlagsEXT::PRE_RASTERIZATION_SHADERS);
            let info = vk::GraphicsPipelineCreateInfo::default()
                .flags(vk::PipelineCreateFlags::LIBRARY_KHR)
                .stages(&stages)
                .push_next(&mut part);
            let made = self.one_graphics(&info);
            self.note(&mut tally, made);
            if let Ok(library) = made {
                let libraries = [library];
                let mut linked = vk::PipelineLibraryCreateInfoKHR::default().libraries(&libraries);
                let info = vk::GraphicsPipelineCreateInfo::default().push_next(&mut linked);
                let made = self.one_graphics(&info);
                self.note(&mut tally, made);
            }
            self.gpu.drop_module(module);
        }
        Ok(tally.say())
    }

    fn one_graphics(
        &self,
        info: &vk::GraphicsPipelineCreateInfo<'_>,
    ) -> Result<vk::Pipeline, vk::Result> {
        let infos = core::slice::from_ref(info);
        let device = &self.gpu.device;
        let made = unsafe { device.create_graphics_pipelines(self.cache, infos, None) };
        let made = made.map_err(|(_, error)| error)?;
        Ok(made.first().copied().unwrap_or_default())
    }

    fn shader_objects(&mut self, value: &str) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let objects = ash::ext::shader_object::Device::new(&self.gpu.instance, &self.gpu.device);
        let mut made = 0;
        for seed in seed..seed + count {
            let words = towpath_mock_game::shader::compute(seed, 8);
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let info = vk::ShaderCreateInfoEXT::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .code_type(vk::ShaderCodeTypeEXT::SPIRV)
                .code(&code)
                .name(c"main");
            let all = unsafe { objects.create_shaders(&[info], None) };
            for shader in all.map_err(|(_, error)| error)? {
                made += 1;
                unsafe { objects.destroy_shader(shader, None) };
            }
        }
        Ok(format!("made={made}"))
    }

    fn ray_tracing(&mut self, value: &str, deferred: bool) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let rt = ash::khr::ray_tracing_pipeline::Device::new(&self.gpu.instance, &self.gpu.device);
        let later =
            ash::khr::deferred_host_operations::Device::new(&self.gpu.instance, &self.gpu.device);
        let mut tally = Tally::default();
        for seed in seed..seed + count {
            let module = self.gpu.module(seed)?;
            let stages = [vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::RAYGEN_KHR)
                .module(module)
                .name(c"main")];
            let info = vk::RayTracingPipelineCreateInfoKHR::default().stages(&stages);
            let operation = if deferred {
                unsafe { later.create_deferred_operation(None) }?
            } else {
                vk::DeferredOperationKHR::null()
            };
            let mut pipeline = vk::Pipeline::null();
            let create = rt.fp().create_ray_tracing_pipelines_khr;
            let device = self.gpu.device.handle();
            let null = core::ptr::null();
            let mut answer = unsafe {
                create(
                    device,
                    operation,
                    self.cache,
                    1,
                    &raw const info,
                    null,
                    &raw mut pipeline,
                )
            };
            if answer == vk::Result::OPERATION_DEFERRED_KHR {
                unsafe { later.deferred_operation_join(operation) }?;
                answer =
                    unsafe { (later.fp().get_deferred_operation_result_khr)(device, operation) };
            } else if answer == vk::Result::OPERATION_NOT_DEFERRED_KHR {
                answer = vk::Result::SUCCESS;
            }
            self.note(&mut tally, answer.result_with_success(pipeline));
            unsafe { later.destroy_deferred_operation(operation, None) };
            self.gpu.drop_module(module);
        }
        Ok(tally.say())
    }

    fn submit(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        let mut done = 0;
        let mut last = vk::Result::SUCCESS;
        for _ in 0..count {
            let one = self.gpu.submit(fence).and_then(|()| self.gpu.wait(fence));
            match one.and_then(|()| self.gpu.reset(fence)) {
                Ok(()) => done += 1,
                Err(error) => last = error,
            }
        }
        self.gpu.drop_fence(fence);
        Ok(format!("done={done} last={last:?}"))
    }

    fn repeat(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        self.gpu.submit(fence)?;
        for _ in 0..count {
            self.gpu.wait(fence)?;
        }
        self.gpu.drop_fence(fence);
        Ok(String::new())
    }

    fn frames(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        for _ in 0..count {
            self.gpu.present(fence)?;
        }
        self.gpu.drop_fence(fence);
        Ok(String::new())
    }

    fn timeline(&mut self, count: u64) -> Result<String> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let semaphore = [unsafe { self.gpu.device.create_semaphore(&info, None) }?];
        for value in 1..=count {
            let value = [value];
            let mut values =
                vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&value);
            let submit = vk::SubmitInfo::default()
                .signal_semaphores(&semaphore)
                .push_next(&mut values);
            let null = vk::Fence::null();
            unsafe {
                self.gpu
                    .device
                    .queue_submit(self.gpu.queue, &[submit], null)
            }?;
            let wait = vk::SemaphoreWaitInfo::default()
                .semaphores(&semaphore)
                .values(&value);
            unsafe { self.gpu.device.wait_semaphores(&wait, u64::MAX) }?;
            unsafe { self.gpu.device.wait_semaphores(&wait, 0) }?;
        }
        semaphore
            .iter()
            .for_each(|one| unsafe { self.gpu.device.destroy_semaphore(*one, None) });
        Ok(String::new())
    }

    /// The rows that a remembered signal must not get wrong, each as the driver's answer.
    fn sync_fd(&mut self) -> Result<String> {
        let external =
            ash::khr::external_fence_fd::Device::new(&self.gpu.instance, &self.gpu.device);
        let kind = vk::ExternalFenceHandleTypeFlags::SYNC_FD;
        let fence = self.gpu.fence(false)?;
        let mut states = Vec::new();
        let mut note = |gpu: &Gpu| {
            let state = unsafe { gpu.device.get_fence_status(fence) };
            states.push(state.map_or(-1, i32::from));
        };
        self.gpu.submit(fence)?;
        self.gpu.wait(fence)?;
        note(&self.gpu);
        let info = vk::FenceGetFdInfoKHR::default()
            .fence(fence)
            .handle_type(kind);
        let fd = unsafe { external.get_fence_fd(&info) }?;
        note(&self.gpu);
        let info = vk::ImportFenceFdInfoKHR::default()
            .fence(fence)
            .flags(vk::FenceImportFlags::TEMPORARY)
            .handle_type(kind)
            .fd(fd);
        unsafe { external.import_fence_fd(&info) }?;
        note(&self.gpu);
        self.gpu.reset(fence)?;
        note(&self.gpu);
        // A signal below a temporary payload comes back with the reset.
        self.gpu.submit(fence)?;
        self.gpu.wait(fence)?;
        unsafe { external.import_fence_fd(&info) }?;
        note(&self.gpu);
        self.gpu.reset(fence)?;
        note(&self.gpu);
        self.gpu.drop_fence(fence);
        Ok(format!("states={states:?}"))
    }

    fn cost(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        let status = self.gpu.device.fp_v1_0().get_fence_status;
        let device = self.gpu.device.handle();
        let began = processor_time();
        for _ in 0..count {
            let _not_ready = unsafe { status(device, fence) };
        }
        let spent = processor_time().saturating_sub(began);
        self.gpu.drop_fence(fence);
        let began = processor_time();
        for _ in 0..count {
            std::hint::black_box(std::time::Instant::now());
        }
        let clock = processor_time().saturating_sub(began);
        let per_call = |spent: Duration| spent.as_secs_f64() * 1e9 / f64::from(count.max(1));
        Ok(format!(
            "{:.1} ns per call, {:.1} ns per clock read",
            per_call(spent),
            per_call(clock)
        ))
    }

    fn wait_any(&mut self, count: u32) -> Result<String> {
        let fences: Result<Vec<_>, _> = (1..=count).map(|n| self.gpu.fence(n == count)).collect();
        let fences = fences?;
        let mut answers = Vec::new();
        for all in [false, false, true, true] {
            answers.push(unsafe { self.gpu.device.wait_for_fences(&fences, all, 0) });
        }
        for fence in fences {
            self.gpu.drop_fence(fence);
        }
        Ok(format!("{answers:?}"))
    }

    fn reuse(&mut self, count: u32) -> Result<String> {
        let (mut signaled, mut lost) = (0, 0);
        for number in 0..count {
            let fence = self.gpu.fence(number % 2 == 0)?;
            match unsafe { self.gpu.device.get_fence_status(fence) } {
                Ok(state) => signaled += u32::from(state),
                Err(_) => lost += 1,
            }
            self.gpu.drop_fence(fence);
        }
        Ok(format!("signaled={signaled} lost={lost}"))
    }

    fn map_readback(&mut self, usage: Option<u64>) -> Result<String> {
        let device = &self.gpu.device;
        let mut wide = vk::BufferUsageFlags2CreateInfoKHR::default()
            .usage(vk::BufferUsageFlags2KHR::from_raw(usage.unwrap_or(0)));
        let mut info = vk::BufferCreateInfo::default()
            .size(1 << 20)
            .usage(vk::BufferUsageFlags::TRANSFER_DST);
        if usage.is_some() {
            info = info.push_next(&mut wide);
        }
        unsafe {
            let buffer = device.create_buffer(&info, None)?;
            let types = self
                .gpu
                .instance
                .get_physical_device_memory_properties(self.gpu.physical);
            let shared = vk::MemoryPropertyFlags::HOST_VISIBLE;
            let cached = vk::MemoryPropertyFlags::HOST_CACHED;
            let index = types.memory_types_as_slice().iter().position(|kind| {
                kind.property_flags.contains(shared) && !kind.property_flags.contains(cached)
            });
            let index = u32::try_from(index.context("all memory is cached")?)?;
            let size = device.get_buffer_memory_requirements(buffer).size;
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(size)
                .memory_type_index(index);
            let memory = device.allocate_memory(&info, None)?;
            device.bind_buffer_memory(buffer, memory, 0)?;
            let _address =
                device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?;
            device.unmap_memory(memory);
            device.destroy_buffer(buffer, None);
            device.free_memory(memory, None);
        }
        Ok(String::new())
    }

    fn wrong_handle(&mut self) -> Result<String> {
        let fence = self.gpu.fence(true)?;
        let wrong = vk::Semaphore::from_raw(fence.as_raw());
        let answer = unsafe { self.gpu.device.get_semaphore_counter_value(wrong) };
        self.gpu.drop_fence(fence);
        Ok(format!("{answer:?}"))
    }

    /// The child makes a pipeline and leaves without a word; the parent waits for it.
    fn fork(&mut self) -> Result<String> {
        match unsafe { libc::fork() } {
            -1 => bail!("fork failed"),
            0 => {
                let made =
                    self.gpu
                        .compute(self.cache, 0xf0_0000, vk::PipelineCreateFlags::empty());
                unsafe { libc::_exit(i32::from(made.is_err())) };
            }
            child => {
                let mut status = 0;
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                Ok(format!("child={status}"))
            }
        }
    }

    fn close(self) {
        self.pipelines
            .into_iter()
            .for_each(|pipeline| self.gpu.drop_pipeline(pipeline));
        self.gpu.drop_cache(self.cache);
        self.gpu.close();
    }
}

/// What this thread has had of the processor: other programs take none of it, as they do of the wall's time.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
