//! Which way of saving a device gets, when the session overlay may be used for a create call, and what to
//! do instead.
//!
//! Pure: the layer describes a call, this answers. `docs/cache.md` has the same tables in words.

/// What a driver offers and a program does, as far as it decides how to save.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Offers {
    /// `pipelineCreationCacheControl`.
    pub has_cache_control: bool,
    /// VK_KHR_pipeline_binary.
    pub has_binaries: bool,
    /// The driver says that it would rather use its own cache (`pipelineBinaryPrefersInternalCache`).
    pub prefers_internal_cache: bool,
    /// Pointers are of 32 bits: captured binaries took too much address space there (DXVK PR 5772).
    pub is_32_bit: bool,
    /// The program passes a VkPipelineCache of its own and keeps it (VUID-09616, 09617).
    pub has_program_cache: bool,
    /// The program names its pipelines itself, so that a warm start needs no SPIR-V.
    pub names_pipelines: bool,
}

/// A way of saving.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Way {
    /// The driver's own binaries, each once: `cache::vulkan::Binaries`.
    Binaries,
    /// A session cache over a base: `cache::vulkan::Overlay`.
    Overlay,
    /// The program's own blob, its new parts only: `cache::saving::save_blob`.
    Blob,
}

/// The way of saving that loses least.
///
/// With names of the program's own, binaries spare the driver all SPIR-V. Without them both take the same
/// time (`bench/record/h200/2026-11-30-warm-start-large.json`), and the overlay needs neither an extension
/// nor a key per pipeline.
#[must_use]
pub fn way(offers: &Offers) -> Way {
    let may_use_binaries = offers.has_binaries
        && !offers.is_32_bit
        && !offers.prefers_internal_cache
        && !offers.has_program_cache;
    if may_use_binaries && (offers.names_pipelines || !offers.has_cache_control) {
        Way::Binaries
    } else if offers.has_cache_control && !offers.has_program_cache {
        Way::Overlay
    } else {
        Way::Blob
    }
}

/// What a layer sees of one element of vkCreateGraphicsPipelines, vkCreateComputePipelines or
/// vkCreateRayTracingPipelinesKHR.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CreateCall {
    /// The program passes a VkPipelineCache of its own.
    pub has_program_cache: bool,
    /// The program set `FAIL_ON_PIPELINE_COMPILE_REQUIRED` or `EARLY_RETURN_ON_FAILURE`.
    pub has_fail_on: bool,
    /// A stage is given by VkPipelineShaderStageModuleIdentifierCreateInfoEXT.
    pub has_module_identifier: bool,
    /// The call has a VkDeferredOperationKHR and returns before it is done.
    pub is_deferred: bool,
    /// `basePipelineIndex` names another element of the same call.
    pub derives_inside_batch: bool,
    /// VkPipelineCreateFlags2CreateInfo is in the chain; it overrides `flags`.
    pub has_flags2: bool,
    /// A structure in the chain is not in the layer's list.
    pub has_unknown_structure: bool,
    /// VkPipelineBinaryInfoKHR is in the chain, or `CAPTURE_DATA` is set: the cache must be null.
    pub has_binaries: bool,
    /// `pipelineCreationCacheControl` is on for this device.
    pub has_cache_control: bool,
    /// The store could be loaded and a session cache made.
    pub is_overlay_ready: bool,
    /// The layer's mode: [`Mode::Takeover`] also replaces the program's own cache.
    pub mode: Mode,
}

/// How far the layer goes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Serves calls without a cache; leaves the program's caches alone.
    #[default]
    Fill,
    /// Changes nothing, counts what the overlay would have served.
    Observe,
    /// Serves all calls from the overlay, those with a cache of the program's too.
    Takeover,
}

/// What to do with a create call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// Base with `FAIL_ON`, then saved, then session: see [`crate::vulkan`].
    Overlay,
    /// Pass the call on as it is.
    Pass(Why),
}

/// Why a call is passed on as it is. One row of the table in `docs/cache.md` each.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Why {
    /// The layer only observes.
    Observing,
    /// There is no store or no session cache.
    NotReady,
    /// The device lacks the feature, so `FAIL_ON` may not be set.
    NoCacheControl,
    /// A create call takes one cache, and what the program gets back from its own must not change.
    ProgramCache,
    /// Its answer `COMPILE_REQUIRED` is what the program asks for; compiling would change it.
    ProgramFailsOn,
    /// There may be no SPIR-V to compile from after a miss.
    ModuleIdentifier,
    /// The answer comes after the call returned.
    Deferred,
    /// Elements are created one by one, so another element of the call cannot be a base.
    DerivativeInBatch,
    /// Its flags override those that the overlay would set.
    Flags2,
    /// What an unknown structure means for a repeated create is unknown.
    UnknownStructure,
    /// VUID-09616, 09617: with binaries the cache must be null.
    Binaries,
}

