//! One device, one pipeline layout, and compute pipelines made in one of several ways.
#![expect(unsafe_code, reason = "Vulkan calls through ash")]

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as binary;

type Negotiate = unsafe extern "system" fn(*mut u32) -> vk::Result;

/// A device that can make compute pipelines.
pub(crate) struct Gpu {
    _entry: ash::Entry,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSetLayout,
    made: Vec<vk::Pipeline>,
    /// VK_KHR_pipeline_binary is there and on.
    pub(crate) has_binaries: bool,
}

impl Gpu {
    /// Loads libvulkan and makes a device on the physical device of this number; pipeline binaries are
    /// switched on only where they are wanted, so that the other arms run as programs of today do.
    pub(crate) fn new(
        number: usize,
        wants_binaries: bool,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let entry = entry()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the create info is valid and lives through the call.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance is alive.
        let all = unsafe { instance.enumerate_physical_devices() }?;
        let physical = *all.get(number).ok_or("no such Vulkan device")?;
        let has_binaries = wants_binaries && has_extension(&instance, physical, binary::NAME)?;
        let (device, set, layout) = Self::device(&instance, physical, has_binaries)?;
        Ok(Self {
            _entry: entry,
            instance,
            physical,
            device,
            layout,
            set,
            made: Vec::new(),
            has_binaries,
        })
    }

    fn device(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        has_binaries: bool,
    ) -> Result<(ash::Device, vk::DescriptorSetLayout, vk::PipelineLayout), vk::Result> {
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
            .pipeline_creation_cache_control(true);
        let mut maintenance5 =
            vk::PhysicalDeviceMaintenance5FeaturesKHR::default().maintenance5(true);
        let mut binaries = binary::Features {
            s_type: <binary::Features as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            pipeline_binaries: vk::TRUE,
        };
        let extensions = [binary::NAME.as_ptr(), vk::KHR_MAINTENANCE5_NAME.as_ptr()];
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // Linked by hand: ash 0.38 does not know the extension.
        if has_binaries {
            control.p_next = (&raw mut binaries).cast();
        }
        maintenance5.p_next = (&raw mut control).cast();
        info.p_next = maintenance5.p_next;
        if has_binaries {
            info.p_next = (&raw const maintenance5).cast();
            info = info.enabled_extension_names(&extensions);
        }
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

    /// Makes a pipeline from the store's binaries, or compiles it and stores them; `true` for a hit.
    pub(crate) fn pipeline_of_binaries(
        &mut self,
        words: &[u32],
        binaries: &towpath_cache::vulkan::Binaries,
        new_bytes: &mut u64,
    ) -> Result<bool, Box<dyn std::error::Error>> {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the device is alive; the words are valid SPIR-V (the validation layer accepts them).
        let module = unsafe { self.device.create_shader_module(&info, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let mut flags2 = vk::PipelineCreateFlags2CreateInfoKHR::default().flags(
            vk::PipelineCreateFlags2KHR::from_raw(binary::CREATE_2_CAPTURE_DATA),
        );
        let mut info = vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout);
        // SAFETY: the structure is valid; module and layout are alive.
        let key = unsafe { binaries.pipeline_key((&raw const info).cast()) }?;
        let loaded = binaries.load(&key)?;
        let given = binary::BinaryInfo {
            s_type: <binary::BinaryInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            binary_count: u32::try_from(loaded.as_ref().map_or(0, |l| l.handles().len()))?,
            binaries: loaded
                .as_ref()
                .map_or(std::ptr::null(), |l| l.handles().as_ptr()),
        };
        info.p_next = match &loaded {
            Some(_) => (&raw const given).cast(),
            None => (&raw mut flags2).cast_const().cast(),
        };
        let cache = vk::PipelineCache::null();
        // SAFETY: module, layout and binaries are alive; the chain lives on this stack.
        let made = unsafe { self.device.create_compute_pipelines(cache, &[info], None) };
        let made = made.map_err(|(_null, code)| code)?;
        // SAFETY: the module is not used after this.
        unsafe { self.device.destroy_shader_module(module, None) };
        if loaded.is_none() {
            for pipeline in &made {
                // SAFETY: created with CAPTURE_DATA just now.
                *new_bytes += unsafe { binaries.capture(&key, *pipeline) }?;
            }
        }
        self.made.extend(made);
        Ok(loaded.is_some())
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

fn has_extension(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    name: &std::ffi::CStr,
) -> Result<bool, vk::Result> {
    // SAFETY: the physical device is the instance's.
    let all = unsafe { instance.enumerate_device_extension_properties(physical) }?;
    Ok(all
        .iter()
        .any(|one| one.extension_name_as_c_str() == Ok(name)))
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
