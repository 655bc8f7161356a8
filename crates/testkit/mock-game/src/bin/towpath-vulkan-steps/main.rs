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

mod pipelines;
mod waits;

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
