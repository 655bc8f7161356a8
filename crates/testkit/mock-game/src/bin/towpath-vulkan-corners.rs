//! Goes into the corners of Vulkan in which layers have gone wrong; prints a line for each one named.
//!
//! ```text
//! towpath-vulkan-corners CORNER...
//!
//! names        which functions can be had by which of the two look-ups
//! nulls        every destroy function with null
//! chain        a structure that nobody knows in the chain of a device
//! aliases      functions by the name of Vulkan's core and by that of the extension
//! group        a device of a device group, and its queue by vkGetDeviceQueue2
//! instances    instances on two threads at once; each device ends on another thread
//! allocator    allocation callbacks, counted
//! reload       the loader unloaded and loaded again, by a thread that ends afterwards
//! swapchains   two swapchains in one present, one of them made from an old one
//! batch        five pipelines in one call (the mock driver's script may refuse one)
//! empty        no pipelines in one call
//! feedback     creation feedback of a pipeline
//! merge        two caches merged, one of them destroyed before the other is used
//! ```

#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::print_stdout,
    reason = "every call of ash is unsafe by Vulkan's valid usage, which this program states as a whole"
)]

use core::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use ash::vk;
use towpath_mock_game::gpu::{Gpu, Wishes};

fn main() -> Result<()> {
    for corner in std::env::args().skip(1) {
        let said = go(&corner).with_context(|| corner.clone())?;
        println!("{corner} {said}");
    }
    Ok(())
}

fn go(corner: &str) -> Result<String> {
    match corner {
        "names" => names(),
        "nulls" => nulls(),
        "chain" => chain(),
        "aliases" => aliases(),
        "group" => group(),
        "instances" => instances(),
        "allocator" => allocator(),
        "reload" => reload(),
        "swapchains" => swapchains(),
        "batch" => batch(5),
        "empty" => batch(0),
        "feedback" => feedback(),
        "merge" => merge(),
        _ => bail!("no such corner"),
    }
}

fn open() -> Result<Gpu> {
    Gpu::open(&Wishes::default())
}

const NAMES: &[&CStr] = &[
    c"vkCreateInstance",
    c"vkEnumerateInstanceVersion",
    c"vkEnumerateInstanceLayerProperties",
    c"vkDestroyInstance",
    c"vkCreateDevice",
    c"vkEnumeratePhysicalDevices",
    c"vkGetPhysicalDeviceProperties2",
    c"vkGetInstanceProcAddr",
    c"vkGetDeviceProcAddr",
    c"vkDestroyDevice",
    c"vkQueueSubmit",
    c"vkQueueSubmit2",
    c"vkWaitSemaphores",
    c"vkCreateComputePipelines",
    c"vkCreateRayTracingPipelinesKHR",
    c"vkCreateShadersEXT",
    c"vkCreateSwapchainKHR",
    c"vkNoSuchFunction",
    c"",
];

fn names() -> Result<String> {
    let gpu = open()?;
    let by_instance = gpu.entry.static_fn().get_instance_proc_addr;
    let by_device = gpu.instance.fp_v1_0().get_device_proc_addr;
    let (instance, device) = (gpu.instance.handle(), gpu.device.handle());
    let one = |name: &&CStr| {
        let none = unsafe { by_instance(vk::Instance::null(), name.as_ptr()) };
        let first = unsafe { by_instance(instance, name.as_ptr()) };
        let second = unsafe { by_device(device, name.as_ptr()) };
        let found = [none, first, second].map(|found| u8::from(found.is_some()));
        format!("{}={found:?}", name.to_string_lossy())
    };
    let all: Vec<_> = NAMES.iter().map(one).collect();
    gpu.close();
    Ok(all.join(" "))
}

fn nulls() -> Result<String> {
    let gpu = open()?;
    let device = &gpu.device;
    unsafe {
        device.destroy_fence(vk::Fence::null(), None);
        device.destroy_semaphore(vk::Semaphore::null(), None);
        device.destroy_pipeline_cache(vk::PipelineCache::null(), None);
        device.destroy_pipeline(vk::Pipeline::null(), None);
        device.destroy_buffer(vk::Buffer::null(), None);
        device.free_memory(vk::DeviceMemory::null(), None);
        let none = core::ptr::null();
        (device.fp_v1_0().destroy_device)(vk::Device::null(), none);
        (gpu.instance.fp_v1_0().destroy_instance)(vk::Instance::null(), none);
    }
    // The real ones are untouched.
    let fence = gpu.fence(true)?;
    gpu.wait(fence)?;
    gpu.drop_fence(fence);
    gpu.close();
    Ok(String::new())
}

