//! `VK_KHR_pipeline_binary`: one binary a pipeline, keyed by the pipeline's key.

use core::ffi::c_void;

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as abi;

use crate::blob::Code;
use crate::device;
use crate::ffi;
use crate::handle::{Kind, Registry};
use crate::journal::{call, fault};
use crate::key;
use crate::pipeline::PIPELINES;

/// A binary's handle as the registry wants it.
#[derive(Clone, Copy)]
pub(crate) struct Raw(pub(crate) abi::Handle);

impl vk::Handle for Raw {
    const TYPE: vk::ObjectType = vk::ObjectType::UNKNOWN;
    fn as_raw(self) -> u64 {
        self.0
    }
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) key: u64,
    pub(crate) code: Code,
}

pub(crate) static BINARIES: Registry<Binary> = Registry::new(Kind::Binary);

fn key_bytes(key: u64) -> [u8; abi::MAX_KEY_SIZE] {
    let mut bytes = [0; abi::MAX_KEY_SIZE];
    for (slot, byte) in bytes.iter_mut().zip(key.to_le_bytes()) {
        *slot = byte;
    }
    bytes
}

fn set_key(slot: *mut abi::Key, key: u64) {
    if let Some(slot) = ffi::get_mut(slot) {
        slot.key_size = 8;
        slot.key = key_bytes(key);
    }
}

pub(crate) extern "system" fn get_key(
    device: vk::Device,
    info: *const abi::PipelineCreateInfo,
    out: *mut abi::Key,
) -> vk::Result {
    call!("vkGetPipelineKeyKHR", "global={}", info.is_null());
    let Some(device) = device::get("vkGetPipelineKeyKHR", device) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let key = match ffi::get(info) {
        // The global key depends on the driver alone here.
        None => Some(0x6106_a100_0000_0000),
        Some(info) => key::of_chain(info.p_next),
    };
    let Some(key) = key else {
        return vk::Result::ERROR_UNKNOWN;
    };
    set_key(out, key ^ device.code_salt());
    vk::Result::SUCCESS
}

pub(crate) extern "system" fn create(
    device: vk::Device,
    info: *const abi::BinaryCreateInfo,
    _alloc: *const vk::AllocationCallbacks<'_>,
    out: *mut abi::HandlesInfo,
) -> vk::Result {
    const NAME: &str = "vkCreatePipelineBinariesKHR";
    call!("vkCreatePipelineBinariesKHR");
    let (Some(_device), Some(info), Some(out)) =
        (device::get(NAME, device), ffi::get(info), ffi::get_mut(out))
    else {
        return vk::Result::ERROR_UNKNOWN;
    };
    let made = sources(NAME, info);
    let count = u32::try_from(made.len()).unwrap_or(u32::MAX);
    if out.binaries.is_null() {
        out.binary_count = count;
        return vk::Result::SUCCESS;
    }
    if out.binary_count < count {
        return vk::Result::INCOMPLETE;
    }
    out.binary_count = count;
    for (slot, binary) in ffi::list_mut(out.binaries, count).iter_mut().zip(made) {
        *slot = BINARIES.add::<Raw>(binary).0;
    }
    vk::Result::SUCCESS
}

fn sources(name: &'static str, info: &abi::BinaryCreateInfo) -> Vec<Binary> {
    if let Some(pipeline) = PIPELINES.optional(name, info.pipeline) {
        if !pipeline.captured {
            fault(name, format_args!("the pipeline captured no data"));
        }
        return vec![Binary {
            key: pipeline.key,
            code: pipeline.code.clone(),
        }];
    }
    let Some(given) = ffi::get(info.keys_and_data) else {
        return Vec::new();
    };
    let keys = ffi::list(given.keys, given.binary_count);
    let data = ffi::list(given.data, given.binary_count);
    let pairs = keys.iter().zip(data);
    pairs
        .filter_map(|(key, data)| {
            let [a, b, c, d, e, f, g, h, ..] = key.key;
            let key = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let bytes = ffi::bytes(data.data, data.data_size).to_vec();
            (!bytes.is_empty()).then(|| Binary {
                key,
                code: Code::new(bytes),
            })
        })
        .collect()
}

pub(crate) extern "system" fn destroy(
    _device: vk::Device,
    binary: abi::Handle,
    _alloc: *const vk::AllocationCallbacks<'_>,
) {
    call!("vkDestroyPipelineBinaryKHR");
    BINARIES.remove("vkDestroyPipelineBinaryKHR", Raw(binary));
}

pub(crate) extern "system" fn get_data(
    _device: vk::Device,
    info: *const abi::DataInfo,
    key: *mut abi::Key,
    size: *mut usize,
    data: *mut c_void,
) -> vk::Result {
    const NAME: &str = "vkGetPipelineBinaryDataKHR";
    call!("vkGetPipelineBinaryDataKHR");
    let binary = ffi::get(info).and_then(|info| BINARIES.get(NAME, Raw(info.binary)));
    let (Some(binary), Some(size)) = (binary, ffi::get_mut(size)) else {
        return vk::Result::ERROR_UNKNOWN;
    };
    set_key(key, binary.key);
    let code = binary.code.bytes();
    let room = core::mem::replace(size, code.len());
    if data.is_null() {
        return vk::Result::SUCCESS;
    }
    match ffi::bytes_mut(data, room).get_mut(..code.len()) {
        Some(slot) => {
            slot.copy_from_slice(code);
            vk::Result::SUCCESS
        }
        None => vk::Result::ERROR_UNKNOWN,
    }
}

pub(crate) extern "system" fn release(
    _device: vk::Device,
    info: *const abi::ReleaseInfo,
    _alloc: *const vk::AllocationCallbacks<'_>,
) -> vk::Result {
    const NAME: &str = "vkReleaseCapturedPipelineDataKHR";
    call!("vkReleaseCapturedPipelineDataKHR");
    if let Some(info) = ffi::get(info) {
        let _checked = PIPELINES.get(NAME, info.pipeline);
    }
    vk::Result::SUCCESS
}
