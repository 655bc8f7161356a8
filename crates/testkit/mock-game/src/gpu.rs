//! One device and its usual objects, over the system's Vulkan loader.

#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "every call of ash is unsafe by Vulkan's valid usage, which a test program states as a whole: all objects are made here, used while the device lives, and handed back at the end"
)]

use anyhow::{Context as _, Result};
use ash::vk;

/// What of a device a program asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// Puts `VkPhysicalDeviceVulkan13Features` into the chain, with cache control off.
    pub wide_features: bool,
    /// Puts `VkPhysicalDevicePipelineCreationCacheControlFeatures` into the chain, switched on.
    pub cache_control: bool,
    /// A Vulkan 1.0 instance.
    pub version_1_0: bool,
    /// Extensions and features of ray tracing (the mock driver's word is taken).
    pub ray_tracing: bool,
    /// Descriptors of fences.
    pub external: bool,
    /// A headless swapchain.
    pub swapchain: bool,
    /// Which physical device.
    pub number: usize,
}

/// A device, its queue, and layouts for the shaders of [`shader`](crate::shader).
#[expect(missing_debug_implementations, reason = "ash's loaders have none")]
pub struct Gpu {
    _library: libloading::Library,
    /// The loader.
    pub entry: ash::Entry,
    /// The instance.
    pub instance: ash::Instance,
    /// Its physical device.
    pub physical: vk::PhysicalDevice,
    /// The device.
    pub device: ash::Device,
    /// Its one queue.
    pub queue: vk::Queue,
    /// One storage buffer.
    pub set_layout: vk::DescriptorSetLayout,
    /// As `set_layout`.
    pub layout: vk::PipelineLayout,
    /// Swapchain functions, surface functions, surface and swapchain, where wished.
    pub swapchain: Option<Swapchain>,
}

/// A swapchain on a headless surface.
#[expect(missing_debug_implementations, reason = "ash's loaders have none")]
pub struct Swapchain {
    /// Functions of swapchains.
    pub device: ash::khr::swapchain::Device,
    surfaces: ash::khr::surface::Instance,
    surface: vk::SurfaceKHR,
    /// The swapchain.
    pub handle: vk::SwapchainKHR,
}

