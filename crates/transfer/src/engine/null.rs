//! A backend without a device: its memory is a vector, its link a copy. For tests, and for programs
//! that want to run where there is no GPU.

use std::sync::{Mutex, PoisonError};

use super::{Backend, Error, Pinned, Result};

/// Device memory that is none.
#[derive(Debug)]
pub struct NullMemory {
    bytes: Mutex<Vec<u8>>,
}

impl NullMemory {
    /// Memory with this content.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Mutex::new(bytes),
        }
    }

    /// Its content.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, offset: usize, len: usize, body: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let capacity = bytes.len();
        bytes
            .get_mut(offset..offset.saturating_add(len))
            .map(body)
            .ok_or(Error::OutOfBounds {
                offset,
                bytes: len,
                capacity,
            })
    }
}

/// Ordinary memory in place of pinned memory.
#[derive(Debug)]
pub struct NullSlot {
    bytes: Vec<u8>,
}

impl Pinned for NullSlot {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// The backend. Copies happen when they are started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Backend for Null {
    type Memory = NullMemory;
    type Slot = NullSlot;
    type Flight = NullSlot;

    fn pin(&self, bytes: usize) -> Result<NullSlot> {
        Ok(NullSlot {
            bytes: vec![0; bytes],
        })
    }

    fn start_read(
        &self,
        memory: &NullMemory,
        offset: usize,
        len: usize,
        mut slot: NullSlot,
    ) -> Result<NullSlot> {
        memory.with(offset, len, |from| {
            if let Some(to) = slot.bytes.get_mut(..from.len()) {
                to.copy_from_slice(from);
            }
        })?;
        Ok(slot)
    }

    fn start_write(
        &self,
        memory: &NullMemory,
        offset: usize,
        len: usize,
        slot: NullSlot,
    ) -> Result<NullSlot> {
        memory.with(offset, len, |to| {
            if let Some(from) = slot.bytes.get(..to.len()) {
                to.copy_from_slice(from);
            }
        })?;
        Ok(slot)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn is_over(&self, _flight: &NullSlot) -> bool {
        true
    }

    fn wait(&self, flight: NullSlot) -> Result<NullSlot> {
        Ok(flight)
    }
}
