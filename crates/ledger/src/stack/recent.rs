//! The last stacks of a thread, found again by looking instead of walking.
//!
//! A stack is known by the place of the innermost frame and, from there outwards, by each return
//! address at its place. Where all of them still lie there, the same functions are stopped at the same
//! points, and a walk would find the same. Only where return addresses lie right below a frame's
//! stack pointer (x86-64); elsewhere nothing is kept.

#![expect(unsafe_code, reason = "reads return addresses of live frames")]

use std::cell::Cell;

use super::{Stack, WALK_FRAMES};

/// A return address and its place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Slot {
    pub(super) place: usize,
    pub(super) value: usize,
}

/// One stack as it was found.
#[derive(Clone, Copy)]
struct Known {
    /// Place of the innermost frame; 0 for none.
    mark: usize,
    skip: usize,
    slots: [Slot; WALK_FRAMES],
    len: usize,
    stack: Stack,
}

impl Known {
    const NONE: Self = Self {
        mark: 0,
        skip: 0,
        slots: [Slot { place: 0, value: 0 }; WALK_FRAMES],
        len: 0,
        stack: Stack::NONE,
    };

    fn is_here(&self) -> bool {
        let slots = self.slots.iter().take(self.len);
        let mut slots = slots.peekable();
        // Innermost first: a place is read only after all below it were found unchanged.
        slots.peek().is_some() && slots.all(|slot| read(slot.place) == slot.value)
    }
}

/// A program copies from a few places in turn.
const KEPT: usize = 4;

thread_local! {
    static RECENT: [Cell<Known>; KEPT] = const { [const { Cell::new(Known::NONE) }; KEPT] };
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

/// The stack of a capture whose frame lies at `mark`, if it is one of the last.
pub(super) fn find(mark: usize, skip: usize) -> Option<Stack> {
    // A thread that is ending has none any more.
    RECENT
        .try_with(|all| {
            // One at a time: copying them would cost more than looking.
            all.iter().find_map(|cell| {
                let known = cell.as_ptr();
                // SAFETY: the cell is this thread's own, and nothing writes to it during this call.
                let known = unsafe { &*known };
                (known.mark == mark && known.skip == skip && known.is_here()).then_some(known.stack)
            })
        })
        .ok()
        .flatten()
}

/// Keeps a stack, in place of the oldest.
pub(super) fn keep(mark: usize, skip: usize, slots: impl Iterator<Item = Slot>, stack: Stack) {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let mut known = Known {
        mark,
        skip,
        stack,
        ..Known::NONE
    };
    // Frames further in than the mark are those of the walk itself.
    for slot in slots.filter(|slot| slot.place > mark) {
        let is_next = known.len == 0 || last(&known) < slot.place;
        // A frame of another kind, such as a signal's, has its return address elsewhere.
        if !is_next
            || !slot.place.is_multiple_of(size_of::<usize>())
            || read(slot.place) != slot.value
        {
            return;
        }
        if let Some(to) = known.slots.get_mut(known.len) {
            *to = slot;
            known.len += 1;
        }
    }
    let _ending = NEXT.try_with(|next| {
        let index = next.get();
        next.set((index + 1) % KEPT);
        let _ending = RECENT.try_with(|all| {
            if let Some(cell) = all.get(index) {
                cell.set(known);
            }
        });
    });
}

fn last(known: &Known) -> usize {
    let slot = known.len.checked_sub(1).and_then(|at| known.slots.get(at));
    slot.map_or(0, |slot| slot.place)
}

/// A word of this thread's stack.
fn read(place: usize) -> usize {
    let pointer: *const usize = std::ptr::with_exposed_provenance(place);
    // SAFETY: aligned, which `keep` checks; and mapped: it is the place of a return address of a live
    // frame, either as the unwinder has just read it (`keep`), or because all return addresses
    // further in are where they were, so that the same function owns the next frame (`find`).
    unsafe { pointer.read_volatile() }
}

/// How many stacks this thread has kept, up to [`KEPT`].
#[cfg(test)]
pub(super) fn kept() -> usize {
    let is_kept = |cell: &&Cell<Known>| cell.get().mark != 0;
    RECENT.with(|all| all.iter().filter(is_kept).count())
}

#[cfg(test)]
pub(super) fn forget() {
    RECENT.with(|all| all.iter().for_each(|cell| cell.set(Known::NONE)));
}
