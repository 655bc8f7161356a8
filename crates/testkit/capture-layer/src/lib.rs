//! Vulkan layer that saves one presented frame, so that two runs can be compared pixel by pixel.
//!
//! Named `VK_LAYER_TOWPATH_capture`. `TOWPATH_TEST_CAPTURE` names the file (binary PPM),
//! `TOWPATH_TEST_CAPTURE_FRAME` the present, from 1.
//!
//! # What it does not do
//!
//! - More than one device, swapchain or queue family: the first of each, as vkcube has them.

#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::disallowed_methods,
    reason = "a test's layer of one file: every call is Vulkan's, on the application's live objects, and its two variables are its own"
)]

use core::ffi::{CStr, c_char, c_void};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use ash::vk;
use ash::vk::Handle as _;
use towpath_sys::vulkan::layer::{
    DeviceCreateInfo, INTERFACE_VERSION, InstanceCreateInfo, LINK_INFO, NegotiateLayerInterface,
};

/// What is known of the application.
struct State {
    get_instance: Option<vk::PFN_vkGetInstanceProcAddr>,
    get_device: Option<vk::PFN_vkGetDeviceProcAddr>,
    instance: vk::Instance,
    physical: vk::PhysicalDevice,
    device: vk::Device,
    images: Vec<vk::Image>,
    extent: vk::Extent2D,
    format: vk::Format,
    presents: u32,
}

static STATE: Mutex<State> = Mutex::new(State {
    get_instance: None,
    get_device: None,
    instance: vk::Instance::null(),
    physical: vk::PhysicalDevice::null(),
    device: vk::Device::null(),
    images: Vec::new(),
    extent: vk::Extent2D {
        width: 0,
        height: 0,
    },
    format: vk::Format::UNDEFINED,
    presents: 0,
});

fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    work(&mut STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A function made untyped, and back.
macro_rules! cast {
    ($function:expr, $from:ty => $to:ty) => {
        unsafe { core::mem::transmute::<$from, $to>($function) }
    };
}

type Untyped = unsafe extern "system" fn();

/// Agrees with the loader on interface 2.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    interface: *mut NegotiateLayerInterface,
) -> vk::Result {
    let Some(interface) = (unsafe { interface.as_mut() }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    interface.loader_layer_interface_version = INTERFACE_VERSION;
    interface.get_instance_proc_addr = Some(get_instance_proc_addr);
    interface.get_device_proc_addr = Some(get_device_proc_addr);
    interface.get_physical_device_proc_addr = None;
    vk::Result::SUCCESS
}

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let own = match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkCreateInstance" => Some(cast!(create_instance, vk::PFN_vkCreateInstance => Untyped)),
        b"vkCreateDevice" => Some(cast!(create_device, vk::PFN_vkCreateDevice => Untyped)),
        b"vkGetInstanceProcAddr" => {
            Some(cast!(get_instance_proc_addr, vk::PFN_vkGetInstanceProcAddr => Untyped))
        }
        b"vkGetDeviceProcAddr" => {
            Some(cast!(get_device_proc_addr, vk::PFN_vkGetDeviceProcAddr => Untyped))
        }
        _ => None,
    };
    own.or_else(|| {
        let next = with(|state| state.get_instance)?;
        unsafe { next(instance, name) }
    })
}

unsafe extern "system" fn get_device_proc_addr(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkCreateSwapchainKHR" => {
            Some(cast!(create_swapchain, vk::PFN_vkCreateSwapchainKHR => Untyped))
        }
        b"vkQueuePresentKHR" => Some(cast!(present, vk::PFN_vkQueuePresentKHR => Untyped)),
        _ => {
            let next = with(|state| state.get_device)?;
            unsafe { next(device, name) }
        }
    }
}

