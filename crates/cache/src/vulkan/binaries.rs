//! `VK_KHR_pipeline_binary`: pipelines from the store without a VkPipelineCache.
//!
//! Only for calls without a cache of the program's (VUID-09616, 09617). The driver gives a key for a
//! creation structure before anything is compiled; under it the store has the binaries. A pipeline
//! that was created with `CAPTURE_DATA` gives its binaries once, and its captured data is released
//! at once: some drivers hold much memory for it.
//!
//! A program that has names of its own for its pipelines needs not even the driver's key, and so
//! neither SPIR-V nor shader modules at a warm start: see [`Binaries::named_key`].

use std::ffi::c_void;
use std::sync::Arc;

use ash::vk;
use towpath_sys::vulkan::pipeline_binary as abi;

use crate::error::{Error, Result};
use crate::saving::{Binary, load_pipeline, save_pipeline};
use crate::store::Store;

/// What vkGetDeviceProcAddr gives before its type is known.
type Any = unsafe extern "system" fn();

/// The extension's calls on one device, over a store.
pub struct Binaries {
    device: ash::Device,
    store: Arc<Store>,
    create: abi::CreatePipelineBinaries,
    destroy: abi::DestroyPipelineBinary,
    key: abi::GetPipelineKey,
    data: abi::GetPipelineBinaryData,
    release: abi::ReleaseCapturedPipelineData,
    /// The driver's global key; empty where it gives none.
    global_key: Vec<u8>,
}

/// First byte of a key made from a name, before the global key padded to the longest: longer than any
/// key of a driver's.
const NAMED: u8 = b'n';

impl std::fmt::Debug for Binaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Binaries({:?}, {})",
            self.device.handle(),
            self.store.place()
        )
    }
}

/// Binaries of one pipeline in the driver's hands; destroyed with this value.
#[derive(Debug)]
pub struct Loaded<'a> {
    owner: &'a Binaries,
    handles: Vec<abi::Handle>,
}

impl Loaded<'_> {
    /// The handles, for a `VkPipelineBinaryInfoKHR`.
    #[must_use]
    pub fn handles(&self) -> &[abi::Handle] {
        &self.handles
    }

    /// The structure for the chain of a pipeline's creation structure. The driver then ignores shader
    /// modules, so that they may be null, and needs a null cache.
    #[must_use]
    pub fn info(&self) -> abi::BinaryInfo {
        abi::BinaryInfo {
            s_type: <abi::BinaryInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            binary_count: u32::try_from(self.handles.len()).unwrap_or(0),
            binaries: self.handles.as_ptr(),
        }
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        for handle in &self.handles {
            // SAFETY: made by this device, not destroyed yet; a pipeline made from it does not need it.
            unsafe { (self.owner.destroy)(self.owner.device.handle(), *handle, std::ptr::null()) };
        }
    }
}

impl Binaries {
    /// The extension's functions; `None` if the driver does not give them all.
    ///
    /// # Safety
    ///
    /// `device` is a device of `instance` with VK_KHR_pipeline_binary enabled, alive, and outlives this.
    pub unsafe fn new(
        instance: &ash::Instance,
        device: ash::Device,
        store: Arc<Store>,
    ) -> Option<Self> {
        // SAFETY: instance and device are alive by the caller's promise.
        let get = |name: &std::ffi::CStr| unsafe {
            instance.get_device_proc_addr(device.handle(), name.as_ptr())
        };
        let create = get(c"vkCreatePipelineBinariesKHR")?;
        let destroy = get(c"vkDestroyPipelineBinaryKHR")?;
        let key = get(c"vkGetPipelineKeyKHR")?;
        let data = get(c"vkGetPipelineBinaryDataKHR")?;
        let release = get(c"vkReleaseCapturedPipelineDataKHR")?;
        let mut binaries = Self {
            // SAFETY: the registry gives the function of this name this type.
            create: unsafe { std::mem::transmute::<Any, abi::CreatePipelineBinaries>(create) },
            // SAFETY: as above.
            destroy: unsafe { std::mem::transmute::<Any, abi::DestroyPipelineBinary>(destroy) },
            // SAFETY: as above.
            key: unsafe { std::mem::transmute::<Any, abi::GetPipelineKey>(key) },
            // SAFETY: as above.
            data: unsafe { std::mem::transmute::<Any, abi::GetPipelineBinaryData>(data) },
            // SAFETY: as above.
            release: unsafe {
                std::mem::transmute::<Any, abi::ReleaseCapturedPipelineData>(release)
            },
            device,
            store,
            global_key: Vec::new(),
        };
        // SAFETY: a null structure asks for the global key.
        let global = unsafe { binaries.ask_key(std::ptr::null()) };
        // Without one, names are never warm: the driver's keys still are.
        binaries.global_key = global.unwrap_or_default();
        Some(binaries)
    }

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The driver's key for a creation structure; compiles nothing.
    ///
    /// # Errors
    ///
    /// The driver's, or a key longer than the extension allows.
    ///
    /// # Safety
    ///
    /// `create_info` points to a valid pipeline creation structure of this device.
    pub unsafe fn pipeline_key(&self, create_info: *const c_void) -> Result<Vec<u8>> {
        let info = abi::PipelineCreateInfo {
            s_type: <abi::PipelineCreateInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: create_info.cast_mut(),
        };
        // SAFETY: the caller's promise; the structure lives on this stack.
        unsafe { self.ask_key(&raw const info) }
    }

