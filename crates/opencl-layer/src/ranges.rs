//! Host memory that belongs to the driver: mapped buffers and shared virtual memory.
//!
//! Such memory is never prefaulted or staged into. The table is fixed and lock-free; what finds no
//! room is not known to be the driver's, which costs a needless prefault and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};

use towpath_memory::Range;

/// Ranges by start, with the object that each belongs to (0 for shared virtual memory).
#[derive(Debug)]
pub(crate) struct Ranges {
    slots: [Slot; SLOTS],
    /// Ranges kept now; 0 saves readers the walk.
    live: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    /// 0 free, 1 being filled, else the start.
    start: AtomicUsize,
    len: AtomicUsize,
    owner: AtomicUsize,
}

const SLOTS: usize = 256;
const FREE: usize = 0;
const FILLING: usize = 1;

impl Ranges {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    start: AtomicUsize::new(FREE),
                    len: AtomicUsize::new(0),
                    owner: AtomicUsize::new(0),
                }
            }; SLOTS],
            live: AtomicUsize::new(0),
        }
    }

    /// Keeps a range.
    pub(crate) fn add(&self, range: Range, owner: usize) {
        if range.address <= FILLING {
            return;
        }
        for slot in &self.slots {
            let taken =
                slot.start
                    .compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                slot.len.store(range.len, Ordering::Relaxed);
                slot.owner.store(owner, Ordering::Relaxed);
                self.live.fetch_add(1, Ordering::Relaxed);
                // Release: pairs with the acquire in `overlap`.
                slot.start.store(range.address, Ordering::Release);
                return;
            }
        }
    }

    /// Forgets one range that starts at `start`: a buffer may be mapped twice at one address.
    pub(crate) fn remove(&self, start: usize) {
        if start <= FILLING || self.live.load(Ordering::Relaxed) == 0 {
            return;
        }
        for slot in &self.slots {
            if slot.start.load(Ordering::Relaxed) == start && self.free(slot, start) {
                return;
            }
        }
    }

    /// Whether `owner` has a range here.
    pub(crate) fn has_owner(&self, owner: usize) -> bool {
        self.live.load(Ordering::Relaxed) != 0
            && self.slots.iter().any(|slot| {
                slot.start.load(Ordering::Acquire) > FILLING
                    && slot.owner.load(Ordering::Relaxed) == owner
            })
    }

    /// Forgets all ranges of `owner`.
    pub(crate) fn remove_owner(&self, owner: usize) {
        for slot in &self.slots {
            let start = slot.start.load(Ordering::Acquire);
            if start > FILLING && slot.owner.load(Ordering::Relaxed) == owner {
                let _freed = self.free(slot, start);
            }
        }
    }

    /// Whether a byte of `range` lies in a range kept here.
    pub(crate) fn overlap(&self, range: Range) -> bool {
        self.live.load(Ordering::Relaxed) != 0
            && self.slots.iter().any(|slot| {
                // Acquire: pairs with the release in `add`.
                let start = slot.start.load(Ordering::Acquire);
                let len = slot.len.load(Ordering::Relaxed);
                start > FILLING && start < range.end() && range.address < start.saturating_add(len)
            })
    }

    fn free(&self, slot: &Slot, start: usize) -> bool {
        let freed = slot
            .start
            .compare_exchange(start, FREE, Ordering::Release, Ordering::Relaxed);
        if freed.is_ok() {
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
        freed.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(address: usize, len: usize) -> Range {
        Range { address, len }
    }

    #[test]
    fn overlap_is_exact_and_ends_with_the_last_mapping() {
        let ranges = Ranges::new();
        ranges.add(range(0x1000, 0x100), 7);
        ranges.add(range(0x1000, 0x100), 7);
        assert!(ranges.overlap(range(0x10ff, 1)));
        assert!(!ranges.overlap(range(0x1100, 1)));
        assert!(!ranges.overlap(range(0xfff, 1)));
        assert!(ranges.overlap(range(0x0, 0x10_0000)));
        ranges.remove(0x1000);
        assert!(ranges.overlap(range(0x1000, 1)), "mapped twice");
        assert!(ranges.has_owner(7));
        ranges.remove_owner(7);
        assert!(!ranges.has_owner(7));
        assert!(!ranges.overlap(range(0x1000, 1)));
    }

    #[test]
    fn a_full_table_forgets_the_newest() {
        let ranges = Ranges::new();
        for index in 1..=SLOTS + 10 {
            ranges.add(range(index * 0x1000, 1), index);
        }
        assert!(ranges.overlap(range(SLOTS * 0x1000, 1)));
        assert!(!ranges.overlap(range((SLOTS + 1) * 0x1000, 1)));
    }
}
