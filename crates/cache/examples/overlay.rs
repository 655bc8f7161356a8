//! A program with one device and no cache file of its own: pipelines from the store, new ones into it.
//!
//! ```text
//! cargo run -p towpath-cache --example overlay -- FOLDER
//! ```
//!
//! All that towpath needs of the program stands between the two lines of dashes.
#![expect(unsafe_code, reason = "Vulkan calls through ash")]
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::PathBuf;

use ash::vk;
use towpath_cache::{Options, open_or_memory, vulkan};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let folder: PathBuf = std::env::args().nth(1).ok_or("overlay FOLDER")?.into();
    // SAFETY: the system's Vulkan loader, whose initialisers this program trusts.
    let entry = unsafe { ash::Entry::load() }?;
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the create info is valid and lives through the call.
    let instance = unsafe { entry.create_instance(&info, None) }?;
    // SAFETY: the instance is alive.
    let all = unsafe { instance.enumerate_physical_devices() }?;
    let physical = *all.first().ok_or("no Vulkan device")?;
    let device = make_device(&instance, physical)?;

    // ---- open the store and hand it to the driver
    // SAFETY: the physical device is the instance's, which was made for 1.3.
    let identity = unsafe { vulkan::identity(&instance, physical) };
    let opened = open_or_memory(&[folder], &identity, &Options::new(identity.hash()));
    // SAFETY: the device outlives the overlay, which is dropped before vkDestroyDevice.
    let overlay = unsafe { vulkan::Overlay::load(device.clone(), opened.store, &identity, None) }?;

    // each pipeline: the program's own call, with a cache and flags to add
    let layout = make_layout(&device)?;
    let module = make_module(&device)?;
    let info = compute(module, layout);
    let mut pipeline = vk::Pipeline::null();
    let made = overlay.create(|cache, extra| {
        let info = info.flags(info.flags | extra);
        // SAFETY: module and layout are alive.
        match unsafe { device.create_compute_pipelines(cache, &[info], None) } {
            Ok(made) => {
                pipeline = made.first().copied().unwrap_or_default();
                vk::Result::SUCCESS
            }
            Err((_null, code)) => code,
        }
    });

    // now and then, from a thread of its own, and at the end
    overlay.save()?;
    overlay.store().seal()?;
    drop(overlay);
    // ---- that is all

    println!("{made:?}");
    // SAFETY: made by this device and used by nobody any more, in this order.
    unsafe { device.destroy_pipeline(pipeline, None) };
    // SAFETY: as above.
    unsafe { device.destroy_shader_module(module, None) };
    // SAFETY: as above.
    unsafe { device.destroy_pipeline_layout(layout, None) };
    // SAFETY: everything that was made from it is gone.
    unsafe { device.destroy_device(None) };
    // SAFETY: its only device is gone.
    unsafe { instance.destroy_instance(None) };
    Ok(())
}

/// A device with `pipelineCreationCacheControl`, which the overlay needs.
fn make_device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Result<ash::Device, vk::Result> {
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default()
        .pipeline_creation_cache_control(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .push_next(&mut control);
    // SAFETY: queue family 0 exists on every device; the chain lives through the call.
    unsafe { instance.create_device(physical, &info, None) }
}

fn make_layout(device: &ash::Device) -> Result<vk::PipelineLayout, vk::Result> {
    let info = vk::PipelineLayoutCreateInfo::default();
    // SAFETY: the device is alive.
    unsafe { device.create_pipeline_layout(&info, None) }
}

/// A compute shader that does nothing, as SPIR-V.
const SHADER: [u32; 35] = [
    0x0723_0203,
    0x0001_0000,
    0,
    5,
    0, // magic, version, generator, bound
    0x0002_0011,
    1, // OpCapability Shader
    0x0003_000e,
    0,
    1, // OpMemoryModel Logical GLSL450
    0x0005_000f,
    5,
    1,
    0x6e69_616d,
    0, // OpEntryPoint GLCompute %1 "main"
    0x0006_0010,
    1,
    17,
    1,
    1,
    1, // OpExecutionMode %1 LocalSize 1 1 1
    0x0002_0013,
    2, // %2 = OpTypeVoid
    0x0003_0021,
    3,
    2, // %3 = OpTypeFunction %2
    0x0005_0036,
    2,
    1,
    0,
    3, // %1 = OpFunction %2 None %3
    0x0002_00f8,
    4, // %4 = OpLabel
    0x0001_00fd,
    0x0001_0038, // OpReturn, OpFunctionEnd
];

fn make_module(device: &ash::Device) -> Result<vk::ShaderModule, vk::Result> {
    let info = vk::ShaderModuleCreateInfo::default().code(&SHADER);
    // SAFETY: the device is alive; the words are valid SPIR-V.
    unsafe { device.create_shader_module(&info, None) }
}

fn compute(
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
) -> vk::ComputePipelineCreateInfo<'static> {
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main");
    vk::ComputePipelineCreateInfo::default()
        .stage(stage)
        .layout(layout)
}
