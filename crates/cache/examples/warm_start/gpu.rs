//! One device, one pipeline layout, and compute pipelines made in one of several ways.
#![expect(unsafe_code, reason = "Vulkan calls through ash")]

use ash::vk;

type Negotiate = unsafe extern "system" fn(*mut u32) -> vk::Result;

/// A device that can make compute pipelines.
pub(crate) struct Gpu {
    _entry: ash::Entry,
    instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSetLayout,
    made: Vec<vk::Pipeline>,
}

impl Gpu {
    /// Loads libvulkan and makes a device on the physical device of this number.
    pub(crate) fn new(number: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let entry = entry()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the create info is valid and lives through the call.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance is alive.
        let all = unsafe { instance.enumerate_physical_devices() }?;
        let physical = *all.get(number).ok_or("no such Vulkan device")?;
        let (device, set, layout) = Self::device(&instance, physical)?;
        Ok(Self {
            _entry: entry,
            instance,
            physical,
            device,
            layout,
            set,
            made: Vec::new(),
        })
    }

    fn device(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
    ) -> Result<(ash::Device, vk::DescriptorSetLayout, vk::PipelineLayout), vk::Result> {
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
            .pipeline_creation_cache_control(true);
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .push_next(&mut control);
        // SAFETY: queue family 0 exists on every device; the chain lives through the call.
        let device = unsafe { instance.create_device(physical, &info, None) }?;
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is alive.
        let set = unsafe { device.create_descriptor_set_layout(&info, None) }?;
        let sets = [set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: the device and the set layout are alive.
        let layout = unsafe { device.create_pipeline_layout(&info, None) }?;
        Ok((device, set, layout))
    }

    /// The device's identity for the store.
    pub(crate) fn identity(&self) -> towpath_cache::Identity {
        // SAFETY: the physical device is the instance's, which was made for 1.3.
        unsafe { towpath_cache::vulkan::identity(&self.instance, self.physical) }
    }

    /// Makes a pipeline of these words; `cache` and `flags` as the overlay says.
    pub(crate) fn pipeline(
        &mut self,
        words: &[u32],
        cache: vk::PipelineCache,
        flags: vk::PipelineCreateFlags,
    ) -> vk::Result {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the device is alive; the words are valid SPIR-V (the validation layer accepts them).
        let module = match unsafe { self.device.create_shader_module(&info, None) } {
            Ok(module) => module,
            Err(code) => return code,
        };
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout)
            .flags(flags);
        // SAFETY: module, layout and cache are alive.
        let made = unsafe { self.device.create_compute_pipelines(cache, &[info], None) };
        // SAFETY: the module is not used after this.
        unsafe { self.device.destroy_shader_module(module, None) };
        match made {
            Ok(pipelines) => {
                self.made.extend(pipelines);
                vk::Result::SUCCESS
            }
            // Also PIPELINE_COMPILE_REQUIRED, with null handles.
            Err((_null, code)) => code,
        }
    }
}

/// The Vulkan loader; on machines without one, such as bare compute nodes, NVIDIA's driver by itself.
fn entry() -> Result<ash::Entry, Box<dyn std::error::Error>> {
    // SAFETY: the system's Vulkan loader, whose initialisers this program trusts.
    if let Ok(entry) = unsafe { ash::Entry::load() } {
        return Ok(entry);
    }
    // SAFETY: NVIDIA's Vulkan driver, as above.
    let library = unsafe { libloading::Library::new("libGLX_nvidia.so.0") }?;
    // SAFETY: the loader-driver interface gives this symbol this type.
    let negotiate =
        unsafe { library.get::<Negotiate>(b"vk_icdNegotiateLoaderICDInterfaceVersion") }?;
    let mut version = 5;
    // SAFETY: the pointer is to a number on this stack.
    let code = unsafe { negotiate(&raw mut version) };
    if code != vk::Result::SUCCESS {
        return Err(format!("the driver's interface negotiation answers {code:?}").into());
    }
    // SAFETY: as above.
    let symbol =
        unsafe { library.get::<vk::PFN_vkGetInstanceProcAddr>(b"vk_icdGetInstanceProcAddr") }?;
    let functions = ash::StaticFn {
        get_instance_proc_addr: *symbol,
    };
    // The driver stays loaded until the process ends.
    let _loaded_for_good = Box::leak(Box::new(library));
    // SAFETY: the function is the driver's and stays loaded.
    Ok(unsafe { ash::Entry::from_static_fn(functions) })
}

impl Drop for Gpu {
    fn drop(&mut self) {
        for pipeline in self.made.drain(..) {
            // SAFETY: made by this device, used by nobody.
            unsafe { self.device.destroy_pipeline(pipeline, None) };
        }
        // SAFETY: no pipeline is left that uses it.
        unsafe { self.device.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: no layout is left that uses it.
        unsafe { self.device.destroy_descriptor_set_layout(self.set, None) };
        // SAFETY: everything made from it is gone: the overlay is dropped before its Gpu.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: its only device is gone.
        unsafe { self.instance.destroy_instance(None) };
    }
}