    /// # Safety
    ///
    /// `info` is null or valid, and so is what hangs in its chain.
    unsafe fn ask_key(&self, info: *const abi::PipelineCreateInfo) -> Result<Vec<u8>> {
        let mut key = empty_key();
        // SAFETY: the caller's promise; the key lives on this stack.
        let code = unsafe { (self.key)(self.device.handle(), info, &raw mut key) };
        said("vkGetPipelineKeyKHR", code)?;
        key_bytes(&key)
    }

    /// A key from a name that the program gives a pipeline: the name must change with everything that
    /// the pipeline is made from, such as a hash of it. The driver's global key is part of it, so that
    /// the name is cold for another driver, device feature or layer.
    ///
    /// Nothing is asked of the driver and nothing is compiled: with [`load_all`](Self::load_all) a warm
    /// start needs no SPIR-V.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the driver has no global key.
    pub fn named_key(&self, name: &[u8]) -> Result<Vec<u8>> {
        if self.global_key.is_empty() {
            return Err(Error::Driver {
                call: "vkGetPipelineKeyKHR",
                problem: "gives no global key".to_owned(),
            });
        }
        let mut key = Vec::with_capacity(1 + abi::MAX_KEY_SIZE + name.len());
        key.push(NAMED);
        key.extend_from_slice(&self.global_key);
        key.resize(1 + abi::MAX_KEY_SIZE, 0);
        key.extend_from_slice(name);
        Ok(key)
    }

