//! Which waits ask for what this process has already seen reached.
//!
//! In five real programs 0 to 49 % do (`docs/vulkan-layer.md`), so with the waits fix on such a wait is
//! answered here. What would make that wrong makes the object unknown: a fence that was reset,
//! submitted, exported as SYNC_FD (which resets it) or given a temporary payload. What another process
//! or API can set back (imported, or made to be exported) is never known, and after a device was lost
//! nothing is.
//!
//! Whoever learns from here that a value was reached must also see what was written before it: the
//! thread that heard it from the driver stores with release, the one that reads loads with acquire.
//! Changes that set an object back need no order of their own: Vulkan has the application keep other
//! uses of the object away from them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ash::vk;

/// Objects that can be known at once; those beyond it are not known, and so not counted.
const SLOTS: usize = 4096;
/// Slots that one handle may lie in.
const WINDOW: usize = 16;
/// Marks a slot that is free again.
const FREE: u64 = 1;
/// State of an object that others can change.
const FOREIGN: u64 = u64::MAX;

/// Handles and a word of state each, without a lock.
pub(crate) struct Known {
    slots: Box<[(AtomicU64, AtomicU64)]>,
    lost: AtomicBool,
}

impl Known {
    pub(crate) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| (AtomicU64::new(0), AtomicU64::new(0)));
        Self {
            slots: slots.collect(),
            lost: AtomicBool::new(false),
        }
    }

    fn window(&self, handle: u64) -> impl Iterator<Item = &(AtomicU64, AtomicU64)> {
        let start = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let start = usize::try_from(start).unwrap_or(0);
        (0..WINDOW).filter_map(move |step| self.slots.get((start + step) % SLOTS))
    }

    fn state(&self, handle: u64) -> Option<&AtomicU64> {
        let found = self
            .window(handle)
            .find(|slot| slot.0.load(Ordering::Relaxed) == handle)?;
        Some(&found.1)
    }

    /// Starts to follow an object; a handle value that was used before starts anew.
    pub(crate) fn created(&self, handle: u64, state: u64, is_foreign: bool) {
        self.destroyed(handle);
        let state = if is_foreign { FOREIGN } else { state };
        for (key, value) in self.window(handle) {
            let old = key.load(Ordering::Relaxed);
            if old > FREE {
                continue;
            }
            let taken = key.compare_exchange(old, handle, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                value.store(state, Ordering::Release);
                return;
            }
        }
    }

    /// Forgets an object.
    pub(crate) fn destroyed(&self, handle: u64) {
        for (key, _) in self.window(handle) {
            let _other = key.compare_exchange(handle, FREE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Something happened after which nothing is known until the next look.
    pub(crate) fn forget(&self, handle: u64) {
        if let Some(state) = self.state(handle).filter(|s| !is_foreign(s)) {
            state.store(0, Ordering::Relaxed);
        }
    }

    /// From now on others can change the object.
    pub(crate) fn give_away(&self, handle: u64) {
        if let Some(state) = self.state(handle) {
            state.store(FOREIGN, Ordering::Relaxed);
        }
    }

    /// The driver said that the object has reached `value` (1 for a fence).
    pub(crate) fn reached(&self, handle: u64, value: u64) {
        let value = value.min(FOREIGN - 1);
        // What is known already, or never will be, needs no store: `FOREIGN` is above every value. Who
        // reads the older store acquires what was released with it.
        let is_new = |state: &&AtomicU64| state.load(Ordering::Relaxed) < value;
        if let Some(state) = self.state(handle).filter(is_new) {
            // Release: pairs with the acquire in `has_reached`.
            state.fetch_max(value, Ordering::Release);
        }
    }

    /// Takes note of an answer of the driver's: after a loss nothing is known any more.
    pub(crate) fn heard(&self, answer: vk::Result) {
        if answer == vk::Result::ERROR_DEVICE_LOST {
            self.lost.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the object is known to have reached `value`.
    pub(crate) fn has_reached(&self, handle: u64, value: u64) -> bool {
        self.state(handle).is_some_and(|state| {
            // Acquire: pairs with the release in `reached`.
            let state = state.load(Ordering::Acquire);
            state != FOREIGN && state >= value && !self.lost.load(Ordering::Relaxed)
        })
    }
}

fn is_foreign(state: &AtomicU64) -> bool {
    state.load(Ordering::Relaxed) == FOREIGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_known_from_its_signal_to_its_reset() {
        let known = Known::new();
        known.created(0x70, 0, false);
        assert!(!known.has_reached(0x70, 1));
        known.reached(0x70, 1);
        assert!(known.has_reached(0x70, 1));
        known.forget(0x70);
        assert!(!known.has_reached(0x70, 1));
    }

    #[test]
    fn nothing_is_known_of_a_lost_device() {
        let known = Known::new();
        known.created(0x70, 1, false);
        known.heard(vk::Result::TIMEOUT);
        assert!(known.has_reached(0x70, 1));
        known.heard(vk::Result::ERROR_DEVICE_LOST);
        assert!(!known.has_reached(0x70, 1));
    }

    #[test]
    fn a_reused_handle_value_starts_anew() {
        let known = Known::new();
        known.created(0x70, 1, false);
        known.destroyed(0x70);
        assert!(!known.has_reached(0x70, 1));
        known.reached(0x70, 1);
        known.created(0x70, 0, false);
        assert!(!known.has_reached(0x70, 1));
    }

    #[test]
    fn what_others_can_change_is_never_known() {
        let known = Known::new();
        known.created(0x70, 1, true);
        known.reached(0x70, 1);
        assert!(!known.has_reached(0x70, 1));
        known.created(0x80, 1, false);
        known.give_away(0x80);
        known.reached(0x80, 1);
        known.forget(0x80);
        assert!(!known.has_reached(0x80, 1));
    }

    #[test]
    fn a_timeline_knows_all_values_up_to_the_highest_seen() {
        let known = Known::new();
        known.created(0x70, 5, false);
        known.reached(0x70, 9);
        known.reached(0x70, 7);
        assert!(known.has_reached(0x70, 9) && !known.has_reached(0x70, 10));
    }

    #[test]
    fn a_full_table_knows_less_and_finds_the_rest_wrong_in_nothing() {
        let known = Known::new();
        for handle in 2..20_000 {
            known.created(handle, 1, false);
        }
        let count = (2..20_000).filter(|h| known.has_reached(*h, 1)).count();
        assert!(count <= SLOTS && count > SLOTS / 2, "{count}");
        (2..20_000).for_each(|handle| known.destroyed(handle));
        assert!((2..20_000).all(|handle| !known.has_reached(handle, 1)));
    }
}
