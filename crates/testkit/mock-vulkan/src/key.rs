//! Keys of pipelines: a hash of what changes compiled code. Flags do not.

use core::ffi::c_void;

use ash::vk;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::ffi;
use crate::objects::SHADERS;
use crate::pipeline::PIPELINES;

fn word(hash: &mut Xxh3, word: impl Into<i64>) {
    hash.update(&word.into().to_le_bytes());
}

/// Mixes in one stage; `None` where the module is only named by an identifier that was never made.
fn stage(hash: &mut Xxh3, stage: &vk::PipelineShaderStageCreateInfo<'_>) -> Option<()> {
    word(hash, stage.stage.as_raw());
    word(hash, stage.flags.as_raw());
    let module = if stage.module == vk::ShaderModule::null() {
        module_in_chain(stage.p_next)?
    } else {
        *SHADERS.get("VkPipelineShaderStageCreateInfo", stage.module)?
    };
    hash.update(&module.to_le_bytes());
    hash.update(ffi::text(stage.p_name).as_bytes());
    if let Some(special) = ffi::get(stage.p_specialization_info) {
        hash.update(ffi::bytes(special.p_data, special.data_size));
        for entry in ffi::list(special.p_map_entries, special.map_entry_count) {
            word(hash, entry.constant_id);
            word(hash, entry.offset);
        }
    }
    Some(())
}

fn module_in_chain(chain: *const c_void) -> Option<u64> {
    if let Some(info) = ffi::chained::<vk::ShaderModuleCreateInfo<'_>>(chain) {
        return Some(xxh3_64(ffi::bytes(info.p_code.cast(), info.code_size)));
    }
    let named = ffi::chained::<vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'_>>(chain)?;
    let bytes = ffi::list(named.p_identifier, named.identifier_size);
    Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
}

fn stages(
    hash: &mut Xxh3,
    first: *const vk::PipelineShaderStageCreateInfo<'_>,
    count: u32,
) -> Option<()> {
    ffi::list(first, count)
        .iter()
        .try_for_each(|one| stage(hash, one))
}

fn libraries(hash: &mut Xxh3, info: Option<&vk::PipelineLibraryCreateInfoKHR<'_>>) -> Option<()> {
    let Some(info) = info else {
        return Some(());
    };
    for library in ffi::list(info.p_libraries, info.library_count) {
        let library = PIPELINES.get("VkPipelineLibraryCreateInfoKHR", *library)?;
        hash.update(&library.key.to_le_bytes());
    }
    Some(())
}

pub(crate) fn graphics(info: &vk::GraphicsPipelineCreateInfo<'_>) -> Option<u64> {
    let mut hash = Xxh3::with_seed(1);
    stages(&mut hash, info.p_stages, info.stage_count)?;
    libraries(&mut hash, ffi::chained(info.p_next))?;
    if let Some(part) = ffi::chained::<vk::GraphicsPipelineLibraryCreateInfoEXT<'_>>(info.p_next) {
        word(&mut hash, part.flags.as_raw());
    }
    if let Some(assembly) = ffi::get(info.p_input_assembly_state) {
        word(&mut hash, assembly.topology.as_raw());
    }
    if let Some(raster) = ffi::get(info.p_rasterization_state) {
        word(&mut hash, raster.polygon_mode.as_raw());
        word(&mut hash, raster.cull_mode.as_raw());
        word(&mut hash, raster.front_face.as_raw());
    }
    if let Some(vertex) = ffi::get(info.p_vertex_input_state) {
        let count = vertex.vertex_attribute_description_count;
        for attribute in ffi::list(vertex.p_vertex_attribute_descriptions, count) {
            word(&mut hash, attribute.location);
            word(&mut hash, attribute.format.as_raw());
        }
    }
    word(&mut hash, info.subpass);
    Some(hash.digest())
}

pub(crate) fn compute(info: &vk::ComputePipelineCreateInfo<'_>) -> Option<u64> {
    let mut hash = Xxh3::with_seed(2);
    stage(&mut hash, &info.stage)?;
    Some(hash.digest())
}

pub(crate) fn ray_tracing(info: &vk::RayTracingPipelineCreateInfoKHR<'_>) -> Option<u64> {
    let mut hash = Xxh3::with_seed(3);
    stages(&mut hash, info.p_stages, info.stage_count)?;
    libraries(&mut hash, ffi::get(info.p_library_info))?;
    for group in ffi::list(info.p_groups, info.group_count) {
        word(&mut hash, group.ty.as_raw());
        word(&mut hash, group.general_shader);
        word(&mut hash, group.closest_hit_shader);
    }
    Some(hash.digest())
}

/// The key of whatever creation structure begins a chain.
pub(crate) fn of_chain(chain: *const c_void) -> Option<u64> {
    if let Some(info) = ffi::chained(chain) {
        return compute(info);
    }
    if let Some(info) = ffi::chained(chain) {
        return graphics(info);
    }
    ffi::chained(chain).and_then(ray_tracing)
}
