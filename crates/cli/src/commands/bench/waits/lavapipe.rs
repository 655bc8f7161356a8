//! Timeline semaphores of Mesa's software Vulkan driver, as a peer.
#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::sync::Arc;

use anyhow::{Context as _, Result};
use ash::vk;

use super::lanes::Lane;

/// The driver's device.
pub(super) struct Device {
    logical: ash::Device,
    instance: ash::Instance,
    _entry: ash::Entry,
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the semaphores hold the device by count, so none is left.
        unsafe { self.logical.destroy_device(None) };
        // SAFETY: the device is gone.
        unsafe { self.instance.destroy_instance(None) };
    }
}

impl Device {
    /// The first device whose driver is llvmpipe.
    ///
    /// # Errors
    ///
    /// If there is no Vulkan loader, or no such device.
    pub(super) fn open() -> Result<Arc<Self>> {
        // SAFETY: the system's Vulkan loader.
        let entry = unsafe { ash::Entry::load() }.context("no Vulkan loader")?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the create info is valid and lives through the call.
        let instance = unsafe { entry.create_instance(&info, None) }.context("vkCreateInstance")?;
        match device_of(&instance) {
            Ok(device) => Ok(Arc::new(Self {
                logical: device,
                instance,
                _entry: entry,
            })),
            Err(error) => {
                // SAFETY: nothing was made of it.
                unsafe { instance.destroy_instance(None) };
                Err(error)
            }
        }
    }
}

fn device_of(instance: &ash::Instance) -> Result<ash::Device> {
    // SAFETY: the instance is alive.
    let all = unsafe { instance.enumerate_physical_devices() }?;
    let is_lavapipe = |physical: &vk::PhysicalDevice| {
        // SAFETY: a device of this instance.
        let properties = unsafe { instance.get_physical_device_properties(*physical) };
        properties
            .device_name_as_c_str()
            .is_ok_and(|name| name.to_string_lossy().contains("llvmpipe"))
    };
    let physical = all.into_iter().find(is_lavapipe);
    let physical = physical.context("no device of lavapipe")?;
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut timelines =
        vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .push_next(&mut timelines);
    // SAFETY: queue family 0 exists on every device.
    unsafe { instance.create_device(physical, &info, None) }.context("vkCreateDevice")
}

/// A timeline semaphore.
pub(super) struct Semaphore {
    device: Arc<Device>,
    semaphore: vk::Semaphore,
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: made of this device, used by nobody else.
        unsafe { self.device.logical.destroy_semaphore(self.semaphore, None) };
    }
}

impl Semaphore {
    /// Makes one at value zero.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(super) fn new(device: &Arc<Device>) -> Result<Self> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive.
        let semaphore = unsafe { device.logical.create_semaphore(&info, None) }?;
        Ok(Self {
            device: Arc::clone(device),
            semaphore,
        })
    }

    /// `vkSignalSemaphore`.
    pub(super) fn signal(&self, value: u64) {
        let info = vk::SemaphoreSignalInfo::default()
            .semaphore(self.semaphore)
            .value(value);
        // SAFETY: alive; the caller's values grow.
        let _lost = unsafe { self.device.logical.signal_semaphore(&info) };
    }

    /// `vkGetSemaphoreCounterValue`.
    pub(super) fn value(&self) -> u64 {
        let device = &self.device.logical;
        // SAFETY: alive.
        unsafe { device.get_semaphore_counter_value(self.semaphore) }.unwrap_or(0)
    }
}

/// `vkWaitSemaphores` for value 1 of all or any; `timeout` in nanoseconds.
pub(super) fn wait(semaphores: &[Semaphore], any: bool, timeout: u64) -> bool {
    let Some(first) = semaphores.first() else {
        return true;
    };
    let handles: Vec<_> = semaphores.iter().map(|one| one.semaphore).collect();
    wait_for(first, &handles, &vec![1; handles.len()], any, timeout)
}

fn wait_for(
    of: &Semaphore,
    handles: &[vk::Semaphore],
    values: &[u64],
    any: bool,
    timeout: u64,
) -> bool {
    let flags = if any {
        vk::SemaphoreWaitFlags::ANY
    } else {
        vk::SemaphoreWaitFlags::empty()
    };
    let info = vk::SemaphoreWaitInfo::default()
        .flags(flags)
        .semaphores(handles)
        .values(values);
    // SAFETY: all are alive, of one device.
    unsafe { of.device.logical.wait_semaphores(&info, timeout) }.is_ok()
}

impl Lane for Semaphore {
    fn raise(&self, value: u32) {
        self.signal(u64::from(value));
    }

    fn await_value(&self, value: u32) {
        wait_for(
            self,
            &[self.semaphore],
            &[u64::from(value)],
            false,
            u64::MAX,
        );
    }
}