    /// The binaries that the store has under a pipeline key, handed to the driver; `None` is a miss.
    ///
    /// A driver may refuse them when the pipeline is made, with `PIPELINE_COMPILE_REQUIRED`: take that for a
    /// miss and compile (seen on NVIDIA 580.159.04 with SPIR-V of 165 KB, not with 17 KB).
    ///
    /// # Errors
    ///
    /// The driver's; compile then.
    pub fn load(&self, pipeline_key: &[u8]) -> Result<Option<Loaded<'_>>> {
        let mut all = self.load_all(std::slice::from_ref(&pipeline_key))?;
        Ok(all.pop().flatten())
    }

    /// The binaries of many pipelines, handed to the driver in one call; `None` each is a miss.
    ///
    /// # Errors
    ///
    /// The driver's, for all of them; compile then.
    pub fn load_all<K: AsRef<[u8]>>(&self, pipeline_keys: &[K]) -> Result<Vec<Option<Loaded<'_>>>> {
        let found: Vec<_> = pipeline_keys
            .iter()
            .map(|key| load_pipeline(&self.store, key.as_ref()))
            .collect();
        let all: Vec<&Binary<_>> = found.iter().flatten().flatten().collect();
        if all.is_empty() {
            return Ok(found.iter().map(|_| None).collect());
        }
        let keys: Vec<abi::Key> = all.iter().map(|binary| raw_key(&binary.key)).collect();
        let data: Vec<abi::Data> = all
            .iter()
            .map(|binary| abi::Data {
                data_size: binary.data.len(),
                data: binary.data.as_ptr().cast_mut().cast(),
            })
            .collect();
        let both = abi::KeysAndData {
            binary_count: u32::try_from(all.len()).unwrap_or(0),
            keys: keys.as_ptr(),
            data: data.as_ptr(),
        };
        let mut info = create_info();
        info.keys_and_data = &raw const both;
        // SAFETY: the keys and data that `info` points to live until the end of this function; the
        // driver only reads them.
        let handles = unsafe { self.create_all(&info, all.len()) }?;
        let mut rest = Loaded {
            owner: self,
            handles,
        };
        if rest.handles.len() != all.len() {
            return Err(Error::Driver {
                call: "vkCreatePipelineBinariesKHR",
                problem: format!("makes {} of {} binaries", rest.handles.len(), all.len()),
            });
        }
        let mut take = |count: usize| Loaded {
            owner: self,
            handles: rest.handles.drain(..count).collect(),
        };
        Ok(found
            .iter()
            .map(|one| one.as_ref().map(|binaries| take(binaries.len())))
            .collect())
    }

    /// Stores the binaries of a pipeline that was created with `CAPTURE_DATA`, and releases its captured
    /// data. Returns the bytes that were new. Durable after [`Store::flush`].
    ///
    /// # Errors
    ///
    /// The driver's or the store's.
    ///
    /// # Safety
    ///
    /// `pipeline` is alive, of this device, created with `CAPTURE_DATA`, its data not released yet.
    pub unsafe fn capture(&self, pipeline_key: &[u8], pipeline: vk::Pipeline) -> Result<u64> {
        let mut info = create_info();
        info.pipeline = pipeline;
        // SAFETY: the caller's promise.
        let handles = unsafe { self.create_all(&info, 0) }?;
        let loaded = Loaded {
            owner: self,
            handles,
        };
        let binaries = loaded.handles.iter().map(|handle| self.fetch(*handle));
        let binaries: Result<Vec<Binary<Vec<u8>>>> = binaries.collect();
        let release = abi::ReleaseInfo {
            s_type: <abi::ReleaseInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            pipeline,
        };
        // SAFETY: the caller's promise; nothing more is captured from it below.
        let code =
            unsafe { (self.release)(self.device.handle(), &raw const release, std::ptr::null()) };
        said("vkReleaseCapturedPipelineDataKHR", code)?;
        save_pipeline(&self.store, pipeline_key, &binaries?)
    }

    /// Makes all binaries that `info` describes; asks for their number if `count` is 0.
    ///
    /// # Safety
    ///
    /// What `info` points to is alive.
    unsafe fn create_all(
        &self,
        info: &abi::BinaryCreateInfo,
        count: usize,
    ) -> Result<Vec<abi::Handle>> {
        const CALL: &str = "vkCreatePipelineBinariesKHR";
        let mut out = abi::HandlesInfo {
            s_type: <abi::HandlesInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            binary_count: 0,
            binaries: std::ptr::null_mut(),
        };
        let device = self.device.handle();
        if count == 0 {
            // SAFETY: the caller's promise; without room only the number is asked.
            let code = unsafe { (self.create)(device, info, std::ptr::null(), &raw mut out) };
            said(CALL, code)?;
        } else {
            out.binary_count = u32::try_from(count).unwrap_or(0);
        }
        let room = out.binary_count;
        let mut handles: Vec<abi::Handle> = vec![0; usize::try_from(room).unwrap_or(0)];
        out.binaries = handles.as_mut_ptr();
        // SAFETY: the caller's promise; there is room for `binary_count` handles.
        let code = unsafe { (self.create)(device, info, std::ptr::null(), &raw mut out) };
        handles.retain(|handle| *handle != 0);
        let loaded = Loaded {
            owner: self,
            handles,
        };
        said(CALL, code)?;
        // Handed on, not destroyed.
        let mut loaded = std::mem::ManuallyDrop::new(loaded);
        Ok(std::mem::take(&mut loaded.handles))
    }

    fn fetch(&self, handle: abi::Handle) -> Result<Binary<Vec<u8>>> {
        const CALL: &str = "vkGetPipelineBinaryDataKHR";
        let info = abi::DataInfo {
            s_type: <abi::DataInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            binary: handle,
        };
        let (mut key, mut size) = (empty_key(), 0_usize);
        let device = self.device.handle();
        let (info, key_out) = (&raw const info, &raw mut key);
        // SAFETY: the binary is alive; a null pointer asks for the size.
        let code =
            unsafe { (self.data)(device, info, key_out, &raw mut size, std::ptr::null_mut()) };
        said(CALL, code)?;
        let mut data = vec![0_u8; size];
        let mut given = size;
        // SAFETY: the binary is alive; the buffer has `given` bytes.
        let code = unsafe {
            (self.data)(
                device,
                info,
                key_out,
                &raw mut given,
                data.as_mut_ptr().cast(),
            )
        };
        said(CALL, code)?;
        if given == 0 || given > size {
            return Err(Error::Driver {
                call: CALL,
                problem: format!("announces {size} bytes and gives {given}"),
            });
        }
        data.truncate(given);
        let key = key_bytes(&key)?;
        Ok(Binary { key, data })
    }
}

fn create_info() -> abi::BinaryCreateInfo {
    abi::BinaryCreateInfo {
        s_type: <abi::BinaryCreateInfo as vk::TaggedStructure>::STRUCTURE_TYPE,
        p_next: std::ptr::null_mut(),
        keys_and_data: std::ptr::null(),
        pipeline: vk::Pipeline::null(),
        pipeline_create_info: std::ptr::null(),
    }
}

fn empty_key() -> abi::Key {
    abi::Key {
        s_type: <abi::Key as vk::TaggedStructure>::STRUCTURE_TYPE,
        p_next: std::ptr::null_mut(),
        key_size: 0,
        key: [0; abi::MAX_KEY_SIZE],
    }
}

fn raw_key(bytes: &[u8]) -> abi::Key {
    let mut key = empty_key();
    key.key_size = u32::try_from(bytes.len()).unwrap_or(0);
    crate::bytes::put(&mut key.key, 0, bytes);
    key
}

fn key_bytes(key: &abi::Key) -> Result<Vec<u8>> {
    let len = usize::try_from(key.key_size).unwrap_or(usize::MAX);
    let bytes = key.key.get(..len).filter(|bytes| !bytes.is_empty());
    bytes.map(<[u8]>::to_vec).ok_or_else(|| Error::Driver {
        call: "vkGetPipelineKeyKHR",
        problem: format!("gives a key of {len} bytes"),
    })
}

fn said(call: &'static str, code: vk::Result) -> Result<()> {
    match code {
        vk::Result::SUCCESS => Ok(()),
        code => Err(Error::Driver {
            call,
            problem: format!("answers {code:?} ({})", code.as_raw()),
        }),
    }
}
