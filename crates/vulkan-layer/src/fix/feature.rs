//! Switches `pipelineCreationCacheControl` on at `vkCreateDevice`, without writing into the program's
//! structures.
//!
//! A structure of the program that must say something else is copied, and with it those before it in
//! the chain. That works where all of them are known by size; else the fix is off for this device.

#![expect(unsafe_code, reason = "calls the next layer's functions")]

use core::ffi::{CStr, c_char};

use ash::vk;
use towpath_cache::policy::{DeviceCall, Feature, feature};

use super::copied::Copied;
use super::sizes;
use crate::abi;
use crate::instance::Instance;

type Control<'a> = vk::PhysicalDevicePipelineCreationCacheControlFeatures<'a>;
type Wide<'a> = vk::PhysicalDeviceVulkan13Features<'a>;

/// How a device will be created.
pub(crate) struct Plan {
    feature: Feature,
}

/// What is passed on in place of the program's structure; alive during the call.
pub(crate) struct Changed<'a> {
    pub(crate) info: vk::DeviceCreateInfo<'a>,
    // Boxed: the structure above points at them.
    control: Box<Control<'a>>,
    names: Vec<*const c_char>,
    copies: Option<Copied>,
}

/// Why the feature cannot be had, where the driver has none.
const MISSING: &str = "the device has no pipelineCreationCacheControl";

/// Looks at the call and the device; an error where the feature cannot be had, with the reason for the log.
pub(crate) fn plan(
    instance: &Instance,
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
) -> Result<Plan, &'static str> {
    // Without it the driver's identity cannot be asked for.
    if instance.api_version < vk::API_VERSION_1_1 {
        return Err(
            "the program asked for Vulkan 1.0, and 1.1 is the first that tells which driver it is",
        );
    }
    let mut properties = vk::PhysicalDeviceProperties::default();
    let get_properties = instance.next.properties.ok_or(MISSING)?;
    // SAFETY: the next element's function, a live physical device, a structure of ours.
    unsafe { get_properties(physical, &raw mut properties) };
    if properties.api_version < vk::API_VERSION_1_1 {
        return Err("the device is of Vulkan 1.0");
    }
    let is_core = instance.api_version.min(properties.api_version) >= vk::API_VERSION_1_3;
    let has_extension = !is_core && has_extension(instance, physical);
    let call = DeviceCall {
        is_supported: (is_core || has_extension) && is_supported(instance, physical),
        is_core,
        has_extension,
        vulkan13: abi::chained::<Wide<'_>>(info.p_next)
            .map(|wide| wide.pipeline_creation_cache_control == vk::TRUE),
        own_structure: abi::chained::<Control<'_>>(info.p_next)
            .map(|own| own.pipeline_creation_cache_control == vk::TRUE),
    };
    match feature(&call) {
        Feature::No => Err(MISSING),
        feature => Ok(Plan { feature }),
    }
}

fn is_supported(instance: &Instance, physical: vk::PhysicalDevice) -> bool {
    let Some(get_features) = instance.next.features2 else {
        return false;
    };
    let mut control = Control::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut control);
    // SAFETY: the next element's function, a live physical device, structures of ours.
    unsafe { get_features(physical, &raw mut features) };
    control.pipeline_creation_cache_control == vk::TRUE
}

fn has_extension(instance: &Instance, physical: vk::PhysicalDevice) -> bool {
    let Some(enumerate) = instance.next.device_extensions else {
        return false;
    };
    let mut count = 0;
    let null = core::ptr::null_mut();
    // SAFETY: the next element's function; a null list asks for the count.
    let _asked = unsafe { enumerate(physical, core::ptr::null(), &raw mut count, null) };
    let room = usize::try_from(count).unwrap_or(0);
    let mut all = vec![vk::ExtensionProperties::default(); room];
    let out = all.as_mut_ptr();
    // SAFETY: the list has room for `count` elements.
    let _filled = unsafe { enumerate(physical, core::ptr::null(), &raw mut count, out) };
    let wanted = vk::EXT_PIPELINE_CREATION_CACHE_CONTROL_NAME;
    all.iter()
        .any(|one| one.extension_name_as_c_str() == Ok(wanted))
}

impl Plan {
    /// The structure to pass on; `None` where the program's own will do (`Ok`) or where it cannot be
    /// changed (`Err`).
    pub(crate) fn apply<'a>(
        &self,
        info: &vk::DeviceCreateInfo<'a>,
    ) -> Result<Option<Box<Changed<'a>>>, &'static str> {
        let mut changed = Box::new(Changed {
            info: *info,
            control: Box::new(Control::default().pipeline_creation_cache_control(true)),
            names: Vec::new(),
            copies: None,
        });
        match self.feature {
            Feature::AlreadyOn => return Ok(None),
            Feature::AddStructure => changed.add_structure(info),
            Feature::AddStructureAndExtension => {
                changed.add_structure(info);
                changed.add_extension(info);
            }
            Feature::SetInVulkan13 => changed.copy_until(info, |wide: &mut Wide<'_>| {
                wide.pipeline_creation_cache_control = vk::TRUE;
            })?,
            Feature::SetInOwnStructure => changed.copy_until(info, |own: &mut Control<'_>| {
                own.pipeline_creation_cache_control = vk::TRUE;
            })?,
            Feature::No => return Err(MISSING),
        }
        Ok(Some(changed))
    }
}

