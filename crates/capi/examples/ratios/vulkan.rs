//! `pipeline_cache.cpp` in Rust: saves with nothing new, before and with a `BlobSaver`.
#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;
use towpath_cache::saving::{BlobFile, BlobSaver, BlobSource, Fetched, SaveOutcome};
use towpath_cache::{Error, Folder};
use towpath_measure::sample::median;

use crate::{Outcome, milliseconds, says_ratio};

/// The little of a game that a pipeline cache needs; lives until the process ends.
struct Game {
    _entry: ash::Entry,
    _instance: ash::Instance,
    device: ash::Device,
    layout: vk::PipelineLayout,
    cache: vk::PipelineCache,
}

impl Game {
    fn new() -> Outcome<Self> {
        // SAFETY: the loader's initialisation has no conditions on this program.
        let entry = unsafe { ash::Entry::load() }?;
        // SAFETY: no pointers in the structure.
        let instance = unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) }?;
        // SAFETY: a live instance.
        let physical = unsafe { instance.enumerate_physical_devices() }?;
        let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let create = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
        let first = *physical.first().ok_or("no Vulkan device")?;
        // SAFETY: a device of the instance; the structure's arrays live over the call.
        let device = unsafe { instance.create_device(first, &create, None) }?;
        // SAFETY: a live device.
        let layout = unsafe {
            device.create_pipeline_layout(&vk::PipelineLayoutCreateInfo::default(), None)
        }?;
        // SAFETY: as above.
        let cache =
            unsafe { device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None) }?;
        Ok(Self {
            _entry: entry,
            _instance: instance,
            device,
            layout,
            cache,
        })
    }

    /// A pipeline that does nothing, in work groups of `size`.
    fn compile(&self, size: u32) -> Outcome {
        let code = [
            0x0723_0203,
            0x1_0000,
            0,
            5,
            0,
            0x2_0011,
            1,
            0x3_000e,
            0,
            1,
            0x5_000f,
            5,
            1,
            0x6e69_616d,
            0,
            0x6_0010,
            1,
            17,
            size,
            1,
            1,
            0x2_0013,
            2,
            0x3_0021,
            3,
            2,
            0x5_0036,
            2,
            1,
            0,
            3,
            0x2_00f8,
            4,
            0x1_00fd,
            0x1_0038,
        ];
        let shader = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: a live device; the code lives over the call.
        let module = unsafe { self.device.create_shader_module(&shader, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let create = [vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout)];
        // SAFETY: live objects of one device.
        let made = unsafe {
            self.device
                .create_compute_pipelines(self.cache, &create, None)
        };
        made.map_err(|(_made, code)| code)?;
        Ok(())
    }

    fn get(&self) -> Result<Vec<u8>, vk::Result> {
        // SAFETY: live objects of one device.
        unsafe { self.device.get_pipeline_cache_data(self.cache) }
    }
}

impl BlobSource for Game {
    fn size(&mut self) -> Result<u64, Error> {
        let mut bytes = 0;
        let ask = self.device.fp_v1_0().get_pipeline_cache_data;
        // SAFETY: live objects; without a buffer only the size is stored.
        let code = unsafe {
            ask(
                self.device.handle(),
                self.cache,
                &raw mut bytes,
                std::ptr::null_mut(),
            )
        };
        code.result().map_err(refused)?;
        Ok(bytes as u64)
    }

    fn data(&mut self) -> Result<Fetched, Error> {
        let bytes = self.get().map_err(refused)?;
        Ok(Fetched {
            bytes,
            is_whole: true,
        })
    }
}

fn refused(code: vk::Result) -> Error {
    Error::Driver {
        call: "vkGetPipelineCacheData",
        problem: code.to_string(),
    }
}

pub(crate) fn cache() -> Outcome {
    const STARTS: usize = 10;
    const SAVES: usize = 200;
    let folder = tempfile::tempdir()?;
    let mut game = Game::new()?;
    for size in 1..=24 {
        game.compile(size)?;
    }
    game.compile(1000)?;
    let mut saver = saver(folder.path())?;
    let first = saver.save(&mut game, false);
    if !matches!(first.outcome, SaveOutcome::Written) {
        return Err(first.line().into());
    }
    let file = folder.path().join("pipelines.bin");
    let (mut before, mut ours) = (Vec::new(), Vec::new());
    for _start in 0..STARTS {
        let start = Instant::now();
        std::fs::write(&file, game.get()?)?;
        before.push(milliseconds(start));
    }
    for _save in 0..SAVES {
        let start = Instant::now();
        let saved = saver.save(&mut game, false);
        // On a busy machine an answer may seem dear; the library then does not ask for a while.
        if matches!(saved.outcome, SaveOutcome::Unchanged) {
            ours.push(milliseconds(start));
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    if ours.is_empty() {
        return Err("too busy a machine to compare saves".into());
    }
    says_ratio("saves with nothing new", median(&before), median(&ours));
    Ok(())
}

fn saver(folder: &Path) -> Outcome<BlobSaver> {
    let disk = Arc::new(Folder::open(folder)?);
    Ok(BlobSaver::new(BlobFile::new(disk, "pipelines.bin"), None))
}
