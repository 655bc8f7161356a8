//! Steps that make pipelines.

use anyhow::Result;
use ash::vk;

use crate::Run;

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

    pub(crate) fn one_by_one(
        &mut self,
        value: &str,
        flags: vk::PipelineCreateFlags,
    ) -> Result<String> {
        let (count, seed) = count_and_seed(value)?;
        let mut tally = Tally::default();
        for seed in seed..seed + count {
            let made = self.gpu.compute(self.cache, seed, flags);
            self.note(&mut tally, made);
        }
        Ok(tally.say())
    }

    pub(crate) fn threads(&mut self, value: &str) -> Result<String> {
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

    pub(crate) fn batch(&mut self, step: &str, value: &str) -> Result<String> {
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

    pub(crate) fn graphics(&mut self, value: &str) -> Result<String> {
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

    pub(crate) fn library(&mut self, value: &str) -> Result<String> {
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

    pub(crate) fn shader_objects(&mut self, value: &str) -> Result<String> {
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

    pub(crate) fn ray_tracing(&mut self, value: &str, deferred: bool) -> Result<String> {
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
}
