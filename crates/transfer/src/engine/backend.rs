//! What the engine needs of a GPU API.

use super::Result;

/// Host memory that the device reaches at full speed.
///
/// Several threads may read it at once.
pub trait Pinned: Send + Sync {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
    /// Its bytes.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// One device, with a queue of its own for chunks.
///
/// A slot is moved into a copy when it starts and comes back when it was waited for, so that no two
/// sides ever hold it. One copy's calls all come from one thread; several copies may run at once. Copies
/// end in the order of their start.
pub trait Backend: Sync {
    /// Linear device memory.
    type Memory: Sync + ?Sized;
    /// Pinned host memory; gives itself back when dropped.
    type Slot: Pinned;
    /// A slot with a copy under way. Dropping it waits, or leaks the slot if it cannot wait.
    type Flight: Send;

    /// Allocates pinned memory.
    ///
    /// # Errors
    ///
    /// [`Error::NoPinnedMemory`](super::Error::NoPinnedMemory).
    fn pin(&self, bytes: usize) -> Result<Self::Slot>;

    /// Starts a copy of `len` device bytes from `offset` into the first bytes of `slot`.
    ///
    /// # Errors
    ///
    /// The driver's refusal; the slot is dropped.
    fn start_read(
        &self,
        memory: &Self::Memory,
        offset: usize,
        len: usize,
        slot: Self::Slot,
    ) -> Result<Self::Flight>;

    /// Starts a copy of the first `len` bytes of `slot` to the device at `offset`.
    ///
    /// # Errors
    ///
    /// The driver's refusal; the slot is dropped.
    fn start_write(
        &self,
        memory: &Self::Memory,
        offset: usize,
        len: usize,
        slot: Self::Slot,
    ) -> Result<Self::Flight>;

    /// Makes the device begin with what was started.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    fn flush(&self) -> Result<()>;

    /// Whether the copy is over, well or not, without waiting: [`Self::wait`] then returns at once. `false`
    /// where that cannot be told.
    fn is_over(&self, flight: &Self::Flight) -> bool;

    /// Waits until the copy is done and gives the slot back.
    ///
    /// # Errors
    ///
    /// The copy failed; the slot is dropped or leaked, whichever is safe.
    fn wait(&self, flight: Self::Flight) -> Result<Self::Slot>;
}
