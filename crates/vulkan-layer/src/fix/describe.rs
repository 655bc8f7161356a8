//! What `towpath_cache::policy` wants to know of a create call.

use core::ffi::c_void;

use ash::vk;
use towpath_cache::policy::CreateCall;
use towpath_sys::vulkan::pipeline_binary as binary;

use crate::abi;

/// Structures that may hang in a pipeline's chain and mean nothing for making it a second time.
const HARMLESS: [vk::StructureType; 12] = [
    vk::StructureType::PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
    vk::StructureType::PIPELINE_RENDERING_CREATE_INFO,
    vk::StructureType::GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
    vk::StructureType::PIPELINE_LIBRARY_CREATE_INFO_KHR,
    vk::StructureType::PIPELINE_ROBUSTNESS_CREATE_INFO_EXT,
    vk::StructureType::PIPELINE_FRAGMENT_SHADING_RATE_STATE_CREATE_INFO_KHR,
    vk::StructureType::PIPELINE_DISCARD_RECTANGLE_STATE_CREATE_INFO_EXT,
    vk::StructureType::PIPELINE_FRAGMENT_SHADING_RATE_ENUM_STATE_CREATE_INFO_NV,
    vk::StructureType::PIPELINE_REPRESENTATIVE_FRAGMENT_TEST_STATE_CREATE_INFO_NV,
    vk::StructureType::ATTACHMENT_SAMPLE_COUNT_INFO_AMD,
    vk::StructureType::PIPELINE_COMPILER_CONTROL_CREATE_INFO_AMD,
    vk::StructureType::RENDERING_ATTACHMENT_LOCATION_INFO_KHR,
];

/// The parts of a creation structure that decide.
pub(crate) trait Describe {
    /// Its flags.
    fn flags(&self) -> vk::PipelineCreateFlags;
    /// The same with flags added.
    fn with_flags(&self, extra: vk::PipelineCreateFlags) -> Self;
    /// Its chain.
    fn chain(&self) -> *const c_void;
    /// Its stages.
    fn stages(&self) -> &[vk::PipelineShaderStageCreateInfo<'_>];
    /// `basePipelineIndex`.
    fn base_index(&self) -> i32;
}

macro_rules! describe {
    ($type:ident, $stages:expr) => {
        impl Describe for vk::$type<'_> {
            fn flags(&self) -> vk::PipelineCreateFlags {
                self.flags
            }
            fn with_flags(&self, extra: vk::PipelineCreateFlags) -> Self {
                let mut info = *self;
                info.flags |= extra;
                info
            }
            fn chain(&self) -> *const c_void {
                self.p_next
            }
            fn stages(&self) -> &[vk::PipelineShaderStageCreateInfo<'_>] {
                let stages: fn(&Self) -> &[vk::PipelineShaderStageCreateInfo<'_>] = $stages;
                stages(self)
            }
            fn base_index(&self) -> i32 {
                self.base_pipeline_index
            }
        }
    };
}

describe!(GraphicsPipelineCreateInfo, |info| abi::list(
    info.p_stages,
    info.stage_count
));
describe!(ComputePipelineCreateInfo, |info| core::slice::from_ref(
    &info.stage
));
describe!(RayTracingPipelineCreateInfoKHR, |info| abi::list(
    info.p_stages,
    info.stage_count
));

/// Describes all elements of a call as one: what holds for any of them holds for the call.
pub(crate) fn call<T: Describe>(infos: &[T], base: CreateCall) -> CreateCall {
    infos.iter().fold(base, |call, info| describe(info, call))
}

fn describe<T: Describe>(info: &T, mut call: CreateCall) -> CreateCall {
    type Flags = vk::PipelineCreateFlags;
    let own = Flags::FAIL_ON_PIPELINE_COMPILE_REQUIRED | Flags::EARLY_RETURN_ON_FAILURE;
    call.has_fail_on |= info.flags().intersects(own);
    call.derives_inside_batch |= info.flags().contains(Flags::DERIVATIVE) && info.base_index() >= 0;
    for structure in abi::chain(info.chain()) {
        let kind = structure.s_type;
        let is_flags2 = kind == vk::StructureType::PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR;
        let is_binaries = kind == <binary::BinaryInfo as vk::TaggedStructure>::STRUCTURE_TYPE;
        call.has_flags2 |= is_flags2;
        call.has_binaries |= is_binaries;
        call.has_unknown_structure |= !(is_flags2 || is_binaries || HARMLESS.contains(&kind));
    }
    let identified = |stage: &vk::PipelineShaderStageCreateInfo<'_>| {
        type Identifier<'a> = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'a>;
        abi::chained::<Identifier<'_>>(stage.p_next).is_some_and(|i| i.identifier_size > 0)
    };
    call.has_module_identifier |= info.stages().iter().any(identified);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(info: &vk::ComputePipelineCreateInfo<'_>) -> CreateCall {
        call(std::slice::from_ref(info), CreateCall::default())
    }

    #[test]
    fn a_plain_call_has_none_of_the_reasons() {
        let info = vk::ComputePipelineCreateInfo::default();
        assert_eq!(described(&info), CreateCall::default());
        let mut feedback = vk::PipelineCreationFeedbackCreateInfo::default();
        let info = vk::ComputePipelineCreateInfo::default().push_next(&mut feedback);
        assert_eq!(described(&info), CreateCall::default());
    }

    #[test]
    fn each_reason_is_seen() {
        let mut wide = vk::PipelineCreateFlags2CreateInfoKHR::default();
        let info = vk::ComputePipelineCreateInfo::default().push_next(&mut wide);
        assert!(described(&info).has_flags2);

        let flag = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        let info = vk::ComputePipelineCreateInfo::default().flags(flag);
        assert!(described(&info).has_fail_on);

        let flag = vk::PipelineCreateFlags::DERIVATIVE;
        let info = vk::ComputePipelineCreateInfo::default().flags(flag);
        assert!(described(&info.base_pipeline_index(0)).derives_inside_batch);
        assert!(!described(&info.base_pipeline_index(-1)).derives_inside_batch);

        let unknown = vk::BaseInStructure {
            s_type: vk::StructureType::from_raw(0x7fff_fff0),
            ..Default::default()
        };
        let info = vk::ComputePipelineCreateInfo {
            p_next: (&raw const unknown).cast(),
            ..Default::default()
        };
        assert!(described(&info).has_unknown_structure);

        let binaries = vk::BaseInStructure {
            s_type: <binary::BinaryInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
            ..Default::default()
        };
        let info = vk::ComputePipelineCreateInfo {
            p_next: (&raw const binaries).cast(),
            ..Default::default()
        };
        assert!(described(&info).has_binaries && !described(&info).has_unknown_structure);

        let name = [1_u8; 8];
        let mut identifier =
            vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(&name);
        let stage = vk::PipelineShaderStageCreateInfo::default().push_next(&mut identifier);
        let info = vk::ComputePipelineCreateInfo::default().stage(stage);
        assert!(described(&info).has_module_identifier);
    }
}