impl Why {
    /// All reasons, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Observing,
        Self::NotReady,
        Self::NoCacheControl,
        Self::ProgramCache,
        Self::ProgramFailsOn,
        Self::ModuleIdentifier,
        Self::Deferred,
        Self::DerivativeInBatch,
        Self::Flags2,
        Self::UnknownStructure,
        Self::Binaries,
    ];

    /// A short text for ledger and log; also the first column of the table in `docs/cache.md`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Observing => "observing only",
            Self::NotReady => "no store",
            Self::NoCacheControl => "no pipelineCreationCacheControl",
            Self::ProgramCache => "program passes its own cache",
            Self::ProgramFailsOn => "program sets FAIL_ON itself",
            Self::ModuleIdentifier => "shader module identifier",
            Self::Deferred => "deferred operation",
            Self::DerivativeInBatch => "derivative inside the call",
            Self::Flags2 => "CreateFlags2 in the chain",
            Self::UnknownStructure => "unknown structure in the chain",
            Self::Binaries => "pipeline binaries",
        }
    }
}

/// Whether the overlay serves this call.
#[must_use]
pub fn decide(call: &CreateCall) -> Use {
    let reasons = [
        (call.has_binaries, Why::Binaries),
        (call.has_fail_on, Why::ProgramFailsOn),
        (call.has_module_identifier, Why::ModuleIdentifier),
        (call.is_deferred, Why::Deferred),
        (call.derives_inside_batch, Why::DerivativeInBatch),
        (call.has_flags2, Why::Flags2),
        (call.has_unknown_structure, Why::UnknownStructure),
        (
            call.has_program_cache && call.mode != Mode::Takeover,
            Why::ProgramCache,
        ),
        (!call.has_cache_control, Why::NoCacheControl),
        (!call.is_overlay_ready, Why::NotReady),
        (call.mode == Mode::Observe, Why::Observing),
    ];
    let first = reasons.iter().find(|(applies, _)| *applies);
    first.map_or(Use::Overlay, |(_, why)| Use::Pass(*why))
}

/// What a layer sees of vkCreateDevice with regard to `pipelineCreationCacheControl`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeviceCall {
    /// The physical device has the feature.
    pub is_supported: bool,
    /// Device and instance are of 1.3 or later.
    pub is_core: bool,
    /// The physical device has VK_EXT_pipeline_creation_cache_control.
    pub has_extension: bool,
    /// The program has VkPhysicalDeviceVulkan13Features in the chain, and what it says.
    pub vulkan13: Option<bool>,
    /// The program has VkPhysicalDevicePipelineCreationCacheControlFeatures in the chain, and what it says.
    pub own_structure: Option<bool>,
}

/// How the feature gets switched on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Feature {
    /// The program did it.
    AlreadyOn,
    /// Set the field in a copy of the program's VkPhysicalDeviceVulkan13Features: the two structures
    /// exclude each other in one chain.
    SetInVulkan13,
    /// Set the field in a copy of the program's own structure.
    SetInOwnStructure,
    /// Add VkPhysicalDevicePipelineCreationCacheControlFeatures to the chain.
    AddStructure,
    /// Add the structure and enable the extension.
    AddStructureAndExtension,
    /// Leave the call alone; the overlay is off.
    No,
}

