//! How a copy is cut and by how many it is carried.

/// Size and number of pinned slots, and of threads.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shape {
    /// Bytes of a slot, which is the largest chunk.
    pub chunk_bytes: usize,
    /// Slots in flight at most.
    pub slots: usize,
    /// Threads that carry bytes. One: the caller's. More: helpers, while the caller's talks to the
    /// device and is asleep for most of the time.
    pub threads: usize,
}

impl Shape {
    /// 2 MiB: one huge page, so that no two helpers meet in one. Below it NVIDIA's driver copies inside
    /// the call that should only start the copy (`bench/record/h200`).
    pub const CHUNK_BYTES: usize = 2 << 20;

    /// 4 MiB, for few threads: half as many calls. A warm read of 154 MiB by four threads takes 1.16 to 1.23
    /// times the processor time of the driver's own, by six with 2 MiB 1.32 to 1.35 (`bench/record/h200`).
    pub const LARGE_CHUNK_BYTES: usize = 4 << 20;

    /// A slot for each thread and 8 MiB more under way, in two to four slots: with less, a device waits for
    /// the thread that looks only every 60 microseconds; with more, pinned memory is made for nothing.
    #[must_use]
    pub const fn new(threads: usize, chunk_bytes: usize) -> Self {
        let threads = if threads == 0 { 1 } else { threads };
        let more = match UNDER_WAY_BYTES.checked_div(chunk_bytes) {
            Some(0..=2) => 2,
            Some(3) => 3,
            _ => 4,
        };
        Self {
            chunk_bytes,
            slots: threads.saturating_add(more),
            threads,
        }
    }

    /// Pinned bytes that the slots take.
    #[must_use]
    pub const fn pinned_bytes(&self) -> usize {
        self.slots.saturating_mul(self.chunk_bytes)
    }
}

/// Bytes that the device has to do while every thread carries.
const UNDER_WAY_BYTES: usize = 8 << 20;
