//! The ring: slots with copies under way, handed from thread to thread in the order of their start.
//!
//! A worker takes the oldest flight, waits for it, handles its slot, starts the next chunk in the same
//! slot and puts it back at the end. A slot is therefore owned by the device, by the ring or by one
//! worker; the types hold that, and the model in this file checks the hand-over and the end.

use std::collections::VecDeque;

use super::prim::{AtomicBool, AtomicUsize, Mutex, Ordering};
use super::{Error, Result};

/// Size and number of pinned slots, and of threads.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shape {
    /// Bytes of a slot, which is the largest chunk.
    pub chunk_bytes: usize,
    /// Slots in flight at most.
    pub slots: usize,
    /// Threads, the caller's included.
    pub threads: usize,
}

impl Shape {
    /// 2 MiB: one huge page, so that no two workers meet in one; of the sizes tried on the machine of
    /// `bench/record/h200` the fastest and the one with the least processor time.
    pub const CHUNK_BYTES: usize = 2 << 20;

    /// A slot for each thread and four more under way, two per thread where there are few: a device's
    /// link is busy with that, and pinned memory is dear to make and to keep.
    #[must_use]
    pub const fn new(threads: usize, chunk_bytes: usize) -> Self {
        let threads = if threads == 0 { 1 } else { threads };
        Self {
            chunk_bytes,
            slots: if threads < SLOTS_MORE {
                threads * 2
            } else {
                threads.saturating_add(SLOTS_MORE)
            },
            threads,
        }
    }

    /// Pinned bytes that the slots take.
    #[must_use]
    pub const fn pinned_bytes(&self) -> usize {
        self.slots.saturating_mul(self.chunk_bytes)
    }
}

/// A chunk and the slot that its copy is under way in.
pub(super) struct Ringed<F> {
    pub(super) chunk: usize,
    pub(super) flight: F,
}

/// What the workers of one copy share.
pub(super) struct Ring<F> {
    flights: Mutex<VecDeque<Ringed<F>>>,
    next: AtomicUsize,
    chunks: usize,
    handled: AtomicUsize,
    has_failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl<F> Ring<F> {
    pub(super) fn new(chunks: usize) -> Self {
        Self {
            flights: Mutex::new(VecDeque::new()),
            next: AtomicUsize::new(0),
            chunks,
            handled: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// The next chunk that nobody has begun; `None` at the end and after a failure.
    pub(super) fn claim(&self) -> Option<usize> {
        // Relaxed: the number alone is shared; what belongs to a chunk travels through `flights`.
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.chunks).then_some(chunk)
    }

    /// Puts a flight at the end.
    pub(super) fn put(&self, chunk: usize, flight: F) {
        match self.flights.lock() {
            Ok(mut flights) => flights.push_back(Ringed { chunk, flight }),
            Err(poisoned) => poisoned.into_inner().push_back(Ringed { chunk, flight }),
        }
    }

    /// Takes the oldest flight; `None` when each is in some worker's hands or all is done.
    pub(super) fn take(&self) -> Option<Ringed<F>> {
        match self.flights.lock() {
            Ok(mut flights) => flights.pop_front(),
            Err(poisoned) => poisoned.into_inner().pop_front(),
        }
    }

    /// Counts a chunk as handled.
    pub(super) fn handled(&self) {
        // Relaxed: read after the workers were joined.
        let _before = self.handled.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the first failure; nothing new is begun after it.
    pub(super) fn fail(&self, error: Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        if let Ok(mut failure) = self.failure.lock() {
            let _first = failure.get_or_insert(error);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// After all workers are done: the failure, if any.
    ///
    /// # Errors
    ///
    /// The first failure that was noted.
    pub(super) fn finish(&self) -> Result<usize> {
        let failure = match self.failure.lock() {
            Ok(mut failure) => failure.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        };
        failure.map_or_else(|| Ok(self.handled.load(Ordering::Relaxed)), Err)
    }
}

/// Slots beyond one for each thread.
const SLOTS_MORE: usize = 4;

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A slot that the device, the ring or one worker owns; the cell makes loom see any overlap.
    struct Slot {
        content: loom::cell::UnsafeCell<usize>,
    }

    #[expect(
        unsafe_code,
        reason = "the model's device and host write through a checked cell"
    )]
    impl Slot {
        fn fill(&self, chunk: usize) {
            // SAFETY: loom checks that no other access runs at the same time.
            self.content.with_mut(|content| unsafe { *content = chunk });
        }

        fn read(&self) -> usize {
            // SAFETY: loom checks that no write runs at the same time.
            self.content.with(|content| unsafe { *content })
        }
    }

    #[expect(unsafe_code, reason = "the cell is checked by loom")]
    // SAFETY: every access goes through loom's cell, which fails the model where two overlap.
    unsafe impl Sync for Slot {}
    #[expect(unsafe_code, reason = "the cell is checked by loom")]
    // SAFETY: as above.
    unsafe impl Send for Slot {}

    fn worker(ring: &Ring<Arc<Slot>>, stored: &[AtomicUsize], fail_at: Option<usize>) {
        while let Some(Ringed { chunk, flight }) = ring.take() {
            if fail_at == Some(chunk) {
                ring.fail(Error::NoPinnedMemory { bytes: 0 });
                continue;
            }
            if !ring.has_failed() {
                assert_eq!(
                    flight.read(),
                    chunk,
                    "a slot was refilled before it was emptied"
                );
                stored[chunk].fetch_add(1, Ordering::Relaxed);
                ring.handled();
            }
            if let Some(next) = ring.claim() {
                flight.fill(next);
                ring.put(next, flight);
            }
        }
    }

    fn model(chunks: usize, slots: usize, fail_at: Option<usize>) {
        loom::model(move || {
            let ring = Arc::new(Ring::new(chunks));
            let stored: Arc<Vec<AtomicUsize>> =
                Arc::new((0..chunks).map(|_| AtomicUsize::new(0)).collect());
            for _ in 0..slots {
                let Some(chunk) = ring.claim() else { break };
                let slot = Arc::new(Slot {
                    content: loom::cell::UnsafeCell::new(usize::MAX),
                });
                slot.fill(chunk);
                ring.put(chunk, slot);
            }
            let helper = {
                let (ring, stored) = (Arc::clone(&ring), Arc::clone(&stored));
                thread::spawn(move || worker(&ring, &stored, fail_at))
            };
            worker(&ring, &stored, fail_at);
            helper.join().unwrap();
            let counts: Vec<usize> = stored
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect();
            assert!(ring.take().is_none(), "a flight was left");
            match fail_at {
                None => {
                    assert_eq!(counts, vec![1; chunks]);
                    assert_eq!(ring.finish().unwrap(), chunks);
                }
                Some(_) => {
                    assert!(counts.iter().all(|count| *count <= 1));
                    assert!(ring.finish().is_err());
                }
            }
        });
    }

    #[test]
    fn every_chunk_is_stored_once_and_no_slot_is_refilled_early() {
        model(4, 2, None);
        model(3, 1, None);
        model(2, 3, None);
    }

    #[test]
    fn a_failure_ends_the_copy_and_leaves_no_flight() {
        model(4, 2, Some(1));
        model(3, 2, Some(0));
    }
}
