//! What of a wait a reader cannot make out of its site's counts.

use super::{add as plus, count, sort_in};
use crate::layout::{self, BUCKETS, Ledger, SITE_BUCKETS};
use crate::{Call, Counter, Histogram, Outcome};

/// Adds a wait to the totals. From a site of waits (`is_derived`) a reader puts it into the total of
/// waits, the wait times and the waits for one object by itself: it is taken out of the bucket where
/// that would be wrong.
#[cold]
pub(super) fn add(ledger: &Ledger, call: &Call, objects: u64, is_derived: bool) {
    let more = objects.saturating_sub(1);
    let wall = call.wall.0;
    if !is_derived {
        if call.outcome != Outcome::WaitSkipped {
            count(ledger, Counter::WaitsEntered, 1);
        }
        sort_in(ledger, Histogram::WaitNanos, wall);
        sort_in(ledger, Histogram::WaitMoreObjects, more);
        return;
    }
    if more > 0 {
        sort_in(ledger, Histogram::WaitMoreObjects, more);
        take(ledger, Histogram::WaitMoreObjects, 0);
    }
    let (derived, right) = (
        layout::bucket(wall, SITE_BUCKETS),
        layout::bucket(wall, BUCKETS),
    );
    if derived != right {
        sort_in(ledger, Histogram::WaitNanos, wall);
        take(ledger, Histogram::WaitNanos, derived);
    }
}

fn take(ledger: &Ledger, histogram: Histogram, bucket: usize) {
    let buckets = ledger.histograms.get(usize::from(histogram.number()));
    if let Some(bucket) = buckets.and_then(|all| all.get(bucket)) {
        // Wraps below zero: the reader's addition brings it back.
        plus(bucket, u64::MAX);
    }
}
