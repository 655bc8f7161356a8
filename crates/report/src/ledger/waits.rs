//! What a program's waits on sync objects cost: how many and of how many objects, how many could have
//! been left out, time asleep and late, eventfds.

use serde_json::{Value, json};
use towpath_ledger::{Buckets, Counter, Histogram};

use super::Observed;
use super::text::grouped;
use crate::numbers::with_unit;

/// Counters that these lines tell.
pub(super) const TOLD: [Counter; 8] = [
    Counter::WaitsEntered,
    Counter::WaitsPolled,
    Counter::WaitsRepeated,
    Counter::WaitsTimedOut,
    Counter::WaitNanosAsleep,
    Counter::WaitNanosLate,
    Counter::EventfdsMade,
    Counter::EventfdsRegistered,
];

/// The objects of a wait in a bucket: 1, 2, 3 to 4, 5 to 8.
fn objects_in(bucket: usize) -> (u64, u64) {
    let end = |bits: usize| {
        let bits = u32::try_from(bits).unwrap_or(u32::MAX);
        1_u64.checked_shl(bits).unwrap_or(u64::MAX)
    };
    match bucket.checked_sub(1) {
        Some(before) => (end(before).saturating_add(1), end(bucket)),
        None => (1, 1),
    }
}

struct Waits<'a> {
    observed: &'a Observed,
}

impl Waits<'_> {
    fn count(&self, counter: Counter) -> u64 {
        self.observed.counters.get(&counter).copied().unwrap_or(0)
    }

    fn objects(&self) -> Option<&Buckets> {
        let all = self.observed.histograms.get(&Histogram::WaitMoreObjects);
        all.filter(|buckets| buckets.total() > 0)
    }

    fn counts(&self) -> String {
        let parts = [
            (Counter::WaitsEntered, "entered the kernel"),
            (Counter::WaitsPolled, "only looked"),
            (Counter::WaitsRepeated, "for a point seen done before"),
            (Counter::WaitsTimedOut, "ran out of time"),
        ];
        let parts = parts.map(|(counter, text)| format!("{} {text}", grouped(self.count(counter))));
        format!("waits: {}", parts.join(", "))
    }

    fn objects_line(&self) -> Option<String> {
        let buckets = self.objects()?;
        let total = buckets.total();
        let percent = |part: u64| part as f64 * 100.0 / total as f64;
        let few: u64 = buckets.0.iter().take(3).sum();
        let parts = buckets
            .0
            .iter()
            .enumerate()
            .filter(|(_, waits)| **waits > 0);
        let parts = parts.map(|(bucket, waits)| {
            let name = match objects_in(bucket) {
                (from, to) if from == to => from.to_string(),
                (from, to) => format!("{from}-{to}"),
            };
            format!("{name}: {} ({:.0} %)", grouped(*waits), percent(*waits))
        });
        let parts: Vec<String> = parts.collect();
        Some(format!(
            "  objects per wait: {}; up to 4: {:.0} %",
            parts.join(", "),
            percent(few)
        ))
    }

    fn times_line(&self) -> Option<String> {
        let asleep = self.count(Counter::WaitNanosAsleep);
        let late = self.count(Counter::WaitNanosLate);
        let seconds = |ns: u64| with_unit(ns as f64 / 1e9, "s");
        let half = self.observed.histograms.get(&Histogram::WaitLateNanos);
        let half = half.and_then(|buckets| buckets.quantile_at_most(0.5));
        let late = half.map_or(String::new(), |half| {
            format!(
                "; late after deadlines by {} in all, half of them by at most {}",
                seconds(late),
                seconds(half)
            )
        });
        (asleep > 0).then(|| format!("  asleep {}{late}", seconds(asleep)))
    }

    /// Eventfds made for each frame that was presented.
    fn eventfds_per_frame(&self) -> Option<f64> {
        let frames = self.observed.frames_presented();
        (frames > 0).then(|| self.count(Counter::EventfdsMade) as f64 / frames as f64)
    }

    fn eventfds_line(&self) -> Option<String> {
        let made = self.count(Counter::EventfdsMade);
        let registered = self.count(Counter::EventfdsRegistered);
        let per_frame = self
            .eventfds_per_frame()
            .map_or(String::new(), |ratio| format!("; {ratio:.2} made a frame"));
        (made + registered > 0).then(|| {
            format!(
                "  eventfds: {} made, {} registered with sync objects{per_frame}",
                grouped(made),
                grouped(registered)
            )
        })
    }
}