/// A device beside the usual one, with something of its own in its chain.
fn second_device(gpu: &Gpu, next: *const c_void) -> Result<ash::Device> {
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
    let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    info.p_next = next;
    Ok(unsafe { gpu.instance.create_device(gpu.physical, &info, None) }?)
}

fn chain() -> Result<String> {
    let gpu = open()?;
    let mut wide = vk::PhysicalDeviceVulkan13Features::default();
    let unknown = vk::BaseInStructure {
        s_type: vk::StructureType::from_raw(0x7fff_fff0),
        p_next: (&raw mut wide).cast_const().cast(),
        ..Default::default()
    };
    let device = second_device(&gpu, (&raw const unknown).cast())?;
    unsafe { device.destroy_device(None) };
    gpu.close();
    Ok(format!("control={}", wide.pipeline_creation_cache_control))
}

fn aliases() -> Result<String> {
    let gpu = open()?;
    let mut kind =
        vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
    let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
    let semaphore = unsafe { gpu.device.create_semaphore(&info, None) }?;
    let device = gpu.device.handle();
    let get = |name: &CStr| {
        let get = gpu.instance.fp_v1_0().get_device_proc_addr;
        unsafe { get(device, name.as_ptr()) }.with_context(|| format!("{name:?}"))
    };
    let mut values = Vec::new();
    for (step, suffix) in [(1, ""), (2, "KHR")] {
        let named = |name: &str| std::ffi::CString::new(format!("{name}{suffix}"));
        let submit = get(&named("vkQueueSubmit2")?)?;
        let submit: vk::PFN_vkQueueSubmit2 = unsafe { core::mem::transmute(submit) };
        let wait = get(&named("vkWaitSemaphores")?)?;
        let wait: vk::PFN_vkWaitSemaphores = unsafe { core::mem::transmute(wait) };
        let value = get(&named("vkGetSemaphoreCounterValue")?)?;
        let value: vk::PFN_vkGetSemaphoreCounterValue = unsafe { core::mem::transmute(value) };
        let signals = [vk::SemaphoreSubmitInfo::default()
            .semaphore(semaphore)
            .value(step)];
        let info = vk::SubmitInfo2::default().signal_semaphore_infos(&signals);
        let (semaphores, until) = ([semaphore], [step]);
        let wanted = vk::SemaphoreWaitInfo::default()
            .semaphores(&semaphores)
            .values(&until);
        let mut now = 0;
        unsafe {
            submit(gpu.queue, 1, &raw const info, vk::Fence::null()).result()?;
            wait(device, &raw const wanted, u64::MAX).result()?;
            value(device, semaphore, &raw mut now).result()?;
        }
        values.push(now);
    }
    unsafe { gpu.device.destroy_semaphore(semaphore, None) };
    gpu.close();
    Ok(format!("{values:?}"))
}

fn group() -> Result<String> {
    let gpu = open()?;
    let count = unsafe { gpu.instance.enumerate_physical_device_groups_len() }?;
    let mut groups = vec![vk::PhysicalDeviceGroupProperties::default(); count];
    unsafe {
        gpu.instance.enumerate_physical_device_groups(&mut groups)?;
    }
    let first = groups.first().context("no group")?;
    let members = first.physical_devices_as_slice();
    let chained = vk::DeviceGroupDeviceCreateInfo::default().physical_devices(members);
    let device = second_device(&gpu, (&raw const chained).cast())?;
    let info = vk::DeviceQueueInfo2::default();
    let queue = unsafe { device.get_device_queue2(&info) };
    let fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }?;
    unsafe {
        device.queue_submit(queue, &[vk::SubmitInfo::default()], fence)?;
        device.wait_for_fences(&[fence], true, u64::MAX)?;
        device.destroy_fence(fence, None);
        device.destroy_device(None);
    }
    let is_listed = members.contains(&gpu.physical);
    gpu.close();
    Ok(format!("groups={count} listed={is_listed}"))
}

