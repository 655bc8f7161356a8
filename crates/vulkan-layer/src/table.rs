//! Objects by dispatch key: found without a lock, entered and taken out under one.
//!
//! Contract: an object is freed by [`Table::remove`]. Vulkan demands that nobody uses an instance or
//! device while it is destroyed, so no reference from [`Table::get`] of the same key is alive then.
//! Look-ups of other keys read keys only, never another key's object.

#![expect(
    unsafe_code,
    reason = "objects live as long as the application's handle"
)]

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Live objects that are found without a lock; programs have one to four.
const SLOTS: usize = 64;
/// A slot whose object is gone; keys are addresses of tables, never this.
const GONE: usize = 1;

struct Slot<T> {
    key: AtomicUsize,
    object: AtomicPtr<T>,
}

/// Objects by key.
pub(crate) struct Table<T> {
    slots: [Slot<T>; SLOTS],
    /// Objects that found no slot, and the writers' lock.
    more: Mutex<BTreeMap<usize, usize>>,
    more_len: AtomicUsize,
}

fn start(key: usize) -> usize {
    // Keys are aligned addresses: the low bits say nothing.
    (key >> 4).wrapping_mul(0x9e37_79b9) >> 8
}

impl<T: 'static> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    key: AtomicUsize::new(0),
                    object: AtomicPtr::new(ptr::null_mut()),
                }
            }; SLOTS],
            more: Mutex::new(BTreeMap::new()),
            more_len: AtomicUsize::new(0),
        }
    }

    fn probe(&self, key: usize) -> impl Iterator<Item = &Slot<T>> {
        let start = start(key);
        (0..SLOTS).filter_map(move |step| self.slots.get((start + step) % SLOTS))
    }

    /// The object of `key`.
    ///
    /// # Cost
    ///
    /// One load for the first device; no lock up to 64 live objects.
    pub(crate) fn get(&self, key: usize) -> Option<&'static T> {
        if key <= GONE {
            return None;
        }
        for slot in self.probe(key) {
            // Acquire: pairs with the release in `insert`, which stores the object first.
            match slot.key.load(Ordering::Acquire) {
                found if found == key => {
                    let object = slot.object.load(Ordering::Relaxed);
                    // SAFETY: the slot holds the key, so the object was entered and not yet removed;
                    // the module's contract keeps it alive for this caller.
                    return unsafe { object.as_ref() };
                }
                0 => break,
                _ => {}
            }
        }
        if self.more_len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        let object = ptr::with_exposed_provenance::<T>(*more.get(&key)?);
        // SAFETY: as above.
        unsafe { object.as_ref() }
    }

    /// The only live object; `None` if there are several or none.
    pub(crate) fn only(&self) -> Option<&'static T> {
        if self.more_len.load(Ordering::Acquire) != 0 {
            return None;
        }
        // Acquire: pairs with the release in `insert`.
        let is_live = |slot: &&Slot<T>| slot.key.load(Ordering::Acquire) > GONE;
        let mut live = self.slots.iter().filter(is_live);
        let object = live.next()?.object.load(Ordering::Relaxed);
        if live.next().is_some() {
            return None;
        }
        // SAFETY: the slot holds a key, so the object was entered and not yet removed; it is the only
        // one, so that the caller's handle is of it, which the module's contract keeps alive.
        unsafe { object.as_ref() }
    }

    /// Keys of the objects that `wanted` names.
    ///
    /// The caller sees to it that none of them is removed meanwhile.
    pub(crate) fn keys(&self, wanted: impl Fn(&T) -> bool) -> Vec<usize> {
        let more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<usize> = more.keys().copied().collect();
        drop(more);
        let slots = self
            .slots
            .iter()
            .map(|slot| slot.key.load(Ordering::Acquire));
        slots
            .chain(keys)
            .filter(|key| self.get(*key).is_some_and(&wanted))
            .collect()
    }

    /// Enters an object; gives it back where the key is taken already.
    pub(crate) fn insert(&self, key: usize, object: T) -> Result<&'static T, T> {
        if key <= GONE || self.get(key).is_some() {
            return Err(object);
        }
        let object: &'static mut T = Box::leak(Box::new(object));
        let pointer = ptr::from_mut(object);
        let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self
            .probe(key)
            .find(|slot| slot.key.load(Ordering::Relaxed) <= GONE);
        if let Some(slot) = free {
            slot.object.store(pointer, Ordering::Relaxed);
            // Release: whoever sees the key sees the object.
            slot.key.store(key, Ordering::Release);
        } else {
            more.insert(key, pointer.expose_provenance());
            self.more_len.store(more.len(), Ordering::Release);
        }
        drop(more);
        // SAFETY: just leaked; it is freed only by `remove`.
        Ok(unsafe { &*pointer })
    }

    /// Takes an object out.
    pub(crate) fn remove(&self, key: usize) -> Option<Box<T>> {
        let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = self
            .probe(key)
            .find(|slot| slot.key.load(Ordering::Relaxed) == key);
        let pointer = match slot {
            Some(slot) if key > GONE => {
                slot.key.store(GONE, Ordering::Release);
                slot.object.swap(ptr::null_mut(), Ordering::Relaxed)
            }
            _ => {
                let address = more.remove(&key)?;
                self.more_len.store(more.len(), Ordering::Release);
                ptr::with_exposed_provenance_mut(address)
            }
        };
        drop(more);
        // SAFETY: the pointer came from `insert`'s leaked box and is out of the table, so it is freed
        // once; the module's contract says that nobody uses the object any more.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_objects_than_slots_are_all_found_and_all_gone_after_removal() {
        let table = Table::new();
        let keys: Vec<usize> = (1..=3 * SLOTS).map(|n| n * 16).collect();
        for key in &keys {
            assert!(table.insert(*key, *key).is_ok());
            assert_eq!(table.insert(*key, 0).err(), Some(0));
        }
        for key in &keys {
            assert_eq!(table.get(*key), Some(key));
        }
        for key in keys.iter().rev() {
            assert_eq!(table.remove(*key).as_deref(), Some(key));
            assert!(table.get(*key).is_none());
            assert!(table.remove(*key).is_none());
        }
        assert!(table.insert(16, 5).is_ok());
        assert_eq!(table.get(16), Some(&5));
        assert!(table.get(0).is_none() && table.get(GONE).is_none());
        let _freed = table.remove(16);
    }

    #[test]
    fn the_only_object_is_given_and_objects_are_found_by_what_they_are() {
        let table = Table::new();
        assert_eq!(table.only(), None);
        assert!(table.insert(16, 1).is_ok());
        assert_eq!(table.only(), Some(&1));
        let numbers = 2..=2 * SLOTS;
        for number in numbers {
            assert!(table.insert(number * 16, number).is_ok());
        }
        assert_eq!(table.only(), None);
        let mut odd = table.keys(|number| number % 2 == 1);
        odd.sort_unstable();
        let expected: Vec<_> = (1..=2 * SLOTS).step_by(2).map(|n| n * 16).collect();
        assert_eq!(odd, expected);
        for number in 1..=2 * SLOTS {
            let _freed = table.remove(number * 16);
        }
    }
}
