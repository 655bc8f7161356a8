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
    /// An empty pool that keeps at most `limit_bytes`; of `slot_bytes` are the slots of buffers.
    #[must_use]
    pub const fn new(slot_bytes: usize, limit_bytes: usize) -> Self {
        Self {
            free: Mutex::new(Vec::new()),
            slot_bytes,
            limit_bytes,
        }
    }

    /// Bytes of a buffer's slot.
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Slots of at least `slot_bytes` for a copy: as many as there are, more from `backend` up to `wanted` and
    /// the limit, but few new ones at a time: pinning takes 0.6 ms per MiB (`bench/record/h200`), and a
    /// program that makes a single copy should not pay for the ring of one that makes many.
    ///
    /// Smaller slots that are idle are freed where they leave too little of the limit.
    ///
    /// # Errors
    ///
    /// [`Error::NoPinnedMemory`](super::Error::NoPinnedMemory) if there is not even one.
    pub fn take<B: Backend<Slot = S>>(
        &self,
        backend: &B,
        wanted: usize,
        slot_bytes: usize,
    ) -> Result<Vec<S>> {
        let slot_bytes = slot_bytes.max(1);
        let wanted = wanted.min(self.limit_bytes / slot_bytes).max(1);
        let mut slots = self.take_idle(wanted, slot_bytes);
        let new = wanted
            .saturating_sub(slots.len())
            .min((NEW_BYTES_MAX / slot_bytes).max(2));
        self.make_room(sum(&slots).saturating_add(new.saturating_mul(slot_bytes)));
        for _ in 0..new {
            match backend.pin(slot_bytes) {
                Ok(slot) => slots.push(slot),
                Err(error) if slots.is_empty() => return Err(error),
                // Fewer slots than wanted are slower, not wrong.
                Err(_fewer) => break,
            }
        }
        Ok(slots)
    }

    fn take_idle(&self, wanted: usize, slot_bytes: usize) -> Vec<S> {
        let Ok(mut free) = self.free.lock() else {
            return Vec::new();
        };
        let all = std::mem::take(&mut *free);
        let mut slots = Vec::with_capacity(wanted);
        for slot in all {
            if slots.len() < wanted && slot.bytes().len() >= slot_bytes {
                slots.push(slot);
            } else {
                free.push(slot);
            }
        }
        slots
    }

    /// Frees idle slots until `bytes` beside them are within the limit.
    fn make_room(&self, bytes: usize) {
        if let Ok(mut free) = self.free.lock() {
            while !free.is_empty() && sum(&free).saturating_add(bytes) > self.limit_bytes {
                drop(free.swap_remove(0));
            }
        }
    }

    /// Takes slots back; beyond the limit they are freed.
    pub fn give(&self, slots: impl IntoIterator<Item = S>) {
        if let Ok(mut free) = self.free.lock() {
            free.extend(slots);
            while sum(&free) > self.limit_bytes {
                drop(free.pop());
            }
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
        self.free.lock().map_or(0, |free| sum(&free))
    }
}

fn sum<S: Pinned>(slots: &[S]) -> usize {
    slots.iter().map(|slot| slot.bytes().len()).sum()
}

/// 12 MiB: new slots for one copy.
const NEW_BYTES_MAX: usize = 12 << 20;
