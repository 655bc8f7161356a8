//! Sizes of the structures that programs put into the chain of `vkCreateDevice`.
//!
//! Vulkan's structures do not say how long they are: a chain can be copied only where all in it are known.
//! The list is that of ash, which ends with Vulkan 1.3.281, and what of Vulkan 1.4 programs ask for.

use ash::vk;
use ash::vk::TaggedStructure;
use towpath_sys::vulkan::layer;

/// Bytes of the structure; `None` for one that this table does not know.
pub(crate) fn of(kind: vk::StructureType) -> Option<usize> {
    let flags = |count| size_of::<Head>() + size_of::<vk::Bool32>() * count;
    let newer = NEWER.iter().find(|row| row.0 == kind.as_raw());
    let newer = newer.map(|row| flags(row.1).next_multiple_of(align_of::<Head>()));
    newer.or_else(|| known(kind))
}

/// What every structure of a chain begins with.
type Head = vk::BaseInStructure<'static>;

/// Structures newer than ash that are nothing but so many `VkBool32`.
const NEWER: [(i32, usize); 4] = [
    // VkPhysicalDeviceVulkan14Features
    (55, 21),
    // VkPhysicalDevicePipelineBinaryFeaturesKHR
    (1_000_483_000, 1),
    // VkPhysicalDeviceMaintenance7FeaturesKHR
    (1_000_562_000, 1),
    // VkPhysicalDeviceMaintenance8FeaturesKHR
    (1_000_574_000, 1),
];

macro_rules! structures {
    ($($name:ident,)+) => {
        fn known(kind: vk::StructureType) -> Option<usize> {
            const ALL: &[(vk::StructureType, usize)] = &[
                (vk::StructureType::LOADER_DEVICE_CREATE_INFO, size_of::<layer::DeviceCreateInfo>()),
                $((<vk::$name<'_>>::STRUCTURE_TYPE, size_of::<vk::$name<'_>>()),)+
            ];
            ALL.iter().find(|row| row.0 == kind).map(|row| row.1)
        }
    };
}

