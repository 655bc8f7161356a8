//! What `towpath_cache::policy` wants to know of a create call.

use core::ffi::c_void;

use ash::vk;
use towpath_cache::policy::CreateCall;
use towpath_sys::vulkan::pipeline_binary as binary;

use super::copied::Copied;
use crate::abi;

macro_rules! harmless {
    ($($name:ident,)+) => {
        /// Sizes of the structures that may hang in a pipeline's chain and mean nothing for making it a
        /// second time.
        fn harmless(kind: vk::StructureType) -> Option<usize> {
            const ALL: &[(vk::StructureType, usize)] = &[
                $((<vk::$name<'_> as vk::TaggedStructure>::STRUCTURE_TYPE, size_of::<vk::$name<'_>>()),)+
            ];
            ALL.iter().find(|row| row.0 == kind).map(|row| row.1)
        }
    };
}

harmless! {
    PipelineCreationFeedbackCreateInfo,
    PipelineRenderingCreateInfo,
    GraphicsPipelineLibraryCreateInfoEXT,
    PipelineLibraryCreateInfoKHR,
    PipelineRobustnessCreateInfoEXT,
    PipelineFragmentShadingRateStateCreateInfoKHR,
    PipelineDiscardRectangleStateCreateInfoEXT,
    PipelineFragmentShadingRateEnumStateCreateInfoNV,
    PipelineRepresentativeFragmentTestStateCreateInfoNV,
    AttachmentSampleCountInfoAMD,
    PipelineCompilerControlCreateInfoAMD,
    RenderingAttachmentLocationInfoKHR,
    PipelineCreateFlags2CreateInfoKHR,
}

/// Flags that replace those of a creation structure where they are in its chain.
type Wide<'a> = vk::PipelineCreateFlags2CreateInfoKHR<'a>;

/// A creation structure with flags added, and what of its chain had to be copied for that.
pub(crate) struct Flagged<T> {
    pub(crate) info: T,
    _copies: Option<Copied>,
}

/// The parts of a creation structure that decide.
pub(crate) trait Describe {
    /// The flags in force, those of 64 bits too.
    fn flags(&self) -> u64;
    /// The same with flags added.
    fn with_flags(&self, extra: vk::PipelineCreateFlags) -> Flagged<Self>
    where
        Self: Sized;
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
            fn flags(&self) -> u64 {
                abi::chained::<Wide<'_>>(self.p_next)
                    .map_or(u64::from(self.flags.as_raw()), |wide| wide.flags.as_raw())
            }
            fn with_flags(&self, extra: vk::PipelineCreateFlags) -> Flagged<Self> {
                let mut info = *self;
                info.flags |= extra;
                let copies = with_wide_flags(self.p_next, extra);
                if let Some(copies) = &copies {
                    info.p_next = copies.chain();
                }
                Flagged {
                    info,
                    _copies: copies,
                }
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

/// The chain with flags added to those of 64 bits; `None` where it has none, or none are to be added.
fn with_wide_flags(chain: *const c_void, extra: vk::PipelineCreateFlags) -> Option<Copied> {
    if extra.is_empty() {
        return None;
    }
    let mut copies = Copied::until::<Wide<'_>>(chain, harmless)?;
    copies.last::<Wide<'_>>()?.flags |=
        vk::PipelineCreateFlags2KHR::from_raw(u64::from(extra.as_raw()));
    Some(copies)
}

/// Describes all elements of a call as one: what holds for any of them holds for the call.
pub(crate) fn call<T: Describe>(infos: &[T], base: CreateCall) -> CreateCall {
    infos.iter().fold(base, |call, info| describe(info, call))
}

fn describe<T: Describe>(info: &T, mut call: CreateCall) -> CreateCall {
    type Flags = vk::PipelineCreateFlags;
    let has = |flags: Flags| info.flags() & u64::from(flags.as_raw()) != 0;
    call.has_fail_on |=
        has(Flags::FAIL_ON_PIPELINE_COMPILE_REQUIRED | Flags::EARLY_RETURN_ON_FAILURE);
    call.derives_inside_batch |= has(Flags::DERIVATIVE) && info.base_index() >= 0;
    // Flags of 64 bits are no reason here, since they are added to in a copy.
    call.has_binaries |= info.flags() & binary::CREATE_2_CAPTURE_DATA != 0;
    for structure in abi::chain(info.chain()) {
        let kind = structure.s_type;
        let is_binaries = kind == <binary::BinaryInfo as vk::TaggedStructure>::STRUCTURE_TYPE;
        call.has_binaries |= is_binaries;
        call.has_unknown_structure |= !is_binaries && harmless(kind).is_none();
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
    fn flags_of_64_bits_are_added_to_in_a_copy() {
        let mut wide = Wide::default().flags(vk::PipelineCreateFlags2KHR::from_raw(1 << 40));
        let mut feedback = vk::PipelineCreationFeedbackCreateInfo::default();
        let mut rendering = vk::PipelineRenderingCreateInfo::default();
        let info = vk::GraphicsPipelineCreateInfo::default()
            .push_next(&mut rendering)
            .push_next(&mut wide)
            .push_next(&mut feedback);
        let flag = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        let flagged = info.with_flags(flag);
        assert_eq!(
            Describe::flags(&flagged.info),
            1 << 40 | u64::from(flag.as_raw())
        );
        assert_eq!(Describe::flags(&info), 1 << 40);
        let kinds = |first| abi::chain(first).map(|one| one.s_type).collect::<Vec<_>>();
        assert_eq!(kinds(flagged.info.p_next), kinds(info.p_next));
        let none = info.with_flags(vk::PipelineCreateFlags::empty());
        assert_eq!(none.info.p_next, info.p_next);
    }

    #[test]
    fn reasons_in_flags_of_64_bits_are_seen() {
        for (bits, reason) in [
            (
                0x100,
                CreateCall {
                    has_fail_on: true,
                    ..CreateCall::default()
                },
            ),
            (
                0x200,
                CreateCall {
                    has_fail_on: true,
                    ..CreateCall::default()
                },
            ),
            (
                0x4,
                CreateCall {
                    derives_inside_batch: true,
                    ..CreateCall::default()
                },
            ),
            (
                0x8000_0000,
                CreateCall {
                    has_binaries: true,
                    ..CreateCall::default()
                },
            ),
            (1 << 40, CreateCall::default()),
        ] {
            let bits = vk::PipelineCreateFlags2KHR::from_raw(bits);
            let mut wide = Wide::default().flags(bits);
            let info = vk::ComputePipelineCreateInfo::default().push_next(&mut wide);
            assert_eq!(described(&info), reason);
        }
    }

    #[test]
    fn each_reason_is_seen() {
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