impl<'a> Changed<'a> {
    fn add_structure(&mut self, info: &vk::DeviceCreateInfo<'a>) {
        self.control.p_next = info.p_next.cast_mut();
        self.info.p_next = core::ptr::from_ref(&*self.control).cast();
    }

    fn add_extension(&mut self, info: &vk::DeviceCreateInfo<'a>) {
        let own = abi::list(
            info.pp_enabled_extension_names,
            info.enabled_extension_count,
        );
        let wanted = vk::EXT_PIPELINE_CREATION_CACHE_CONTROL_NAME;
        let is_there = |name: &*const c_char| abi::name(*name) == CStr::to_bytes(wanted);
        if own.iter().any(is_there) {
            return;
        }
        self.names = own.to_vec();
        self.names.push(wanted.as_ptr());
        self.info.pp_enabled_extension_names = self.names.as_ptr();
        self.info.enabled_extension_count += 1;
    }

    /// Copies the chain up to the structure `T` and changes the copy.
    fn copy_until<T: vk::TaggedStructure>(
        &mut self,
        info: &vk::DeviceCreateInfo<'a>,
        change: impl FnOnce(&mut T),
    ) -> Result<(), &'static str> {
        let mut copies = Copied::until::<T>(info.p_next, sizes::of)
            .ok_or("an unknown structure stands before the feature's")?;
        copies.last().map(change).ok_or(MISSING)?;
        self.info.p_next = copies.chain();
        self.copies = Some(copies);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VkPhysicalDeviceVulkan14Features.
    #[repr(C)]
    struct Newest<'a> {
        head: vk::BaseOutStructure<'a>,
        flags: [vk::Bool32; 21],
    }

    fn plan(feature: Feature) -> Plan {
        Plan { feature }
    }

    #[test]
    fn an_added_structure_stands_before_the_programs_chain() {
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        let info = vk::DeviceCreateInfo::default().push_next(&mut timeline);
        let before = info.p_next;
        let changed = plan(Feature::AddStructureAndExtension)
            .apply(&info)
            .unwrap()
            .unwrap();
        let kinds: Vec<_> = abi::chain(changed.info.p_next)
            .map(|one| one.s_type)
            .collect();
        let own = vk::StructureType::PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES;
        let program = vk::StructureType::PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
        assert_eq!(kinds, [own, program]);
        assert_eq!(changed.info.enabled_extension_count, 1);
        assert_eq!(info.p_next, before);
    }

    #[test]
    fn a_copied_structure_says_yes_and_the_programs_own_still_says_no() {
        let mut wide = Wide::default().synchronization2(true);
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default();
        // push_next puts each in front: features, wide, timeline.
        let info = vk::DeviceCreateInfo::default()
            .push_next(&mut timeline)
            .push_next(&mut wide)
            .push_next(&mut features);
        let changed = plan(Feature::SetInVulkan13).apply(&info).unwrap().unwrap();
        let copied = abi::chained::<Wide<'_>>(changed.info.p_next).unwrap();
        assert_eq!(copied.pipeline_creation_cache_control, vk::TRUE);
        assert_eq!(copied.synchronization2, vk::TRUE);
        let kinds = |first| abi::chain(first).map(|one| one.s_type).collect::<Vec<_>>();
        assert_eq!(kinds(changed.info.p_next), kinds(info.p_next));
        assert_eq!(abi::chain(changed.info.p_next).count(), 3);
        let own = abi::chained::<Wide<'_>>(info.p_next).unwrap();
        assert_eq!(own.pipeline_creation_cache_control, vk::FALSE);
    }

    /// Programs for Vulkan 1.4 put its structure before that of 1.3.
    #[test]
    fn a_structure_newer_than_the_bindings_is_copied_whole() {
        let mut wide = Wide::default();
        let mut newest = Newest {
            head: vk::BaseOutStructure::default(),
            flags: [vk::FALSE; 21],
        };
        newest.head.s_type = vk::StructureType::from_raw(55);
        newest.head.p_next = core::ptr::from_mut(&mut wide).cast();
        newest.flags[20] = vk::TRUE;
        let info = vk::DeviceCreateInfo {
            p_next: core::ptr::from_ref(&newest).cast(),
            ..Default::default()
        };
        let changed = plan(Feature::SetInVulkan13).apply(&info).unwrap().unwrap();
        let copied = abi::chained::<Wide<'_>>(changed.info.p_next).unwrap();
        assert_eq!(copied.pipeline_creation_cache_control, vk::TRUE);
        let newest = abi::get(changed.info.p_next.cast::<Newest<'_>>()).unwrap();
        assert_eq!(newest.flags[20], vk::TRUE);
        assert_eq!(wide.pipeline_creation_cache_control, vk::FALSE);
    }

    #[test]
    fn an_unknown_structure_in_front_leaves_the_call_alone() {
        let mut wide = Wide::default();
        let unknown = vk::BaseInStructure {
            s_type: vk::StructureType::from_raw(0x7fff_fff0),
            p_next: core::ptr::from_mut(&mut wide).cast_const().cast(),
            ..Default::default()
        };
        let info = vk::DeviceCreateInfo {
            p_next: (&raw const unknown).cast(),
            ..Default::default()
        };
        assert!(plan(Feature::SetInVulkan13).apply(&info).is_err());
    }
}
