//! One device, one pipeline layout, and compute pipelines made in one of several ways.
#![expect(unsafe_code, reason = "Vulkan calls through ash")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ash::vk;
use towpath_cache::vulkan::{Binaries, Loaded};
use towpath_sys::vulkan::pipeline_binary as binary;

type Negotiate = unsafe extern "system" fn(*mut u32) -> vk::Result;

/// Where the time went, in nanoseconds summed over threads.
#[derive(Debug, Default)]
pub(crate) struct Split {
    pub(crate) modules: AtomicU64,
    pub(crate) keys: AtomicU64,
    pub(crate) loads: AtomicU64,
    pub(crate) creates: AtomicU64,
}

fn timed<T>(total: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let answer = work();
    let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    total.fetch_add(nanos, Ordering::Relaxed);
    answer
}

/// A device that can make compute pipelines.
pub(crate) struct Gpu {
    _entry: ash::Entry,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSetLayout,
    made: Mutex<Vec<vk::Pipeline>>,
    pub(crate) split: Split,
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
        // SAFETY: the physical device is the instance's, which was made for 1.3.
        let offers = unsafe { towpath_cache::vulkan::offers(&instance, physical) };
        let has_binaries = wants_binaries && offers.has_binaries;
        let has_control = offers.has_cache_control;
        let (device, set, layout) = Self::device(&instance, physical, has_control, has_binaries)?;
        Ok(Self {
            _entry: entry,
            instance,
            physical,
            device,
            layout,
            set,
            made: Mutex::default(),
            split: Split::default(),
            has_binaries,
        })
    }

    fn device(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        has_control: bool,
        has_binaries: bool,
    ) -> Result<(ash::Device, vk::DescriptorSetLayout, vk::PipelineLayout), vk::Result> {
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
            .pipeline_creation_cache_control(has_control);
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

    /// What the device offers, and the way of saving that follows from it.
    pub(crate) fn offers(&self) -> String {
        // SAFETY: the physical device is the instance's, which was made for 1.3.
        let offers = unsafe { towpath_cache::vulkan::offers(&self.instance, self.physical) };
        format!("{offers:?}, {:?}", towpath_cache::policy::way(&offers))
    }

    /// What the driver says of its binaries; nothing where it has none.
    pub(crate) fn binary_properties(&self) -> Option<String> {
        let mut own = binary::Properties {
            s_type: <binary::Properties as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            internal_cache: 0,
            internal_cache_control: 0,
            prefers_internal_cache: 0,
            precompiled_internal_cache: 0,
            compressed_data: 0,
        };
        let mut all = vk::PhysicalDeviceProperties2 {
            p_next: (&raw mut own).cast(),
            ..Default::default()
        };
        let (instance, physical) = (&self.instance, self.physical);
        // SAFETY: the physical device is the instance's; the chain lives on this stack.
        unsafe { instance.get_physical_device_properties2(physical, &mut all) };
        self.has_binaries.then(|| format!("{own:?}"))
    }

    /// An empty pipeline cache.
    pub(crate) fn empty_cache(&self) -> Result<vk::PipelineCache, vk::Result> {
        let info = vk::PipelineCacheCreateInfo::default();
        // SAFETY: the device is alive.
        unsafe { self.device.create_pipeline_cache(&info, None) }
    }

    /// Destroys a cache of [`empty_cache`](Self::empty_cache); null is fine.
    pub(crate) fn destroy_cache(&self, cache: vk::PipelineCache) {
        // SAFETY: the cache is null or of this device, and no call uses it any more.
        unsafe { self.device.destroy_pipeline_cache(cache, None) };
    }

    fn module(&self, words: &[u32]) -> Result<vk::ShaderModule, vk::Result> {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        timed(&self.split.modules, || {
            // SAFETY: the device is alive; the words are valid SPIR-V (spirv-val accepts them).
            unsafe { self.device.create_shader_module(&info, None) }
        })
    }

    fn drop_module(&self, module: vk::ShaderModule) {
        timed(&self.split.modules, || {
            // SAFETY: the module is of this device, and no call uses it any more.
            unsafe { self.device.destroy_shader_module(module, None) };
        });
    }

    /// Makes all of `infos` in one call.
    fn create(
        &self,
        cache: vk::PipelineCache,
        infos: &[vk::ComputePipelineCreateInfo<'_>],
    ) -> Result<Vec<vk::Pipeline>, vk::Result> {
        let made = timed(&self.split.creates, || {
            // SAFETY: what the structures point at is alive in the callers.
            unsafe { self.device.create_compute_pipelines(cache, infos, None) }
        });
        // Also PIPELINE_COMPILE_REQUIRED, with null handles.
        let made = made.map_err(|(_null, code)| code)?;
        let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(&made);
        Ok(made)
    }

    fn info(&self, module: vk::ShaderModule) -> vk::ComputePipelineCreateInfo<'static> {
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout)
    }

    /// Makes a pipeline of these words; `cache` and `flags` as the overlay says.
    pub(crate) fn pipeline(
        &self,
        words: &[u32],
        cache: vk::PipelineCache,
        flags: vk::PipelineCreateFlags,
    ) -> vk::Result {
        let module = match self.module(words) {
            Ok(module) => module,
            Err(code) => return code,
        };
        let made = self.create(cache, &[self.info(module).flags(flags)]);
        self.drop_module(module);
        made.err().unwrap_or(vk::Result::SUCCESS)
    }

    /// Makes a pipeline from the store's binaries under the driver's key, or compiles it and stores them;
    /// `None` for a hit, else the bytes that were new.
    pub(crate) fn pipeline_by_key(
        &self,
        words: &[u32],
        binaries: &Binaries,
    ) -> Result<Option<u64>, Box<dyn std::error::Error>> {
        let module = self.module(words)?;
        let info = self.info(module);
        let key = timed(&self.split.keys, || {
            // SAFETY: the structure is valid; module and layout are alive.
            unsafe { binaries.pipeline_key((&raw const info).cast()) }
        })?;
        let loaded = timed(&self.split.loads, || binaries.load(&key))?;
        let is_made = loaded.is_some_and(|loaded| self.make_from(&[&loaded], module).is_ok());
        let new = if is_made {
            None
        } else {
            Some(self.capture(info, &key, binaries)?)
        };
        self.drop_module(module);
        Ok(new)
    }

    /// Makes pipelines from the store's binaries under names of this program's own, all in one call and
    /// without SPIR-V; those that are missing are compiled and stored. `None` for a hit each.
    pub(crate) fn pipelines_by_name(
        &self,
        first: usize,
        shaders: &[Vec<u32>],
        binaries: &Binaries,
    ) -> Result<Vec<Option<u64>>, Box<dyn std::error::Error>> {
        let keys: Result<Vec<Vec<u8>>, _> = (first..first + shaders.len())
            .map(|n| binaries.named_key(format!("compute {n}").as_bytes()))
            .collect();
        let keys = keys?;
        let loaded = timed(&self.split.loads, || binaries.load_all(&keys))?;
        let there: Vec<&Loaded<'_>> = loaded.iter().flatten().collect();
        let null = vk::ShaderModule::null();
        let all_made = there.len() == shaders.len() && self.make_from(&there, null).is_ok();
        let mut out = Vec::with_capacity(shaders.len());
        for ((words, key), found) in shaders.iter().zip(&keys).zip(&loaded) {
            let alone = |found: &Loaded<'_>| self.make_from(&[found], null).is_ok();
            if all_made || found.as_ref().is_some_and(alone) {
                out.push(None);
                continue;
            }
            let module = self.module(words)?;
            out.push(Some(self.capture(self.info(module), key, binaries)?));
            self.drop_module(module);
        }
        Ok(out)
    }

    /// Makes pipelines from binaries; the driver may answer `PIPELINE_COMPILE_REQUIRED` all the same.
    fn make_from(
        &self,
        loaded: &[&Loaded<'_>],
        module: vk::ShaderModule,
    ) -> Result<(), vk::Result> {
        let given: Vec<binary::BinaryInfo> = loaded.iter().map(|one| one.info()).collect();
        let infos: Vec<vk::ComputePipelineCreateInfo<'_>> = given
            .iter()
            .map(|given| {
                let mut info = self.info(module);
                info.p_next = std::ptr::from_ref(given).cast();
                info
            })
            .collect();
        self.create(vk::PipelineCache::null(), &infos)?;
        Ok(())
    }

    fn capture(
        &self,
        mut info: vk::ComputePipelineCreateInfo<'_>,
        key: &[u8],
        binaries: &Binaries,
    ) -> Result<u64, Box<dyn std::error::Error>> {
        let flags2 = vk::PipelineCreateFlags2CreateInfoKHR::default().flags(
            vk::PipelineCreateFlags2KHR::from_raw(binary::CREATE_2_CAPTURE_DATA),
        );
        info.p_next = (&raw const flags2).cast();
        let mut new = 0;
        for pipeline in self.create(vk::PipelineCache::null(), &[info])? {
            // SAFETY: created with CAPTURE_DATA just now.
            new += unsafe { binaries.capture(key, pipeline) }?;
        }
        Ok(new)
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
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        for pipeline in made.drain(..) {
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