impl Gpu {
    /// Opens the loader and makes a device.
    ///
    /// # Errors
    ///
    /// No loader, no driver, or what they answer.
    pub fn open(wishes: &Wishes) -> Result<Self> {
        let library = unsafe { libloading::Library::new("libvulkan.so.1") }?;
        let get =
            unsafe { *library.get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0")? };
        let entry = unsafe {
            ash::Entry::from_static_fn(ash::StaticFn {
                get_instance_proc_addr: get,
            })
        };
        let version = if wishes.version_1_0 {
            vk::API_VERSION_1_0
        } else {
            vk::API_VERSION_1_3
        };
        let application = vk::ApplicationInfo::default().api_version(version);
        let mut names = Vec::new();
        if wishes.swapchain {
            names.push(ash::khr::surface::NAME.as_ptr());
            names.push(ash::ext::headless_surface::NAME.as_ptr());
        }
        let info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_extension_names(&names);
        let instance = unsafe { entry.create_instance(&info, None) }.context("vkCreateInstance")?;
        let all = unsafe { instance.enumerate_physical_devices() }?;
        let physical = *all.get(wishes.number).context("no such physical device")?;
        let device = device(&instance, physical, wishes).context("vkCreateDevice")?;
        let queue = unsafe { device.get_device_queue(0, 0) };
        let binding = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
        let set_layout = unsafe { device.create_descriptor_set_layout(&info, None) }?;
        let layouts = [set_layout];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        let layout = unsafe { device.create_pipeline_layout(&info, None) }?;
        let swapchain = if wishes.swapchain {
            Some(Swapchain::new(&entry, &instance, &device)?)
        } else {
            None
        };
        Ok(Self {
            _library: library,
            entry,
            instance,
            physical,
            device,
            queue,
            set_layout,
            layout,
            swapchain,
        })
    }

    /// A compute pipeline; `chain` is called on the creation structure before use.
    ///
    /// # Errors
    ///
    /// The driver's answer, `PIPELINE_COMPILE_REQUIRED` included.
    pub fn compute(
        &self,
        cache: vk::PipelineCache,
        seed: u64,
        flags: vk::PipelineCreateFlags,
    ) -> Result<vk::Pipeline, vk::Result> {
        let module = self.module(seed)?;
        let info = self.compute_info(module).flags(flags);
        let made = unsafe { self.device.create_compute_pipelines(cache, &[info], None) };
        self.drop_module(module);
        match made {
            Ok(pipelines) => pipelines.first().copied().ok_or(vk::Result::ERROR_UNKNOWN),
            Err((_, error)) => Err(error),
        }
    }

    /// The creation structure of a compute pipeline.
    pub fn compute_info(&self, module: vk::ShaderModule) -> vk::ComputePipelineCreateInfo<'static> {
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout)
    }

    /// The shader module of `seed`.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn module(&self, seed: u64) -> Result<vk::ShaderModule, vk::Result> {
        let code = crate::shader::compute(seed, 8);
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        unsafe { self.device.create_shader_module(&info, None) }
    }

    /// Ends a shader module.
    pub fn drop_module(&self, module: vk::ShaderModule) {
        unsafe { self.device.destroy_shader_module(module, None) };
    }

    /// Ends a pipeline.
    pub fn drop_pipeline(&self, pipeline: vk::Pipeline) {
        unsafe { self.device.destroy_pipeline(pipeline, None) };
    }

    /// A cache from `data`; empty for an empty slice.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn cache(&self, data: &[u8]) -> Result<vk::PipelineCache, vk::Result> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        unsafe { self.device.create_pipeline_cache(&info, None) }
    }

    /// The size of a cache's data in bytes, as the driver announces it.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn cache_size(&self, cache: vk::PipelineCache) -> Result<usize, vk::Result> {
        cache_size(&self.device, cache)
    }

    /// A cache's data.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn cache_data(&self, cache: vk::PipelineCache) -> Result<Vec<u8>, vk::Result> {
        cache_data(&self.device, cache)
    }

    /// Ends a cache.
    pub fn drop_cache(&self, cache: vk::PipelineCache) {
        unsafe { self.device.destroy_pipeline_cache(cache, None) };
    }

    /// A fence.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn fence(&self, signaled: bool) -> Result<vk::Fence, vk::Result> {
        let flags = if signaled {
            vk::FenceCreateFlags::SIGNALED
        } else {
            vk::FenceCreateFlags::empty()
        };
        let info = vk::FenceCreateInfo::default().flags(flags);
        unsafe { self.device.create_fence(&info, None) }
    }

    /// Submits nothing, with a fence.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn submit(&self, fence: vk::Fence) -> Result<(), vk::Result> {
        unsafe {
            self.device
                .queue_submit(self.queue, &[vk::SubmitInfo::default()], fence)
        }
    }

    /// Waits for a fence without a limit.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn wait(&self, fence: vk::Fence) -> Result<(), vk::Result> {
        unsafe { self.device.wait_for_fences(&[fence], true, u64::MAX) }
    }

    /// Resets a fence.
    ///
    /// # Errors
    ///
    /// The driver's answer.
    pub fn reset(&self, fence: vk::Fence) -> Result<(), vk::Result> {
        unsafe { self.device.reset_fences(&[fence]) }
    }

    /// Ends a fence.
    pub fn drop_fence(&self, fence: vk::Fence) {
        unsafe { self.device.destroy_fence(fence, None) };
    }

    /// Acquires an image and presents it.
    ///
    /// # Errors
    ///
    /// The driver's answer; unknown where no swapchain was wished for.
    pub fn present(&self, fence: vk::Fence) -> Result<(), vk::Result> {
        let swapchain = self.swapchain.as_ref().ok_or(vk::Result::ERROR_UNKNOWN)?;
        let none = vk::Semaphore::null();
        let image = unsafe {
            swapchain
                .device
                .acquire_next_image(swapchain.handle, u64::MAX, none, fence)
        };
        let (image, _suboptimal) = image?;
        self.wait(fence)?;
        self.reset(fence)?;
        let (chains, images) = ([swapchain.handle], [image]);
        let info = vk::PresentInfoKHR::default()
            .swapchains(&chains)
            .image_indices(&images);
        unsafe { swapchain.device.queue_present(self.queue, &info) }.map(|_suboptimal| ())
    }

    /// Ends everything, as an orderly program does.
    pub fn close(self) {
        unsafe {
            let _lost = self.device.device_wait_idle();
            if let Some(swapchain) = &self.swapchain {
                swapchain.device.destroy_swapchain(swapchain.handle, None);
                swapchain.surfaces.destroy_surface(swapchain.surface, None);
            }
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device
                .destroy_descriptor_set_layout(self.set_layout, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

impl Swapchain {
    fn new(entry: &ash::Entry, instance: &ash::Instance, device: &ash::Device) -> Result<Self> {
        let headless = ash::ext::headless_surface::Instance::new(entry, instance);
        let surfaces = ash::khr::surface::Instance::new(entry, instance);
        let info = vk::HeadlessSurfaceCreateInfoEXT::default();
        let surface = unsafe { headless.create_headless_surface(&info, None) }?;
        let functions = ash::khr::swapchain::Device::new(instance, device);
        let info = vk::SwapchainCreateInfoKHR::default()
            .surface(surface)
            .min_image_count(3)
            .image_format(vk::Format::B8G8R8A8_UNORM)
            .image_extent(vk::Extent2D {
                width: 64,
                height: 64,
            })
            .image_array_layers(1)
            .image_usage(vk::ImageUsageFlags::COLOR_ATTACHMENT)
            .pre_transform(vk::SurfaceTransformFlagsKHR::IDENTITY)
            .composite_alpha(vk::CompositeAlphaFlagsKHR::OPAQUE)
            .present_mode(vk::PresentModeKHR::FIFO);
        let handle = unsafe { functions.create_swapchain(&info, None) }?;
        Ok(Self {
            device: functions,
            surfaces,
            surface,
            handle,
        })
    }
}

fn device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    wishes: &Wishes,
) -> Result<ash::Device> {
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
    let mut names = Vec::new();
    if wishes.swapchain {
        names.push(ash::khr::swapchain::NAME.as_ptr());
    }
    if wishes.external {
        names.push(ash::khr::external_fence_fd::NAME.as_ptr());
    }
    if wishes.ray_tracing {
        names.push(ash::khr::deferred_host_operations::NAME.as_ptr());
        names.push(ash::khr::acceleration_structure::NAME.as_ptr());
        names.push(ash::khr::ray_tracing_pipeline::NAME.as_ptr());
    }
    let mut timeline =
        vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
    let mut wide = vk::PhysicalDeviceVulkan13Features::default();
    let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
        .pipeline_creation_cache_control(true);
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names);
    if !wishes.version_1_0 {
        info = info.push_next(&mut timeline);
    }
    if wishes.wide_features {
        info = info.push_next(&mut wide);
    }
    if wishes.cache_control {
        info = info.push_next(&mut control);
    }
    Ok(unsafe { instance.create_device(physical, &info, None) }?)
}

fn cache_size(device: &ash::Device, cache: vk::PipelineCache) -> Result<usize, vk::Result> {
    let get = device.fp_v1_0().get_pipeline_cache_data;
    let mut size = 0;
    let null = core::ptr::null_mut();
    unsafe { get(device.handle(), cache, &raw mut size, null) }.result()?;
    Ok(size)
}

/// A cache's data, from any thread: the call needs no lock of the caller's.
///
/// # Errors
///
/// The driver's answer.
pub fn cache_data(device: &ash::Device, cache: vk::PipelineCache) -> Result<Vec<u8>, vk::Result> {
    let get = device.fp_v1_0().get_pipeline_cache_data;
    let mut size = cache_size(device, cache)?;
    let mut data = vec![0_u8; size];
    let out = data.as_mut_ptr().cast();
    let answer = unsafe { get(device.handle(), cache, &raw mut size, out) };
    data.truncate(size);
    if answer == vk::Result::INCOMPLETE {
        Ok(data)
    } else {
        answer.result_with_success(data)
    }
}