/// Finds the loader's link structure in a chain.
fn link(first: *const c_void, kind: vk::StructureType) -> *mut c_void {
    let mut at = first.cast::<vk::BaseInStructure<'_>>();
    while let Some(structure) = unsafe { at.as_ref() } {
        // The type first: other structures may end before the field.
        if structure.s_type == kind
            && unsafe { (*at.cast::<InstanceCreateInfo>()).function } == LINK_INFO
        {
            return at.cast_mut().cast();
        }
        at = structure.p_next;
    }
    core::ptr::null_mut()
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Instance,
) -> vk::Result {
    let kind = vk::StructureType::LOADER_INSTANCE_CREATE_INFO;
    let link = link(unsafe { (*info).p_next }, kind).cast::<InstanceCreateInfo>();
    let Some(next) = (unsafe { (*(*link).layer_info).next_get_instance_proc_addr }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    unsafe { (*link).layer_info = (*(*link).layer_info).p_next };
    let create = unsafe { next(vk::Instance::null(), c"vkCreateInstance".as_ptr()) };
    let create = cast!(create, vk::PFN_vkVoidFunction => Option<vk::PFN_vkCreateInstance>);
    let answer = create.map_or(vk::Result::ERROR_INITIALIZATION_FAILED, |create| unsafe {
        create(info, alloc, out)
    });
    with(|state| {
        state.get_instance = Some(next);
        state.instance = unsafe { *out };
    });
    answer
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Device,
) -> vk::Result {
    let kind = vk::StructureType::LOADER_DEVICE_CREATE_INFO;
    let link = link(unsafe { (*info).p_next }, kind).cast::<DeviceCreateInfo>();
    let current = unsafe { *(*link).layer_info };
    unsafe { (*link).layer_info = current.p_next };
    let (Some(get_instance), Some(get_device)) = (
        current.next_get_instance_proc_addr,
        current.next_get_device_proc_addr,
    ) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let instance = with(|state| state.instance);
    let create = unsafe { get_instance(instance, c"vkCreateDevice".as_ptr()) };
    let create = cast!(create, vk::PFN_vkVoidFunction => Option<vk::PFN_vkCreateDevice>);
    let answer = create.map_or(vk::Result::ERROR_INITIALIZATION_FAILED, |create| unsafe {
        create(physical, info, alloc, out)
    });
    with(|state| {
        state.get_device = Some(get_device);
        state.physical = physical;
        state.device = unsafe { *out };
    });
    answer
}

/// The next layer's function of the device.
fn next(state: &State, name: &CStr) -> vk::PFN_vkVoidFunction {
    state
        .get_device
        .and_then(|get| unsafe { get(state.device, name.as_ptr()) })
}

unsafe extern "system" fn create_swapchain(
    device: vk::Device,
    info: *const vk::SwapchainCreateInfoKHR<'_>,
    alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::SwapchainKHR,
) -> vk::Result {
    let (create, images) = with(|state| {
        (
            next(state, c"vkCreateSwapchainKHR"),
            next(state, c"vkGetSwapchainImagesKHR"),
        )
    });
    let create = cast!(create, vk::PFN_vkVoidFunction => Option<vk::PFN_vkCreateSwapchainKHR>);
    let images = cast!(images, vk::PFN_vkVoidFunction => Option<vk::PFN_vkGetSwapchainImagesKHR>);
    let (Some(create), Some(images)) = (create, images) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    let mut readable = unsafe { *info };
    readable.image_usage |= vk::ImageUsageFlags::TRANSFER_SRC;
    let answer = unsafe { create(device, &raw const readable, alloc, out) };
    if answer == vk::Result::SUCCESS {
        let mut count = 16;
        let mut all = vec![vk::Image::null(); 16];
        let _listed = unsafe { images(device, *out, &raw mut count, all.as_mut_ptr()) };
        all.truncate(usize::try_from(count).unwrap_or(0));
        with(|state| {
            state.images = all;
            state.extent = readable.image_extent;
            state.format = readable.image_format;
        });
    }
    answer
}

unsafe extern "system" fn present(
    queue: vk::Queue,
    info: *const vk::PresentInfoKHR<'_>,
) -> vk::Result {
    let wanted = std::env::var("TOWPATH_TEST_CAPTURE_FRAME").ok();
    let wanted = wanted.and_then(|text| text.parse().ok()).unwrap_or(60);
    let path = std::env::var_os("TOWPATH_TEST_CAPTURE");
    let next = with(|state| {
        state.presents += 1;
        if let (true, Some(path)) = (state.presents == wanted, path) {
            let index = unsafe { *(*info).p_image_indices };
            let image = usize::try_from(index)
                .ok()
                .and_then(|index| state.images.get(index));
            if let Some(image) = image {
                // A missing file is what the test looks for.
                let _missing = capture(state, queue, *image).and_then(|pixels| {
                    save(&path, state.extent, &pixels).map_err(|_io| vk::Result::ERROR_UNKNOWN)
                });
            }
        }
        next(state, c"vkQueuePresentKHR")
    });
    let next = cast!(next, vk::PFN_vkVoidFunction => Option<vk::PFN_vkQueuePresentKHR>);
    next.map_or(vk::Result::ERROR_DEVICE_LOST, |next| unsafe {
        next(queue, info)
    })
}

fn save(path: &std::ffi::OsStr, extent: vk::Extent2D, pixels: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    writeln!(file, "P6 {} {} 255", extent.width, extent.height)?;
    let rgb: Vec<u8> = pixels
        .chunks_exact(4)
        .flat_map(|bgra| bgra.iter().take(3).rev().copied())
        .collect();
    file.write_all(&rgb)
}

/// The image's pixels, four bytes each, as they are presented.
fn capture(state: &State, queue: vk::Queue, image: vk::Image) -> Result<Vec<u8>, vk::Result> {
    let get = |name: &CStr| {
        let found = next(state, name);
        found.map_or(core::ptr::null(), |found| found as *const c_void)
    };
    unsafe {
        let device = ash::Device::load_with(get, state.device);
        device.queue_wait_idle(queue)?;
        let size = u64::from(state.extent.width) * u64::from(state.extent.height) * 4;
        let info = vk::BufferCreateInfo::default()
            .size(size)
            .usage(vk::BufferUsageFlags::TRANSFER_DST);
        let buffer = device.create_buffer(&info, None)?;
        let needs = device.get_buffer_memory_requirements(buffer);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(host_type(state, needs.memory_type_bits));
        let memory = device.allocate_memory(&info, None)?;
        device.bind_buffer_memory(buffer, memory, 0)?;
        let pool = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None)?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .command_buffer_count(1);
        let commands = device.allocate_command_buffers(&info)?;
        for one in &commands {
            // Layers below find a command buffer by the device's dispatch word.
            let word = *(state.device.as_raw() as *const usize);
            *(one.as_raw() as *mut usize) = word;
            record(&device, *one, image, buffer, state.extent)?;
        }
        let submit = vk::SubmitInfo::default().command_buffers(&commands);
        device.queue_submit(queue, &[submit], vk::Fence::null())?;
        device.queue_wait_idle(queue)?;
        let address = device.map_memory(memory, 0, size, vk::MemoryMapFlags::empty())?;
        let len = usize::try_from(size).unwrap_or(0);
        let pixels = core::slice::from_raw_parts(address.cast::<u8>(), len).to_vec();
        device.unmap_memory(memory);
        device.destroy_command_pool(pool, None);
        device.destroy_buffer(buffer, None);
        device.free_memory(memory, None);
        Ok(pixels)
    }
}

