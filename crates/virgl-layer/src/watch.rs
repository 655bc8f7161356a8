//! Which resources must be looked at before a transfer, told by one load.
//!
//! Nearly every transfer of nearly every program gains nothing: buffers, pictures in one piece, pictures that
//! were not used often enough yet. Such a transfer is passed on after one load (nothing watched there) or one
//! load and one store (the texels that must still pass before a mapping can pay are counted down). Only when
//! the count has run out, or when a ledger or a trace wants every transfer, the table is asked.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::real::Extent;

/// One for all resources whose numbers agree in the low bits.
struct Place {
    /// 0 if nothing is watched here, [`SHARED`] if several are; else the resource's number above, and below it
    /// the texels that pass without a look.
    state: AtomicU64,
    /// The texels at first.
    free: AtomicU32,
    /// Transfers passed on while counting.
    uses: AtomicU32,
}

// Relaxed throughout: a program attaches and transfers on its own terms, in order or one thread at a time, and a
// count that is off by a transfer changes when a mapping is made, not whether it is right.
static PLACES: [Place; COUNT] = [const {
    Place {
        state: AtomicU64::new(0),
        free: AtomicU32::new(0),
        uses: AtomicU32::new(0),
    }
}; COUNT];

/// Resources watched, so that a command stream need not be read when there are none.
static WATCHED: AtomicUsize = AtomicUsize::new(0);

/// Whether a transfer of `handle` must be looked at; counts its texels.
///
/// # Cost
///
/// One load where nothing is watched; a multiplication and two stores while counting. No lock.
#[inline]
pub(crate) fn must_look(handle: u32, extent: &Extent) -> bool {
    let place = place(handle);
    let state = place.state.load(Ordering::Relaxed);
    if state == 0 {
        return false;
    }
    let texels = u64::from(extent.w)
        .saturating_mul(u64::from(extent.h))
        .saturating_mul(u64::from(extent.d));
    let left = state & u64::from(u32::MAX);
    if state >> 32 != u64::from(handle) {
        // Several share the place, or only another is watched.
        return state == SHARED;
    }
    if texels >= left {
        return true;
    }
    place.state.store(state - texels, Ordering::Relaxed);
    let uses = place.uses.load(Ordering::Relaxed);
    place.uses.store(uses.wrapping_add(1), Ordering::Relaxed);
    false
}

/// Whether anything lies at the place of `handle`; `false` is certain.
#[inline(always)]
#[expect(clippy::inline_always, reason = "stands before every transfer")]
pub(crate) fn may_watch(handle: u32) -> bool {
    place(handle).state.load(Ordering::Relaxed) != 0
}

/// Whether any resource is watched.
#[inline]
pub(crate) fn any() -> bool {
    WATCHED.load(Ordering::Relaxed) != 0
}

/// Watches a resource; a look is due once `texels` texels have passed (0: from the first transfer on).
pub(crate) fn begin(handle: u32, texels: u32) {
    let place = place(handle);
    WATCHED.fetch_add(1, Ordering::Relaxed);
    let state = match place.state.load(Ordering::Relaxed) {
        0 => state(handle, texels),
        // Two resources: every transfer of both is looked at, until everything ends.
        _taken => SHARED,
    };
    place.uses.store(0, Ordering::Relaxed);
    place.free.store(texels, Ordering::Relaxed);
    place.state.store(state, Ordering::Relaxed);
}

/// From now on every transfer of the resource is looked at; returns the texels and transfers passed on.
pub(crate) fn look_always(handle: u32) -> (u64, u32) {
    let place = place(handle);
    let now = place.state.load(Ordering::Relaxed);
    if now >> 32 != u64::from(handle) {
        return (0, 0);
    }
    place.state.store(state(handle, 0), Ordering::Relaxed);
    let left = now & u64::from(u32::MAX);
    let free = u64::from(place.free.load(Ordering::Relaxed));
    (
        free.saturating_sub(left),
        place.uses.swap(0, Ordering::Relaxed),
    )
}

/// No transfer of the resource needs a look any more.
pub(crate) fn rest(handle: u32) {
    let place = place(handle);
    if place.state.load(Ordering::Relaxed) >> 32 == u64::from(handle) {
        place
            .state
            .store(state(handle, u32::MAX), Ordering::Relaxed);
    }
}

/// The resource is gone.
pub(crate) fn end(handle: u32) {
    let place = place(handle);
    if place.state.load(Ordering::Relaxed) >> 32 == u64::from(handle) {
        place.state.store(0, Ordering::Relaxed);
    }
    let less = |count: usize| count.checked_sub(1);
    // Nothing to count is no harm.
    let _none = WATCHED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// All resources are gone.
pub(crate) fn end_all() {
    for place in &PLACES {
        if place.state.load(Ordering::Relaxed) != 0 {
            place.state.store(0, Ordering::Relaxed);
        }
    }
    WATCHED.store(0, Ordering::Relaxed);
}

fn state(handle: u32, texels: u32) -> u64 {
    u64::from(handle) << 32 | u64::from(texels)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "stands before every transfer")]
fn place(handle: u32) -> &'static Place {
    // The remainder is below the length, so the compiler leaves the check out.
    let index = usize::try_from(handle).unwrap_or(0) % COUNT;
    PLACES.get(index).unwrap_or(&FIRST)
}

/// Never used: `place` stays inside.
static FIRST: Place = Place {
    state: AtomicU64::new(0),
    free: AtomicU32::new(0),
    uses: AtomicU32::new(0),
};

/// A power of two: guests number their resources upwards and reuse small numbers.
const COUNT: usize = 1 << 14;
const SHARED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    const fn picture(side: u32) -> Extent {
        Extent {
            x: 0,
            y: 0,
            z: 0,
            w: side,
            h: side,
            d: 1,
        }
    }

    #[test]
    fn a_look_is_due_when_the_texels_have_passed() {
        begin(7, 250);
        assert!(any() && may_watch(7));
        assert!(!must_look(7, &picture(10)));
        assert!(!must_look(7, &picture(10)));
        assert!(must_look(7, &picture(10)), "300 of 250");
        assert_eq!(look_always(7), (200, 2));
        assert!(must_look(7, &picture(0)));
        rest(7);
        assert!(!must_look(7, &picture(4096)));
        end(7);
        assert!(!may_watch(7) && !must_look(7, &picture(10)));
    }

    #[test]
    fn two_at_one_place_are_both_looked_at_and_a_third_number_is_not_mistaken() {
        let other = 9 + u32::try_from(COUNT).unwrap();
        begin(9, 1000);
        assert!(!must_look(other, &picture(4096)), "not watched");
        begin(other, 1000);
        assert!(must_look(9, &picture(1)) && must_look(other, &picture(1)));
        assert_eq!(look_always(9), (0, 0));
        end(9);
        assert!(must_look(other, &picture(1)), "still there");
        end(other);
    }

    #[test]
    fn hostile_boxes_do_not_wrap() {
        let huge = Extent {
            w: u32::MAX,
            h: u32::MAX,
            d: u32::MAX,
            ..picture(0)
        };
        begin(11, u32::MAX - 1);
        assert!(must_look(11, &huge));
        end(11);
    }
}
