//! Handles tagged by kind, so that a handle of the wrong kind, or of a destroyed object, is noticed.
//!
//! A non-dispatchable handle is `kind << 56 | serial`. A dispatchable one is the address of a small
//! block that begins with the word that the loader overwrites; blocks are never freed, so that a stale
//! pointer is found out instead of followed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use towpath_sys::vulkan::layer::ICD_LOADER_MAGIC;

use crate::journal::fault;
use crate::script::script;

/// What a handle stands for; the number is the handle's top byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    Instance = 0x81,
    PhysicalDevice,
    Device,
    Queue,
    CommandBuffer,
    ShaderModule = 0xa1,
    PipelineLayout,
    SetLayout,
    RenderPass,
    Framebuffer,
    CommandPool,
    Buffer,
    Image,
    ImageView,
    Memory,
    Cache,
    Pipeline,
    Binary,
    Fence,
    Semaphore,
    Surface,
    Swapchain,
    Deferred,
    Shader,
    QueryPool,
}

/// All live objects of one kind.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    kind: Kind,
    live: Mutex<BTreeMap<u64, Arc<T>>>,
    free: Mutex<Vec<u64>>,
}

static SERIAL: AtomicU64 = AtomicU64::new(1);

impl<T> Registry<T> {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            live: Mutex::new(BTreeMap::new()),
            free: Mutex::new(Vec::new()),
        }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<T>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a non-dispatchable object.
    pub(crate) fn add<H: vk::Handle>(&self, object: T) -> H {
        let old = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let raw = old.unwrap_or_else(|| {
            (u64::from(self.kind_number()) << 56) | SERIAL.fetch_add(1, Ordering::Relaxed)
        });
        self.live().insert(raw, Arc::new(object));
        H::from_raw(raw)
    }

    /// Registers a dispatchable object.
    pub(crate) fn add_dispatchable<H: vk::Handle>(&self, object: T) -> H {
        // Word 0 is the loader's; word 1 lets a debugger see what it is.
        let block: &'static mut [usize; 2] = Box::leak(Box::new([
            ICD_LOADER_MAGIC,
            usize::from(self.kind_number()),
        ]));
        let raw = u64::try_from(core::ptr::from_mut(block).addr()).unwrap_or(0);
        self.live().insert(raw, Arc::new(object));
        H::from_raw(raw)
    }

    /// The object behind a handle; a wrong handle is a fault of the application.
    pub(crate) fn get<H: vk::Handle>(&self, call: &'static str, handle: H) -> Option<Arc<T>> {
        let raw = handle.as_raw();
        let found = self.live().get(&raw).cloned();
        if found.is_none() {
            fault(
                call,
                format_args!("handle={raw:#x} is no live {:?}", self.kind),
            );
        }
        found
    }

    /// As [`Self::get`], where null is allowed.
    pub(crate) fn optional<H: vk::Handle + Copy>(
        &self,
        call: &'static str,
        handle: H,
    ) -> Option<Arc<T>> {
        if handle.as_raw() == 0 {
            None
        } else {
            self.get(call, handle)
        }
    }

    /// Ends an object; null is allowed.
    pub(crate) fn remove<H: vk::Handle>(&self, call: &'static str, handle: H) {
        let raw = handle.as_raw();
        if raw == 0 {
            return;
        }
        if self.live().remove(&raw).is_none() {
            fault(
                call,
                format_args!("handle={raw:#x} is no live {:?}", self.kind),
            );
        } else if script().reuse && raw >> 56 == u64::from(self.kind_number()) {
            self.free
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(raw);
        }
    }

    fn kind_number(&self) -> u8 {
        self.kind as u8
    }
}
