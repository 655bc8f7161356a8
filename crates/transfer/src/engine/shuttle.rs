//! Carrying chunks between slots and the program's memory.

use std::sync::{Mutex, OnceLock};

use towpath_measure::{Clock, MonotonicClock, Nanos};
use towpath_memory::{page_size, prefault, threads};

use super::ring::{Ring, Ringed};
use super::side::Bringing;
use super::{Backend, Chunks, Destination, Pinned, Pool, Result, Shape, Source};

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
    /// Threads that were asked to take part.
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
        self.read_by(self.shape.threads, memory, offset, to)
    }

    /// As [`Self::read`], by at most this many threads, the caller's included.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_by(
        &self,
        threads: usize,
        memory: &B::Memory,
        offset: usize,
        to: &Destination,
    ) -> Result<Moved> {
        let align = prefault::huge_block().max(page_size());
        let chunks = self.chunks(threads, to.bytes(), (to.linear_start(), align));
        let ring = Ring::new(chunks.count());
        let slots = self.take_slots(threads, &chunks)?;
        let threads = threads.min(slots.len()).max(1);
        let mut spare = Vec::new();
        for slot in slots {
            match self.begin_read(&ring, &chunks, (memory, offset), slot) {
                Begun::Flying => {}
                Begun::Nothing(slot) => spare.push(slot),
                Begun::Failed => break,
            }
        }
        self.flush(&ring);
        // While the device fills the first slots.
        let bringing = to.advise();
        let returned = Mutex::new(spare);
        let job = Outward {
            ring: &ring,
            chunks: &chunks,
            memory,
            base: offset,
            to,
            bringing,
            arrived: OnceLock::new(),
        };
        threads::together(threads - 1, &|_number| self.carry_out(&job, &returned));
        let arrived = job
            .arrived
            .get()
            .copied()
            .unwrap_or_else(|| MonotonicClock.now());
        let moved = self.end(&ring, &chunks, (threads, arrived), returned)?;
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
        self.write_by(self.shape.threads, from, memory, offset)
    }

    /// As [`Self::write`], by at most this many threads, the caller's included.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn write_by(
        &self,
        threads: usize,
        from: &Source,
        memory: &B::Memory,
        offset: usize,
    ) -> Result<Moved> {
        let chunks = self.chunks(threads, from.bytes(), (from.linear_start(), page_size()));
        let ring = Ring::new(chunks.count());
        let slots = self.take_slots(threads, &chunks)?;
        let threads = threads.min(slots.len()).max(1);
        let returned = Mutex::new(slots);
        let started = MonotonicClock.now();
        threads::together(threads - 1, &|_number| {
            self.carry_in(&ring, &chunks, from, memory, offset, &returned);
        });
        self.end(&ring, &chunks, (threads, started), returned)
    }

    /// One worker of a read: oldest flight, its bytes to the destination, the next chunk into its slot.
    fn carry_out(&self, job: &Outward<'_, B>, returned: &Mutex<Vec<B::Slot>>) {
        let ring = job.ring;
        while let Some(Ringed { chunk, flight }) = ring.take() {
            let (offset, len) = job.chunks.at(chunk).unwrap_or((0, 0));
            if !ring.has_failed() {
                // While the device still fills the slot.
                job.to.bring_in(offset, len, job.bringing);
            }
            let slot = match self.backend.wait(flight) {
                Ok(slot) => slot,
                Err(error) => {
                    ring.fail(error);
                    continue;
                }
            };
            if !ring.has_failed() {
                job.to.store(
                    offset,
                    slot.bytes().get(..len).unwrap_or_default(),
                    job.bringing,
                );
                ring.handled();
            }
            match self.begin_read(ring, job.chunks, (job.memory, job.base), slot) {
                Begun::Nothing(slot) => put_back(returned, slot),
                Begun::Flying => self.flush(ring),
                Begun::Failed => {}
            }
        }
    }

    /// One worker of a write: a free slot or the oldest flight's, filled with the next chunk.
    fn carry_in(
        &self,
        ring: &Ring<B::Flight>,
        chunks: &Chunks,
        from: &Source,
        memory: &B::Memory,
        base: usize,
        free: &Mutex<Vec<B::Slot>>,
    ) {
        loop {
            let slot = free.lock().ok().and_then(|mut free| free.pop());
            let Some(mut slot) = slot.or_else(|| self.land(ring)) else {
                return;
            };
            let Some((chunk, (offset, len))) = ring
                .claim()
                .and_then(|chunk| Some((chunk, chunks.at(chunk)?)))
            else {
                put_back(free, slot);
                // Wait for what is still under way.
                while let Some(slot) = self.land(ring) {
                    put_back(free, slot);
                }
                return;
            };
            from.load(offset, slot.bytes_mut().get_mut(..len).unwrap_or_default());
            match self.backend.start_write(memory, base + offset, len, slot) {
                Ok(flight) => ring.put(chunk, flight),
                Err(error) => ring.fail(error),
            }
            self.flush(ring);
        }
    }

    /// Waits for the oldest flight of a write that did not fail.
    fn land(&self, ring: &Ring<B::Flight>) -> Option<B::Slot> {
        loop {
            let Ringed { flight, .. } = ring.take()?;
            match self.backend.wait(flight) {
                Ok(slot) => {
                    ring.handled();
                    return Some(slot);
                }
                Err(error) => ring.fail(error),
            }
        }
    }

    fn begin_read(
        &self,
        ring: &Ring<B::Flight>,
        chunks: &Chunks,
        (memory, base): (&B::Memory, usize),
        slot: B::Slot,
    ) -> Begun<B::Slot> {
        let Some((chunk, (offset, len))) = ring
            .claim()
            .and_then(|chunk| Some((chunk, chunks.at(chunk)?)))
        else {
            return Begun::Nothing(slot);
        };
        match self.backend.start_read(memory, base + offset, len, slot) {
            Ok(flight) => {
                ring.put(chunk, flight);
                if chunk == 0 {
                    // The device begins while the others are being named.
                    self.flush(ring);
                }
                Begun::Flying
            }
            Err(error) => {
                ring.fail(error);
                Begun::Failed
            }
        }
    }

    fn flush(&self, ring: &Ring<B::Flight>) {
        if let Err(error) = self.backend.flush() {
            ring.fail(error);
        }
    }

    fn end(
        &self,
        ring: &Ring<B::Flight>,
        chunks: &Chunks,
        (threads, since): (usize, Nanos),
        returned: Mutex<Vec<B::Slot>>,
    ) -> Result<Moved> {
        if let Ok(slots) = returned.into_inner() {
            self.pool.give(slots);
        }
        let handled = ring.finish()?;
        let bytes = (0..handled)
            .filter_map(|chunk| chunks.at(chunk))
            .map(|(_, len)| len)
            .sum();
        Ok(Moved {
            bytes,
            chunks: handled,
            threads,
            copying: MonotonicClock.now().since(since),
        })
    }

    /// Chunks of the shape's size, but small enough that every thread has two.
    fn chunks(
        &self,
        threads: usize,
        bytes: usize,
        (start, align): (Option<usize>, usize),
    ) -> Chunks {
        let even = bytes
            .div_ceil(threads.saturating_mul(2).max(1))
            .next_multiple_of(align);
        let chunk = self.shape.chunk_bytes.min(even.max(CHUNK_BYTES_MIN)).max(1);
        // Cut at huge pages where chunks hold whole ones, else at small pages.
        let page = page_size();
        let align = if chunk.is_multiple_of(align) {
            align
        } else {
            page
        };
        Chunks::new(bytes, chunk, start.unwrap_or(0), align)
    }

    fn take_slots(&self, threads: usize, chunks: &Chunks) -> Result<Vec<B::Slot>> {
        let wanted = Shape::new(threads, self.shape.chunk_bytes).slots;
        let wanted = wanted.min(self.shape.slots).min(chunks.count()).max(1);
        self.pool.take(&self.backend, wanted)
    }
}

/// What the workers of one read share.
struct Outward<'a, B: Backend> {
    ring: &'a Ring<B::Flight>,
    chunks: &'a Chunks,
    memory: &'a B::Memory,
    base: usize,
    to: &'a Destination,
    bringing: Bringing,
    arrived: OnceLock<Nanos>,
}

/// What became of a free slot.
enum Begun<S> {
    /// The next chunk is under way in it.
    Flying,
    /// There is no next chunk.
    Nothing(S),
    /// The driver refused; the slot is gone.
    Failed,
}

fn put_back<S>(free: &Mutex<Vec<S>>, slot: S) {
    if let Ok(mut free) = free.lock() {
        free.push(slot);
    }
}

/// 512 KiB: smaller chunks spend more on starting a copy than on the copy.
const CHUNK_BYTES_MIN: usize = 512 << 10;