fn work(gpu: &Gpu, seed: u64) -> Result<()> {
    let empty = vk::PipelineCreateFlags::empty();
    let pipeline = gpu.compute(vk::PipelineCache::null(), seed, empty)?;
    let fence = gpu.fence(false)?;
    gpu.submit(fence)?;
    gpu.wait(fence)?;
    gpu.drop_fence(fence);
    gpu.drop_pipeline(pipeline);
    Ok(())
}

fn instances() -> Result<String> {
    let rounds = |first: u64| -> Result<()> {
        for round in 0..10 {
            let gpu = open()?;
            work(&gpu, first + round)?;
            std::thread::spawn(move || gpu.close()).join().ok();
        }
        Ok(())
    };
    let other = std::thread::spawn(move || rounds(100));
    rounds(0)?;
    other.join().ok().context("a thread ended badly")??;
    Ok(String::new())
}

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "system" fn allocate(
    _user: *mut c_void,
    size: usize,
    align: usize,
    _scope: vk::SystemAllocationScope,
) -> *mut c_void {
    ALLOCATED.fetch_add(1, Ordering::Relaxed);
    let mut out = core::ptr::null_mut();
    unsafe { libc::posix_memalign(&raw mut out, align.max(16), size.max(1)) };
    out
}

unsafe extern "system" fn reallocate(
    user: *mut c_void,
    old: *mut c_void,
    size: usize,
    align: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    if old.is_null() {
        return unsafe { allocate(user, size, align, scope) };
    }
    // The C library's alignment is enough for all that loaders and drivers ask for here.
    unsafe { libc::realloc(old, size) }
}

unsafe extern "system" fn free(_user: *mut c_void, memory: *mut c_void) {
    if !memory.is_null() {
        FREED.fetch_add(1, Ordering::Relaxed);
        unsafe { libc::free(memory) };
    }
}

fn allocator() -> Result<String> {
    let callbacks = vk::AllocationCallbacks {
        pfn_allocation: Some(allocate),
        pfn_reallocation: Some(reallocate),
        pfn_free: Some(free),
        ..Default::default()
    };
    let callbacks = Some(&callbacks);
    let gpu = open()?;
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    unsafe {
        let instance = gpu.entry.create_instance(&info, callbacks)?;
        let physical = *instance
            .enumerate_physical_devices()?
            .first()
            .context("no device")?;
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&priorities)];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        let device = instance.create_device(physical, &info, callbacks)?;
        let fence = device.create_fence(&vk::FenceCreateInfo::default(), callbacks)?;
        let info = vk::PipelineLayoutCreateInfo::default();
        let layout = device.create_pipeline_layout(&info, callbacks)?;
        let cache = vk::PipelineCacheCreateInfo::default();
        let cache = device.create_pipeline_cache(&cache, callbacks)?;
        device.destroy_pipeline_cache(cache, callbacks);
        device.destroy_pipeline_layout(layout, callbacks);
        device.destroy_fence(fence, callbacks);
        device.destroy_device(callbacks);
        instance.destroy_instance(callbacks);
    }
    gpu.close();
    let (made, freed) = (
        ALLOCATED.load(Ordering::Relaxed),
        FREED.load(Ordering::Relaxed),
    );
    Ok(format!("used={} left={}", made > 0, made - freed))
}

fn reload() -> Result<String> {
    let is_mapped = || {
        std::fs::read_to_string("/proc/self/maps")
            .unwrap_or_default()
            .contains("libvulkan.so")
    };
    let mut after = Vec::new();
    for round in 0..3 {
        let worker = std::thread::spawn(move || -> Result<()> {
            let gpu = open()?;
            work(&gpu, round)?;
            gpu.close();
            Ok(())
        });
        worker.join().ok().context("a thread ended badly")??;
        after.push(is_mapped());
    }
    Ok(format!("mapped={after:?}"))
}