fn host_type(state: &State, bits: u32) -> u32 {
    let Some(get) = state.get_instance else {
        return 0;
    };
    let name = c"vkGetPhysicalDeviceMemoryProperties";
    let get = unsafe { get(state.instance, name.as_ptr()) };
    let get =
        cast!(get, vk::PFN_vkVoidFunction => Option<vk::PFN_vkGetPhysicalDeviceMemoryProperties>);
    let mut all = vk::PhysicalDeviceMemoryProperties::default();
    if let Some(get) = get {
        unsafe { get(state.physical, &raw mut all) };
    }
    let shared = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let fits = |(index, kind): (u32, &vk::MemoryType)| {
        let fits = bits & (1 << index) != 0 && kind.property_flags.contains(shared);
        fits.then_some(index)
    };
    (0..)
        .zip(all.memory_types_as_slice())
        .find_map(fits)
        .unwrap_or(0)
}

unsafe fn record(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    image: vk::Image,
    buffer: vk::Buffer,
    extent: vk::Extent2D,
) -> Result<(), vk::Result> {
    let range = vk::ImageSubresourceRange::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .level_count(1)
        .layer_count(1);
    let shown = vk::ImageLayout::PRESENT_SRC_KHR;
    let source = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
    let stages = vk::PipelineStageFlags::ALL_COMMANDS;
    let barrier = |from, to| {
        vk::ImageMemoryBarrier::default()
            .old_layout(from)
            .new_layout(to)
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ)
            .image(image)
            .subresource_range(range)
    };
    let layers = vk::ImageSubresourceLayers::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .layer_count(1);
    let region = vk::BufferImageCopy::default()
        .image_subresource(layers)
        .image_extent(extent.into());
    unsafe {
        device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
        let none = vk::DependencyFlags::empty();
        let to = [barrier(shown, source)];
        device.cmd_pipeline_barrier(commands, stages, stages, none, &[], &[], &to);
        device.cmd_copy_image_to_buffer(commands, image, source, buffer, &[region]);
        let back = [barrier(source, shown)];
        device.cmd_pipeline_barrier(commands, stages, stages, none, &[], &[], &back);
        device.end_command_buffer(commands)
    }
}
