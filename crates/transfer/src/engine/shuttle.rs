//! Carrying chunks between slots and the program's memory.

use std::sync::OnceLock;

use towpath_measure::{Clock, MonotonicClock, Nanos};
use towpath_memory::{page_size, prefault, threads};

use super::course::{Course, Cut, Way};
use super::relay::{Closing, Relay};
use super::{Backend, Bring, Chunks, Destination, Pool, Result, Shape, Source};

/// Staged copies on one device.
#[derive(Debug)]
pub struct Engine<B: Backend> {
    backend: B,
    pool: Pool<B::Slot>,
    shape: Shape,
}

/// What a copy did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moved {
    /// Bytes moved.
    pub bytes: usize,
    /// In how many chunks.
    pub chunks: usize,
    /// Threads that carried them.
    pub threads: usize,
    /// Time from the arrival of the first chunk to the end: without what the device was busy with
    /// before.
    pub copying: Nanos,
}

impl<B: Backend> Engine<B> {
    /// An engine of a shape. Allocates pinned memory at the first copy, at most the shape's, and keeps
    /// it until [`Self::trim`].
    #[must_use]
    pub const fn new(backend: B, shape: Shape) -> Self {
        Self {
            pool: Pool::new(shape.chunk_bytes, shape.pinned_bytes()),
            backend,
            shape,
        }
    }

    /// The backend.
    #[must_use]
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    pub(super) const fn pool(&self) -> &Pool<B::Slot> {
        &self.pool
    }

    /// The shape.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Gives pinned memory back that is not in use.
    pub fn trim(&self) {
        self.pool.trim();
    }

    /// Pinned bytes kept while nothing runs.
    #[must_use]
    pub fn idle_pinned_bytes(&self) -> usize {
        self.pool.free_bytes()
    }

    /// Copies device bytes from `offset` to all rows of `to`, and returns when all are there.
    ///
    /// # Cost
    ///
    /// Starts and joins the shape's threads; allocates; waits for the device.
    ///
    /// # Errors
    ///
    /// Those of the backend. The destination may then hold a part; every copy that was started has
    /// ended.
    pub fn read(&self, memory: &B::Memory, offset: usize, to: &Destination) -> Result<Moved> {
        self.read_with(self.shape, memory, offset, to)
    }

    /// As [`Self::read`], by another shape; pinned memory stays within that of the engine's.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_with(
        &self,
        shape: Shape,
        memory: &B::Memory,
        offset: usize,
        to: &Destination,
    ) -> Result<Moved> {
        let align = prefault::huge_block().max(page_size());
        let chunks = chunks(shape, to.bytes(), (to.linear_start(), align));
        let slots = self.take_slots(shape, &chunks)?;
        let threads = shape.threads.min(slots.len()).max(1);
        let bringing = OnceLock::new();
        let out = |bytes: &[u8], offset: usize| {
            // Set before any helper starts.
            let bringing = *bringing.get_or_init(|| to.advise());
            to.bring_in(offset, bytes.len(), bringing);
            to.store(offset, bytes, bringing);
        };
        let (way, memory) = (Way::Read(&out), (memory, offset));
        let cuts = (chunks, cut(to));
        let mut course = Course::new(&self.backend, memory, cuts, way, slots);
        course.begin();
        // While the device fills the first slots.
        let bringing = *bringing.get_or_init(|| to.advise());
        let moved = self.run(course, threads)?;
        bringing.note_written();
        Ok(moved)
    }

    /// Copies all rows of `from` to the device at `offset`, and returns when all are there.
    ///
    /// # Cost
    ///
    /// As [`Self::read`].
    ///
    /// # Errors
    ///
    /// Those of the backend. The device memory may then hold a part; every copy that was started has
    /// ended.
    pub fn write(&self, from: &Source, memory: &B::Memory, offset: usize) -> Result<Moved> {
        self.write_with(self.shape, from, memory, offset)
    }

    /// As [`Self::write`], by another shape; pinned memory stays within that of the engine's.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn write_with(
        &self,
        shape: Shape,
        from: &Source,
        memory: &B::Memory,
        offset: usize,
    ) -> Result<Moved> {
        let chunks = chunks(shape, from.bytes(), (from.linear_start(), page_size()));
        let slots = self.take_slots(shape, &chunks)?;
        let threads = shape.threads.min(slots.len()).max(1);
        let into = |bytes: &mut [u8], offset: usize| from.load(offset, bytes);
        let (way, memory) = (Way::Write(&into), (memory, offset));
        let whole = Cut {
            bytes: usize::MAX,
            start: 0,
        };
        let course = Course::new(&self.backend, memory, (chunks, whole), way, slots);
        self.run(course, threads)
    }

    /// Runs a copy to its end: by the calling thread alone, or by helpers and the calling thread for the
    /// device.
    fn run(&self, mut course: Course<'_, B>, threads: usize) -> Result<Moved> {
        let started = MonotonicClock.now();
        let (chunks, way, cut) = (course.chunks(), course.way(), course.cut());
        let helpers = if threads == 1 { 0 } else { threads };
        let relay = Relay::new();
        let serve = |_number| relay.serve(&|part| way.carry_part(part, cut));
        let carriers = threads::beside(helpers, &serve, |helpers| {
            let _closing = Closing(&relay);
            if helpers == 0 {
                course.alone();
            } else {
                course.direct(&relay);
            }
            helpers.max(1)
        });
        let (copied, slots) = course.end();
        self.pool.give(slots);
        let copied = copied?;
        let since = if way.is_read() {
            copied.arrived.unwrap_or(started)
        } else {
            started
        };
        let bytes = (0..copied.chunks)
            .filter_map(|chunk| chunks.at(chunk))
            .map(|(_, len)| len)
            .sum();
        Ok(Moved {
            bytes,
            chunks: copied.chunks,
            threads: carriers,
            copying: MonotonicClock.now().since(since),
        })
    }

    fn take_slots(&self, shape: Shape, chunks: &Chunks) -> Result<Vec<B::Slot>> {
        let wanted = shape.slots.min(chunks.count()).max(1);
        self.pool.take(&self.backend, wanted, shape.chunk_bytes)
    }
}