/// The lines for people; none if nothing waited.
pub(super) fn lines(observed: &Observed) -> Vec<String> {
    let waits = Waits { observed };
    if !TOLD.iter().any(|counter| waits.count(*counter) > 0) {
        return Vec::new();
    }
    let more = [
        waits.objects_line(),
        waits.times_line(),
        waits.eventfds_line(),
    ];
    std::iter::once(waits.counts())
        .chain(more.into_iter().flatten())
        .collect()
}

/// The same for programs; `null` if nothing waited.
pub(super) fn json(observed: &Observed) -> Value {
    let waits = Waits { observed };
    if lines(observed).is_empty() {
        return Value::Null;
    }
    let count = |counter| waits.count(counter);
    let objects: Vec<Value> = waits
        .objects()
        .map(|buckets| buckets.0.iter().enumerate())
        .into_iter()
        .flatten()
        .filter(|(_, waits)| **waits > 0)
        .map(|(bucket, waits)| {
            let (from, to) = objects_in(bucket);
            json!({"objects_from": from, "objects_to": to, "waits": waits})
        })
        .collect();
    json!({
        "entered": count(Counter::WaitsEntered),
        "only_looked": count(Counter::WaitsPolled),
        "repeated": count(Counter::WaitsRepeated),
        "timed_out": count(Counter::WaitsTimedOut),
        "asleep_ns": count(Counter::WaitNanosAsleep),
        "late_ns": count(Counter::WaitNanosLate),
        "objects_per_wait": objects,
        "eventfds_made": count(Counter::EventfdsMade),
        "eventfds_registered": count(Counter::EventfdsRegistered),
        "eventfds_made_per_frame": waits.eventfds_per_frame(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Observed {
        let mut observed = Observed::default();
        for (counter, total) in [
            (Counter::WaitsEntered, 1234),
            (Counter::WaitsPolled, 12),
            (Counter::WaitsRepeated, 9),
            (Counter::WaitNanosAsleep, 5_100_000),
            (Counter::EventfdsMade, 40),
            (Counter::EventfdsRegistered, 20),
            (Counter::Frames, 20),
        ] {
            observed.counters.insert(counter, total);
        }
        let objects = Buckets(vec![1200, 0, 4, 30]);
        observed
            .histograms
            .insert(Histogram::WaitMoreObjects, objects);
        observed
    }

    #[test]
    fn waits_are_told_in_lines() {
        assert_eq!(
            lines(&observed()),
            [
                "waits: 1,234 entered the kernel, 12 only looked, 9 for a point seen done before, \
                 0 ran out of time",
                "  objects per wait: 1: 1,200 (97 %), 3-4: 4 (0 %), 5-8: 30 (2 %); up to 4: 98 %",
                "  asleep 5.100 ms",
                "  eventfds: 40 made, 20 registered with sync objects; 2.00 made a frame",
            ]
        );
        assert!(lines(&Observed::default()).is_empty());
    }

    #[test]
    fn waits_are_told_in_json() {
        let json = json(&observed());
        assert_eq!(json["eventfds_made_per_frame"], 2.0);
        assert_eq!(
            json["objects_per_wait"][1],
            json!({"objects_from": 3, "objects_to": 4, "waits": 4})
        );
        assert_eq!(super::json(&Observed::default()), Value::Null);
    }

    #[test]
    fn the_ends_of_buckets_do_not_overflow() {
        assert_eq!(objects_in(0), (1, 1));
        assert_eq!(objects_in(2), (3, 4));
        assert_eq!(objects_in(64), ((1 << 63) + 1, u64::MAX));
        assert_eq!(objects_in(usize::MAX).1, u64::MAX);
    }
}
