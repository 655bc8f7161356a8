//! A lock-free map from the program's handles to a word, of fixed size.
//!
//! Handles are addresses and are used again after release; whoever fills a table removes the entry
//! when the program releases the object, before the driver can hand the address out again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Maps up to `SLOTS` handles (a power of two); when a handle's places are taken it is not kept, and
/// the caller asks the driver again.
#[derive(Debug)]
pub(crate) struct Handles<const SLOTS: usize> {
    slots: [Slot; SLOTS],
}

#[derive(Debug)]
struct Slot {
    /// 0 free, 1 being filled, else the handle.
    key: AtomicUsize,
    value: AtomicU64,
}

const FREE: usize = 0;
const FILLING: usize = 1;
/// Places looked at for each handle.
const PLACES: usize = 8;

impl<const SLOTS: usize> Handles<SLOTS> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    key: AtomicUsize::new(FREE),
                    value: AtomicU64::new(0),
                }
            }; SLOTS],
        }
    }

    /// What is kept about `handle`.
    pub(crate) fn get(&self, handle: usize) -> Option<u64> {
        if handle <= FILLING {
            return None;
        }
        self.places(handle).find_map(|slot| {
            // Acquire: pairs with the release in `put`, so that the value is the key's.
            if slot.key.load(Ordering::Acquire) != handle {
                return None;
            }
            let value = slot.value.load(Ordering::Acquire);
            // A slot that was freed and taken between the loads holds another key now.
            (slot.key.load(Ordering::Relaxed) == handle).then_some(value)
        })
    }

    /// Keeps `value` for `handle` if there is room.
    pub(crate) fn put(&self, handle: usize, value: u64) {
        if handle <= FILLING {
            return;
        }
        for slot in self.places(handle) {
            let taken = slot.key.compare_exchange(
                FREE,
                FILLING,
                // Acquire: after the store of whoever freed the slot.
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                slot.value.store(value, Ordering::Release);
                // Release: pairs with the acquire in `get`.
                slot.key.store(handle, Ordering::Release);
                return;
            }
        }
    }

    /// Forgets `handle`, every entry of it: two threads may both have entered it.
    pub(crate) fn remove(&self, handle: usize) {
        if handle <= FILLING {
            return;
        }
        for slot in self.places(handle) {
            let _other =
                slot.key
                    .compare_exchange(handle, FREE, Ordering::Release, Ordering::Relaxed);
        }
    }

    fn places(&self, handle: usize) -> impl Iterator<Item = &Slot> {
        // Fibonacci hashing; handles are aligned, so that their low bits say little.
        let start = (handle >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (0..PLACES).filter_map(move |step| self.slots.get((start + step) % SLOTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_until_it_is_removed() {
        let handles = Handles::<64>::new();
        handles.put(0x1000, 7);
        assert_eq!(handles.get(0x1000), Some(7));
        assert_eq!(handles.get(0x2000), None);
        handles.put(0x1000, 7);
        handles.remove(0x1000);
        assert_eq!(handles.get(0x1000), None, "the second entry is gone too");
        assert_eq!(handles.get(0), None);
        handles.put(0, 1);
        assert_eq!(handles.get(0), None);
    }

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let handles = Handles::<8>::new();
        for handle in 1..=100 {
            handles.put(handle << 12, handle as u64);
        }
        let kept = (1..=100).filter(|handle| handles.get(handle << 12).is_some());
        assert_eq!(kept.count(), 8);
        for handle in 1..=100 {
            let value = handles.get(handle << 12);
            assert!(value.is_none_or(|value| value == handle as u64));
            handles.remove(handle << 12);
        }
        assert!((1..=100).all(|handle| handles.get(handle << 12).is_none()));
    }

    #[test]
    fn threads_never_see_another_handles_value() {
        let handles = Handles::<16>::new();
        std::thread::scope(|scope| {
            for thread in 1..=4_usize {
                let handles = &handles;
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let handle = (thread + round % 9) << 12;
                        handles.put(handle, handle as u64);
                        let seen = handles.get(handle);
                        assert!(seen.is_none_or(|value| value == handle as u64), "{seen:?}");
                        handles.remove(handle);
                    }
                });
            }
        });
    }
}
