//! Pinned slots kept between copies, up to a limit.

use std::sync::Mutex;

use super::{Backend, Pinned, Result};

/// Pinned slots kept between copies, up to a limit in bytes.
#[derive(Debug)]
pub struct Pool<S> {
    free: Mutex<Vec<S>>,
    slot_bytes: usize,
    limit_bytes: usize,
}

impl<S: Pinned> Pool<S> {
    /// An empty pool of slots of `slot_bytes` that keeps at most `limit_bytes`.
    #[must_use]
    pub const fn new(slot_bytes: usize, limit_bytes: usize) -> Self {
        Self {
            free: Mutex::new(Vec::new()),
            slot_bytes,
            limit_bytes,
        }
    }

    /// Bytes of a slot.
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Slots for a copy: as many as there are, more from `backend` up to `wanted` and the limit, but few
    /// new ones at a time: pinning takes 0.6 ms per MiB (`bench/record/h200`), and a program that makes a
    /// single copy should not pay for the ring of one that makes many.
    ///
    /// # Errors
    ///
    /// [`Error::NoPinnedMemory`](super::Error::NoPinnedMemory) if there is not even one.
    pub fn take<B: Backend<Slot = S>>(&self, backend: &B, wanted: usize) -> Result<Vec<S>> {
        let wanted = wanted.min(self.limit_bytes / self.slot_bytes.max(1)).max(1);
        let mut slots = match self.free.lock() {
            Ok(mut free) => {
                let keep = free.len().saturating_sub(wanted);
                free.split_off(keep)
            }
            Err(_poisoned) => Vec::new(),
        };
        let enough = wanted.min(slots.len().saturating_add(NEW_SLOTS_MAX));
        while slots.len() < enough {
            match backend.pin(self.slot_bytes) {
                Ok(slot) => slots.push(slot),
                Err(error) if slots.is_empty() => return Err(error),
                // Fewer slots than wanted are slower, not wrong.
                Err(_fewer) => break,
            }
        }
        Ok(slots)
    }

    /// Takes slots back; beyond the limit they are freed.
    pub fn give(&self, slots: impl IntoIterator<Item = S>) {
        if let Ok(mut free) = self.free.lock() {
            free.extend(slots);
            free.truncate(self.limit_bytes / self.slot_bytes.max(1));
        }
    }

    /// Frees every slot that is not in use.
    pub fn trim(&self) {
        if let Ok(mut free) = self.free.lock() {
            free.clear();
        }
    }

    /// Bytes kept and not in use.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.free
            .lock()
            .map_or(0, |free| free.len() * self.slot_bytes)
    }
}

/// New slots for one copy.
const NEW_SLOTS_MAX: usize = 6;
