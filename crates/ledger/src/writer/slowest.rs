//! The slowest calls. A call enters if it is slower than the fastest one kept.
//!
//! Each place has a sequence number that is odd while the place is written. A writer that finds its
//! place taken gives up: losing one of the slowest calls to another of them is no loss.

use std::sync::atomic::Ordering;

use crate::layout::{Ledger, Slow};
use crate::{Call, SiteId};

/// Enters `call` if it belongs among the slowest.
#[cold]
pub(super) fn offer(ledger: &Ledger, site: SiteId, call: &Call) {
    let fastest = ledger
        .slowest
        .iter()
        .min_by_key(|slow| slow.wall_ns.load(Ordering::Relaxed));
    let Some(place) = fastest else {
        return;
    };
    if call.wall.0 <= place.wall_ns.load(Ordering::Relaxed) {
        return;
    }
    if write(place, site, call) {
        let above = ledger
            .slowest
            .iter()
            .map(|slow| slow.wall_ns.load(Ordering::Relaxed));
        // Two writers may each set a bound that misses the other's entry: the bound is then too low,
        // which costs a look, or too high by one entry, which costs one of the slowest calls.
        let above = above.min().unwrap_or(0);
        ledger.header.slowest_above.store(above, Ordering::Relaxed);
    }
}

/// Whether the place was free to be written.
fn write(place: &Slow, site: SiteId, call: &Call) -> bool {
    let before = place.sequence.load(Ordering::Relaxed);
    if before % 2 == 1 {
        return false;
    }
    let odd = before.wrapping_add(1);
    // Acquire: the stores below stay behind the claim.
    let claim = place
        .sequence
        .compare_exchange(before, odd, Ordering::Acquire, Ordering::Relaxed);
    if claim.is_err() {
        return false;
    }
    place.site.store(site.0, Ordering::Relaxed);
    place
        .outcome
        .store(call.outcome.number(), Ordering::Relaxed);
    place.start_ns.store(call.start.0, Ordering::Relaxed);
    place.wall_ns.store(call.wall.0, Ordering::Relaxed);
    place.bytes.store(call.bytes, Ordering::Relaxed);
    place.cold_bytes.store(call.cold_bytes, Ordering::Relaxed);
    place.faults.store(call.faults, Ordering::Relaxed);
    // Release: a reader that sees the even number sees the fields.
    place.sequence.store(odd.wrapping_add(1), Ordering::Release);
    true
}
