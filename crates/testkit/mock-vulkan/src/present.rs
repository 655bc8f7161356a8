//! Headless surfaces and swapchains of three images that are always free.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use ash::vk;

use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::call;
use crate::memory::IMAGES;
use crate::sync::{self, FENCES, Payload, SEMAPHORES};

static SURFACES: Registry<()> = Registry::new(Kind::Surface);
static SWAPCHAINS: Registry<Swapchain> = Registry::new(Kind::Swapchain);

#[derive(Debug)]
struct Swapchain {
    images: [vk::Image; 3],
    next: AtomicU32,
}

pub(crate) extern "system" fn create_surface(
    _instance: vk::Instance,
    _info: *const vk::HeadlessSurfaceCreateInfoEXT<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::SurfaceKHR,
) -> vk::Result {
    call!("vkCreateHeadlessSurfaceEXT");
    ffi::put(out, SURFACES.add(()));
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy_surface(
    _instance: vk::Instance,
    surface: vk::SurfaceKHR,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroySurfaceKHR");
    SURFACES.remove("vkDestroySurfaceKHR", surface);
}

pub(crate) extern "system" fn support(
    _physical: vk::PhysicalDevice,
    _family: u32,
    surface: vk::SurfaceKHR,
    out: *mut vk::Bool32,
) -> vk::Result {
    let _checked = SURFACES.get("vkGetPhysicalDeviceSurfaceSupportKHR", surface);
    ffi::put(out, vk::TRUE);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn capabilities(
    _physical: vk::PhysicalDevice,
    _surface: vk::SurfaceKHR,
    out: *mut vk::SurfaceCapabilitiesKHR,
) -> vk::Result {
    ffi::put(
        out,
        vk::SurfaceCapabilitiesKHR {
            min_image_count: 2,
            max_image_count: 3,
            current_extent: vk::Extent2D {
                width: u32::MAX,
                height: u32::MAX,
            },
            min_image_extent: vk::Extent2D {
                width: 1,
                height: 1,
            },
            max_image_extent: vk::Extent2D {
                width: 16_384,
                height: 16_384,
            },
            max_image_array_layers: 1,
            supported_transforms: vk::SurfaceTransformFlagsKHR::IDENTITY,
            current_transform: vk::SurfaceTransformFlagsKHR::IDENTITY,
            supported_composite_alpha: vk::CompositeAlphaFlagsKHR::OPAQUE,
            supported_usage_flags: vk::ImageUsageFlags::COLOR_ATTACHMENT
                | vk::ImageUsageFlags::TRANSFER_SRC
                | vk::ImageUsageFlags::TRANSFER_DST,
        },
    );
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn formats(
    _physical: vk::PhysicalDevice,
    _surface: vk::SurfaceKHR,
    count: *mut u32,
    out: *mut vk::SurfaceFormatKHR,
) -> vk::Result {
    let all = [vk::SurfaceFormatKHR {
        format: vk::Format::B8G8R8A8_UNORM,
        color_space: vk::ColorSpaceKHR::SRGB_NONLINEAR,
    }];
    ffi::enumerate(&all, count, out)
}

pub(crate) extern "system" fn modes(
    _physical: vk::PhysicalDevice,
    _surface: vk::SurfaceKHR,
    count: *mut u32,
    out: *mut vk::PresentModeKHR,
) -> vk::Result {
    ffi::enumerate(
        &[vk::PresentModeKHR::FIFO, vk::PresentModeKHR::IMMEDIATE],
        count,
        out,
    )
}

pub(crate) extern "system" fn create(
    _device: vk::Device,
    info: *const vk::SwapchainCreateInfoKHR<'_>,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::SwapchainKHR,
) -> vk::Result {
    call!("vkCreateSwapchainKHR");
    if let Some(info) = ffi::get(info) {
        let _checked = SURFACES.get("vkCreateSwapchainKHR", info.surface);
    }
    let images = [(); 3].map(|()| IMAGES.add(0));
    ffi::put(
        out,
        SWAPCHAINS.add(Swapchain {
            images,
            next: AtomicU32::new(0),
        }),
    );
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn destroy(
    _device: vk::Device,
    swapchain: vk::SwapchainKHR,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroySwapchainKHR");
    if let Some(object) = SWAPCHAINS.optional("vkDestroySwapchainKHR", swapchain) {
        for image in object.images {
            IMAGES.remove("vkDestroySwapchainKHR", image);
        }
        SWAPCHAINS.remove("vkDestroySwapchainKHR", swapchain);
    }
}

pub(crate) extern "system" fn images(
    _device: vk::Device,
    swapchain: vk::SwapchainKHR,
    count: *mut u32,
    out: *mut vk::Image,
) -> vk::Result {
    match SWAPCHAINS.get("vkGetSwapchainImagesKHR", swapchain) {
        Some(swapchain) => ffi::enumerate(&swapchain.images, count, out),
        None => vk::Result::ERROR_UNKNOWN,
    }
}

pub(crate) extern "system" fn acquire(
    _device: vk::Device,
    swapchain: vk::SwapchainKHR,
    _timeout: u64,
    semaphore: vk::Semaphore,
    fence: vk::Fence,
    out: *mut u32,
) -> vk::Result {
    const NAME: &str = "vkAcquireNextImageKHR";
    call!("vkAcquireNextImageKHR");
    let Some(swapchain) = SWAPCHAINS.get(NAME, swapchain) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let now = Instant::now();
    if let Some(semaphore) = SEMAPHORES.optional(NAME, semaphore) {
        semaphore.signal(0, now);
    }
    if let Some(fence) = FENCES.optional(NAME, fence) {
        fence.set(Payload::At(now));
    }
    sync::announce();
    ffi::put(out, swapchain.next.fetch_add(1, Ordering::Relaxed) % 3);
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn acquire2(
    device: vk::Device,
    info: *const vk::AcquireNextImageInfoKHR<'_>,
    out: *mut u32,
) -> vk::Result {
    match ffi::get(info) {
        Some(info) => acquire(
            device,
            info.swapchain,
            info.timeout,
            info.semaphore,
            info.fence,
            out,
        ),
        None => vk::Result::ERROR_UNKNOWN,
    }
}