/// What to do at vkCreateDevice.
#[must_use]
pub fn feature(call: &DeviceCall) -> Feature {
    match (call.vulkan13, call.own_structure) {
        (Some(true), _) | (_, Some(true)) => Feature::AlreadyOn,
        _ if !call.is_supported => Feature::No,
        (Some(false), _) => Feature::SetInVulkan13,
        (None, Some(false)) => Feature::SetInOwnStructure,
        (None, None) if call.is_core => Feature::AddStructure,
        (None, None) if call.has_extension => Feature::AddStructureAndExtension,
        (None, None) => Feature::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change to a call, and what must come of it.
    type Row<Call, Answer> = (fn(&mut Call), Answer);

    const GOOD: CreateCall = CreateCall {
        has_program_cache: false,
        has_fail_on: false,
        has_module_identifier: false,
        is_deferred: false,
        derives_inside_batch: false,
        has_flags2: false,
        has_unknown_structure: false,
        has_binaries: false,
        has_cache_control: true,
        is_overlay_ready: true,
        mode: Mode::Fill,
    };

    #[test]
    fn the_way_of_saving_follows_what_the_driver_offers() {
        let all = Offers {
            has_cache_control: true,
            has_binaries: true,
            ..Offers::default()
        };
        let rows: [Row<Offers, Way>; 8] = [
            (|_| {}, Way::Overlay),
            (|o| o.names_pipelines = true, Way::Binaries),
            (|o| o.has_cache_control = false, Way::Binaries),
            (
                |o| (o.names_pipelines, o.is_32_bit) = (true, true),
                Way::Overlay,
            ),
            (
                |o| (o.names_pipelines, o.prefers_internal_cache) = (true, true),
                Way::Overlay,
            ),
            (|o| o.has_binaries = false, Way::Overlay),
            (
                |o| (o.has_binaries, o.has_cache_control) = (false, false),
                Way::Blob,
            ),
            (|o| o.has_program_cache = true, Way::Blob),
        ];
        for (change, expected) in rows {
            let mut offers = all;
            change(&mut offers);
            assert_eq!(way(&offers), expected, "{offers:?}");
        }
    }

    #[test]
    fn a_plain_call_without_a_cache_is_served() {
        assert_eq!(decide(&GOOD), Use::Overlay);
        let call = CreateCall {
            mode: Mode::Takeover,
            has_program_cache: true,
            ..GOOD
        };
        assert_eq!(decide(&call), Use::Overlay);
    }

    #[test]
    fn each_row_of_the_table_is_passed_on_for_its_reason() {
        let rows: [Row<CreateCall, Why>; 11] = [
            (|c| c.mode = Mode::Observe, Why::Observing),
            (|c| c.is_overlay_ready = false, Why::NotReady),
            (|c| c.has_cache_control = false, Why::NoCacheControl),
            (|c| c.has_program_cache = true, Why::ProgramCache),
            (|c| c.has_fail_on = true, Why::ProgramFailsOn),
            (|c| c.has_module_identifier = true, Why::ModuleIdentifier),
            (|c| c.is_deferred = true, Why::Deferred),
            (|c| c.derives_inside_batch = true, Why::DerivativeInBatch),
            (|c| c.has_flags2 = true, Why::Flags2),
            (|c| c.has_unknown_structure = true, Why::UnknownStructure),
            (|c| c.has_binaries = true, Why::Binaries),
        ];
        assert_eq!(rows.map(|(_, why)| why), Why::ALL);
        for (change, why) in rows {
            let mut call = GOOD;
            change(&mut call);
            assert_eq!(decide(&call), Use::Pass(why), "{call:?}");
            // Takeover lifts no row but that of the program's own cache.
            if !matches!(why, Why::Observing | Why::ProgramCache) {
                let call = CreateCall {
                    mode: Mode::Takeover,
                    ..call
                };
                assert_eq!(decide(&call), Use::Pass(why));
            }
        }
    }

    #[test]
    fn the_table_in_the_docs_has_the_same_rows() {
        let page = include_str!("../../../docs/cache.md");
        for why in Why::ALL {
            let row = format!("| {} |", why.text());
            assert!(page.contains(&row), "docs/cache.md lacks {row:?}");
        }
    }

    #[test]
    fn the_feature_is_never_given_twice_in_one_chain() {
        let base = DeviceCall {
            is_supported: true,
            is_core: true,
            has_extension: true,
            ..DeviceCall::default()
        };

        let cases: [Row<DeviceCall, Feature>; 8] = [
            (|_| {}, Feature::AddStructure),
            (|c| c.is_core = false, Feature::AddStructureAndExtension),
            (
                |c| (c.is_core, c.has_extension) = (false, false),
                Feature::No,
            ),
            (|c| c.is_supported = false, Feature::No),
            (|c| c.vulkan13 = Some(true), Feature::AlreadyOn),
            (|c| c.vulkan13 = Some(false), Feature::SetInVulkan13),
            (|c| c.own_structure = Some(true), Feature::AlreadyOn),
            (
                |c| c.own_structure = Some(false),
                Feature::SetInOwnStructure,
            ),
        ];
        for (change, answer) in cases {
            let mut call = base;
            change(&mut call);
            assert_eq!(feature(&call), answer, "{call:?}");
        }
    }
}