structures! {
    DeviceDeviceMemoryReportCreateInfoEXT,
    DeviceDiagnosticsConfigCreateInfoNV,
    DeviceGroupDeviceCreateInfo,
    DeviceMemoryOverallocationCreateInfoAMD,
    DevicePrivateDataCreateInfo,
    DeviceQueueShaderCoreControlCreateInfoARM,
    PhysicalDevice16BitStorageFeatures,
    PhysicalDevice4444FormatsFeaturesEXT,
    PhysicalDevice8BitStorageFeatures,
    PhysicalDeviceASTCDecodeFeaturesEXT,
    PhysicalDeviceAccelerationStructureFeaturesKHR,
    PhysicalDeviceAddressBindingReportFeaturesEXT,
    PhysicalDeviceAmigoProfilingFeaturesSEC,
    PhysicalDeviceAttachmentFeedbackLoopLayoutFeaturesEXT,
    PhysicalDeviceBlendOperationAdvancedFeaturesEXT,
    PhysicalDeviceBorderColorSwizzleFeaturesEXT,
    PhysicalDeviceBufferDeviceAddressFeatures,
    PhysicalDeviceBufferDeviceAddressFeaturesEXT,
    PhysicalDeviceClusterCullingShaderFeaturesHUAWEI,
    PhysicalDeviceCoherentMemoryFeaturesAMD,
    PhysicalDeviceColorWriteEnableFeaturesEXT,
    PhysicalDeviceComputeShaderDerivativesFeaturesNV,
    PhysicalDeviceConditionalRenderingFeaturesEXT,
    PhysicalDeviceCooperativeMatrixFeaturesKHR,
    PhysicalDeviceCooperativeMatrixFeaturesNV,
    PhysicalDeviceCopyMemoryIndirectFeaturesNV,
    PhysicalDeviceCornerSampledImageFeaturesNV,
    PhysicalDeviceCoverageReductionModeFeaturesNV,
    PhysicalDeviceCubicClampFeaturesQCOM,
    PhysicalDeviceCubicWeightsFeaturesQCOM,
    PhysicalDeviceCudaKernelLaunchFeaturesNV,
    PhysicalDeviceCustomBorderColorFeaturesEXT,
    PhysicalDeviceDepthBiasControlFeaturesEXT,
    PhysicalDeviceDepthClampZeroOneFeaturesEXT,
    PhysicalDeviceDepthClipControlFeaturesEXT,
    PhysicalDeviceDepthClipEnableFeaturesEXT,
    PhysicalDeviceDescriptorBufferFeaturesEXT,
    PhysicalDeviceDescriptorIndexingFeatures,
    PhysicalDeviceDescriptorPoolOverallocationFeaturesNV,
    PhysicalDeviceDescriptorSetHostMappingFeaturesVALVE,
    PhysicalDeviceDeviceGeneratedCommandsComputeFeaturesNV,
    PhysicalDeviceDeviceGeneratedCommandsFeaturesNV,
    PhysicalDeviceDeviceMemoryReportFeaturesEXT,
    PhysicalDeviceDiagnosticsConfigFeaturesNV,
    PhysicalDeviceDisplacementMicromapFeaturesNV,
    PhysicalDeviceDynamicRenderingFeatures,
    PhysicalDeviceDynamicRenderingLocalReadFeaturesKHR,
    PhysicalDeviceExclusiveScissorFeaturesNV,
    PhysicalDeviceExtendedDynamicState2FeaturesEXT,
    PhysicalDeviceExtendedDynamicState3FeaturesEXT,
    PhysicalDeviceExtendedDynamicStateFeaturesEXT,
    PhysicalDeviceExtendedSparseAddressSpaceFeaturesNV,
    PhysicalDeviceExternalFormatResolveFeaturesANDROID,
    PhysicalDeviceExternalMemoryRDMAFeaturesNV,
    PhysicalDeviceExternalMemoryScreenBufferFeaturesQNX,
    PhysicalDeviceFaultFeaturesEXT,
    PhysicalDeviceFeatures2,
    PhysicalDeviceFragmentDensityMap2FeaturesEXT,
    PhysicalDeviceFragmentDensityMapFeaturesEXT,
    PhysicalDeviceFragmentDensityMapOffsetFeaturesQCOM,
    PhysicalDeviceFragmentShaderBarycentricFeaturesKHR,
    PhysicalDeviceFragmentShaderInterlockFeaturesEXT,
    PhysicalDeviceFragmentShadingRateEnumsFeaturesNV,
    PhysicalDeviceFragmentShadingRateFeaturesKHR,
    PhysicalDeviceFrameBoundaryFeaturesEXT,
    PhysicalDeviceGlobalPriorityQueryFeaturesKHR,
    PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT,
    PhysicalDeviceHostImageCopyFeaturesEXT,
    PhysicalDeviceHostQueryResetFeatures,
    PhysicalDeviceImage2DViewOf3DFeaturesEXT,
    PhysicalDeviceImageCompressionControlFeaturesEXT,
    PhysicalDeviceImageProcessing2FeaturesQCOM,
    PhysicalDeviceImageProcessingFeaturesQCOM,
    PhysicalDeviceImageRobustnessFeatures,
    PhysicalDeviceImageSlicedViewOf3DFeaturesEXT,
    PhysicalDeviceImageViewMinLodFeaturesEXT,
    PhysicalDeviceImagelessFramebufferFeatures,
    PhysicalDeviceIndexTypeUint8FeaturesKHR,
    PhysicalDeviceInheritedViewportScissorFeaturesNV,
    PhysicalDeviceInlineUniformBlockFeatures,
    PhysicalDeviceInvocationMaskFeaturesHUAWEI,
    PhysicalDeviceLegacyDitheringFeaturesEXT,
    PhysicalDeviceLineRasterizationFeaturesKHR,
    PhysicalDeviceLinearColorAttachmentFeaturesNV,
    PhysicalDeviceMaintenance4Features,
    PhysicalDeviceMaintenance5FeaturesKHR,
    PhysicalDeviceMaintenance6FeaturesKHR,
    PhysicalDeviceMapMemoryPlacedFeaturesEXT,
    PhysicalDeviceMemoryDecompressionFeaturesNV,
    PhysicalDeviceMemoryPriorityFeaturesEXT,
    PhysicalDeviceMeshShaderFeaturesEXT,
    PhysicalDeviceMeshShaderFeaturesNV,
    PhysicalDeviceMultiDrawFeaturesEXT,
    PhysicalDeviceMultiviewFeatures,
    PhysicalDeviceMultiviewPerViewRenderAreasFeaturesQCOM,
    PhysicalDeviceMultiviewPerViewViewportsFeaturesQCOM,
    PhysicalDeviceMutableDescriptorTypeFeaturesEXT,
    PhysicalDeviceNestedCommandBufferFeaturesEXT,
    PhysicalDeviceNonSeamlessCubeMapFeaturesEXT,
    PhysicalDeviceOpacityMicromapFeaturesEXT,
    PhysicalDeviceOpticalFlowFeaturesNV,
    PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT,
    PhysicalDevicePerStageDescriptorSetFeaturesNV,
    PhysicalDevicePerformanceQueryFeaturesKHR,
    PhysicalDevicePipelineCreationCacheControlFeatures,
    PhysicalDevicePipelineExecutablePropertiesFeaturesKHR,
    PhysicalDevicePipelineLibraryGroupHandlesFeaturesEXT,
    PhysicalDevicePipelinePropertiesFeaturesEXT,
    PhysicalDevicePipelineProtectedAccessFeaturesEXT,
    PhysicalDevicePipelineRobustnessFeaturesEXT,
    PhysicalDevicePortabilitySubsetFeaturesKHR,
    PhysicalDevicePresentBarrierFeaturesNV,
    PhysicalDevicePresentIdFeaturesKHR,
    PhysicalDevicePresentWaitFeaturesKHR,
    PhysicalDevicePrimitiveTopologyListRestartFeaturesEXT,
    PhysicalDevicePrimitivesGeneratedQueryFeaturesEXT,
    PhysicalDevicePrivateDataFeatures,
    PhysicalDeviceProtectedMemoryFeatures,
    PhysicalDeviceProvokingVertexFeaturesEXT,
    PhysicalDeviceRGBA10X6FormatsFeaturesEXT,
    PhysicalDeviceRawAccessChainsFeaturesNV,
    PhysicalDeviceRayQueryFeaturesKHR,
    PhysicalDeviceRayTracingInvocationReorderFeaturesNV,
    PhysicalDeviceRayTracingMaintenance1FeaturesKHR,
    PhysicalDeviceRayTracingMotionBlurFeaturesNV,
    PhysicalDeviceRayTracingPipelineFeaturesKHR,
    PhysicalDeviceRayTracingPositionFetchFeaturesKHR,
    PhysicalDeviceRayTracingValidationFeaturesNV,
    PhysicalDeviceRelaxedLineRasterizationFeaturesIMG,
    PhysicalDeviceRenderPassStripedFeaturesARM,
    PhysicalDeviceRepresentativeFragmentTestFeaturesNV,
    PhysicalDeviceRobustness2FeaturesEXT,
    PhysicalDeviceSamplerYcbcrConversionFeatures,
    PhysicalDeviceScalarBlockLayoutFeatures,
    PhysicalDeviceSchedulingControlsFeaturesARM,
    PhysicalDeviceSeparateDepthStencilLayoutsFeatures,
    PhysicalDeviceShaderAtomicFloat16VectorFeaturesNV,
    PhysicalDeviceShaderAtomicFloat2FeaturesEXT,
    PhysicalDeviceShaderAtomicFloatFeaturesEXT,
    PhysicalDeviceShaderAtomicInt64Features,
    PhysicalDeviceShaderClockFeaturesKHR,
    PhysicalDeviceShaderCoreBuiltinsFeaturesARM,
    PhysicalDeviceShaderDemoteToHelperInvocationFeatures,
    PhysicalDeviceShaderDrawParametersFeatures,
    PhysicalDeviceShaderEnqueueFeaturesAMDX,
    PhysicalDeviceShaderExpectAssumeFeaturesKHR,
    PhysicalDeviceShaderFloat16Int8Features,
    PhysicalDeviceShaderFloatControls2FeaturesKHR,
    PhysicalDeviceShaderImageAtomicInt64FeaturesEXT,
    PhysicalDeviceShaderImageFootprintFeaturesNV,
    PhysicalDeviceShaderIntegerDotProductFeatures,
    PhysicalDeviceShaderIntegerFunctions2FeaturesINTEL,
    PhysicalDeviceShaderMaximalReconvergenceFeaturesKHR,
    PhysicalDeviceShaderModuleIdentifierFeaturesEXT,
    PhysicalDeviceShaderObjectFeaturesEXT,
    PhysicalDeviceShaderQuadControlFeaturesKHR,
    PhysicalDeviceShaderSMBuiltinsFeaturesNV,
    PhysicalDeviceShaderSubgroupExtendedTypesFeatures,
    PhysicalDeviceShaderSubgroupRotateFeaturesKHR,
    PhysicalDeviceShaderTerminateInvocationFeatures,
    PhysicalDeviceShaderTileImageFeaturesEXT,
    PhysicalDeviceShadingRateImageFeaturesNV,
    PhysicalDeviceSubgroupSizeControlFeatures,
    PhysicalDeviceSubpassMergeFeedbackFeaturesEXT,
    PhysicalDeviceSubpassShadingFeaturesHUAWEI,
    PhysicalDeviceSwapchainMaintenance1FeaturesEXT,
    PhysicalDeviceSynchronization2Features,
    PhysicalDeviceTexelBufferAlignmentFeaturesEXT,
    PhysicalDeviceTextureCompressionASTCHDRFeatures,
    PhysicalDeviceTilePropertiesFeaturesQCOM,
    PhysicalDeviceTimelineSemaphoreFeatures,
    PhysicalDeviceTransformFeedbackFeaturesEXT,
    PhysicalDeviceUniformBufferStandardLayoutFeatures,
    PhysicalDeviceVariablePointersFeatures,
    PhysicalDeviceVertexAttributeDivisorFeaturesKHR,
    PhysicalDeviceVertexInputDynamicStateFeaturesEXT,
    PhysicalDeviceVideoMaintenance1FeaturesKHR,
    PhysicalDeviceVulkan11Features,
    PhysicalDeviceVulkan12Features,
    PhysicalDeviceVulkan13Features,
    PhysicalDeviceVulkanMemoryModelFeatures,
    PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR,
    PhysicalDeviceYcbcr2Plane444FormatsFeaturesEXT,
    PhysicalDeviceYcbcrDegammaFeaturesQCOM,
    PhysicalDeviceYcbcrImageArraysFeaturesEXT,
    PhysicalDeviceZeroInitializeWorkgroupMemoryFeatures,
}

#[cfg(test)]
mod tests {
    use super::*;

    type Wide<'a> = vk::PhysicalDeviceVulkan13Features<'a>;
    type Narrow<'a> = vk::PhysicalDeviceMaintenance4Features<'a>;

    #[test]
    fn structures_have_their_size_and_those_of_one_flag_that_of_one() {
        assert_eq!(of(Wide::STRUCTURE_TYPE), Some(size_of::<Wide<'_>>()));
        for (number, _) in NEWER.iter().filter(|row| row.1 == 1) {
            let kind = vk::StructureType::from_raw(*number);
            assert_eq!(of(kind), Some(size_of::<Narrow<'_>>()));
            // Once ash has it, the row is to go.
            assert_eq!(known(kind), None);
        }
        assert_eq!(of(vk::StructureType::from_raw(0x7fff_fff0)), None);
    }
}