fn swapchains() -> Result<String> {
    let gpu = Gpu::open(&Wishes {
        swapchain: true,
        ..Wishes::default()
    })?;
    let first = gpu.swapchain.as_ref().context("no swapchain")?;
    let headless = ash::ext::headless_surface::Instance::new(&gpu.entry, &gpu.instance);
    let surfaces = ash::khr::surface::Instance::new(&gpu.entry, &gpu.instance);
    let info = vk::HeadlessSurfaceCreateInfoEXT::default();
    let surface = unsafe { headless.create_headless_surface(&info, None) }?;
    let make = |old| {
        let info = vk::SwapchainCreateInfoKHR::default()
            .surface(surface)
            .min_image_count(3)
            .old_swapchain(old);
        unsafe { first.device.create_swapchain(&info, None) }
    };
    let old = make(vk::SwapchainKHR::null())?;
    let second = make(old)?;
    unsafe { first.device.destroy_swapchain(old, None) };
    let fence = gpu.fence(false)?;
    let mut images = Vec::new();
    for chain in [first.handle, second] {
        let none = vk::Semaphore::null();
        let next = unsafe {
            first
                .device
                .acquire_next_image(chain, u64::MAX, none, fence)
        };
        gpu.wait(fence)?;
        gpu.reset(fence)?;
        images.push(next?.0);
    }
    let chains = [first.handle, second];
    let mut results = [vk::Result::ERROR_UNKNOWN; 2];
    let info = vk::PresentInfoKHR::default()
        .swapchains(&chains)
        .image_indices(&images)
        .results(&mut results);
    let answer = unsafe { first.device.queue_present(gpu.queue, &info) };
    gpu.drop_fence(fence);
    unsafe {
        first.device.destroy_swapchain(second, None);
        surfaces.destroy_surface(surface, None);
    }
    gpu.close();
    Ok(format!("{answer:?} {results:?}"))
}

fn batch(count: u64) -> Result<String> {
    let gpu = open()?;
    let modules: Result<Vec<_>, _> = (0..count).map(|seed| gpu.module(seed)).collect();
    let modules = modules?;
    let infos: Vec<_> = modules.iter().map(|one| gpu.compute_info(*one)).collect();
    let mut out = vec![vk::Pipeline::null(); infos.len()];
    let create = gpu.device.fp_v1_0().create_compute_pipelines;
    let cache = vk::PipelineCache::null();
    let number = u32::try_from(infos.len())?;
    let answer = unsafe {
        create(
            gpu.device.handle(),
            cache,
            number,
            infos.as_ptr(),
            core::ptr::null(),
            out.as_mut_ptr(),
        )
    };
    let made: Vec<_> = out.iter().map(|one| *one != vk::Pipeline::null()).collect();
    drop_pipelines(&gpu, out);
    for one in modules {
        gpu.drop_module(one);
    }
    gpu.close();
    Ok(format!("{answer:?} {made:?}"))
}

fn drop_pipelines(gpu: &Gpu, all: Vec<vk::Pipeline>) {
    for one in all {
        gpu.drop_pipeline(one);
    }
}

fn feedback() -> Result<String> {
    let gpu = open()?;
    let module = gpu.module(1)?;
    let mut whole = vk::PipelineCreationFeedback::default();
    let mut stages = [vk::PipelineCreationFeedback::default()];
    let mut info = vk::PipelineCreationFeedbackCreateInfo::default()
        .pipeline_creation_feedback(&mut whole)
        .pipeline_stage_creation_feedbacks(&mut stages);
    let info = gpu.compute_info(module).push_next(&mut info);
    let none = vk::PipelineCache::null();
    let made = unsafe { gpu.device.create_compute_pipelines(none, &[info], None) };
    let made = made.map_err(|(_, error)| error)?;
    drop_pipelines(&gpu, made);
    gpu.drop_module(module);
    gpu.close();
    let is_valid = whole
        .flags
        .contains(vk::PipelineCreationFeedbackFlags::VALID);
    Ok(format!("valid={is_valid}"))
}

fn merge() -> Result<String> {
    let gpu = open()?;
    let (into, from) = (gpu.cache(&[])?, gpu.cache(&[])?);
    let mut made = Vec::new();
    let mut make = |cache, seed| {
        let empty = vk::PipelineCreateFlags::empty();
        gpu.compute(cache, seed, empty)
            .map(|pipeline| made.push(pipeline))
    };
    for seed in 0..3 {
        make(into, seed)?;
        make(from, seed + 3)?;
    }
    unsafe { gpu.device.merge_pipeline_caches(into, &[from]) }?;
    gpu.drop_cache(from);
    for seed in 0..6 {
        make(into, seed)?;
    }
    gpu.drop_cache(into);
    let count = made.len();
    drop_pipelines(&gpu, made);
    gpu.close();
    Ok(format!("made={count}"))
}