/// Chunks of the shape's size, but small enough that every thread has two.
fn chunks(shape: Shape, bytes: usize, (start, align): (Option<usize>, usize)) -> Chunks {
    let even = bytes
        .div_ceil(shape.threads.saturating_mul(2).max(1))
        .next_multiple_of(align);
    let chunk = shape.chunk_bytes.min(even.max(CHUNK_BYTES_MIN)).max(1);
    // Cut at huge pages where chunks hold whole ones, else at small pages.
    let page = page_size();
    let align = if chunk.is_multiple_of(align) {
        align
    } else {
        page
    };
    Chunks::new(bytes, chunk, start.unwrap_or(0), align)
}

/// Parts for one helper each: whole huge pages where pages are brought in, so that no two helpers meet in
/// one, and smaller ones where they are there.
fn cut(to: &Destination) -> Cut {
    let bytes = match to.bring() {
        Bring::Nothing => PART_BYTES,
        Bring::Pages | Bring::HugePages => prefault::huge_block().max(PART_BYTES),
    };
    Cut {
        bytes,
        start: to.linear_start().unwrap_or(0),
    }
}

/// 1 MiB: a helper carries it in some 80 microseconds, a wake-up takes 5.
const PART_BYTES: usize = 1 << 20;
/// 512 KiB: smaller chunks spend more on starting a copy than on the copy.
const CHUNK_BYTES_MIN: usize = 512 << 10;

#[cfg(test)]
#[expect(unsafe_code, reason = "tests vouch for their own memory")]
mod tests {
    use towpath_memory::Mapping;

    use super::*;
    use crate::engine::course::Load;
    use crate::readback::Footprint;

    /// So that a slot is free again soon and the last chunks keep all helpers busy.
    #[test]
    fn no_two_parts_of_a_chunk_meet_in_a_page_that_is_brought_in() {
        const MIB: usize = 1 << 20;
        let host = Mapping::anonymous(16 * MIB).unwrap();
        let block = host.range().address.next_multiple_of(2 * MIB);
        for (bring, over, ends) in [
            (Bring::Nothing, 0, vec![1, 2, 3, 4]),
            (Bring::Nothing, MIB, vec![1, 2, 3, 4]),
            (Bring::Pages, 0, vec![2, 4]),
            (Bring::HugePages, MIB, vec![1, 3, 4]),
        ] {
            let footprint = Footprint::buffer(block + over, 4 * MIB).unwrap();
            // SAFETY: the bytes lie in the mapping, which nobody uses.
            let to = unsafe { Destination::new(footprint, bring) };
            let load = Load {
                slot: (),
                offset: 0,
                len: 4 * MIB,
            };
            let parts = cut(&to).of(&load);
            let found: Vec<usize> = (0..parts.count())
                .filter_map(|part| parts.at(part))
                .map(|(offset, len)| (offset + len) / MIB)
                .collect();
            assert_eq!(found, ends, "{bring:?} {over}");
        }
    }
}
