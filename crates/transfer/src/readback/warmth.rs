//! Which destinations were warm lately, so that a warm one costs next to nothing to ask about.
//!
//! A scan of a warm 1 MiB destination takes 6 microseconds, 7 % of its read. A destination that was
//! found warm is therefore only sampled the next times, and a small one mostly not even that: the time of
//! its reads tells. Cold, a read takes five times as long as warm (`bench/record/vm-2core`); after one that
//! took more than twice its usual time, while the process took page faults enough for it, the destination
//! is looked at again every time for a while. What is lost: a read or a few after a warm destination has
//! become cold.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use towpath_memory::{Range, fork};

/// How closely to look at a destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Look {
    /// At every page.
    Closely,
    /// At a few pages.
    Sample,
    /// Not at all: taken for warm.
    Not,
}

/// A table of destinations, found by hash, overwritten freely. No lock, no allocation.
///
/// Two threads that meet in a slot cost a look too many or a read too late, so nothing is ordered.
pub(super) struct Warmth {
    slots: [Slot; SLOTS],
    /// Page faults of the process when a read was last slow.
    faults: AtomicU64,
}

/// Both words begin with the tag of their destination, so that threads never mix two of them.
struct Slot {
    /// A tag of 48 bits and the questions asked since it was found warm, in 16.
    count: AtomicU64,
    /// A tag of 16 bits and what a read of it takes, in nanoseconds; 0 where that is not known.
    usual: AtomicU64,
}

impl Warmth {
    pub(super) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    count: AtomicU64::new(0),
                    usual: AtomicU64::new(0),
                }
            }; SLOTS],
            faults: AtomicU64::new(0),
        }
    }

    /// How closely to look at `range`. Counts the question.
    pub(super) fn look(&self, range: Range) -> Look {
        let (slot, tag) = self.slot(range);
        let Some(count) = slot.count(tag) else {
            return Look::Closely;
        };
        if count & WARY != 0 {
            let next = if count == WARY | WARY_FOR {
                TRUST_AFTER
            } else {
                count + 1
            };
            slot.count.store(tag | next, Ordering::Relaxed);
            let is_first = count == WARY;
            return if is_first {
                Look::Closely
            } else {
                Look::Sample
            };
        }
        // A count at the end of its bits starts over, with a close look.
        let next = (count + 1) & !WARY;
        slot.count.store(tag | next, Ordering::Relaxed);
        if count.is_multiple_of(CLOSE_EVERY) {
            return Look::Closely;
        }
        let every = match slot.usual(tag) {
            Some(_ns) => SAMPLE_EVERY_TIMED,
            None => SAMPLE_EVERY,
        };
        let is_trusted = range.len <= SMALL_BYTES && count >= TRUST_AFTER;
        if is_trusted && !count.is_multiple_of(every) {
            Look::Not
        } else {
            Look::Sample
        }
    }

    /// Notes that `range` was found warm.
    pub(super) fn was_warm(&self, range: Range) {
        let (slot, tag) = self.slot(range);
        if slot.count(tag).is_none() {
            slot.count.store(tag | 1, Ordering::Relaxed);
            slot.usual.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that `range` was found cold.
    pub(super) fn was_cold(&self, range: Range) {
        let (slot, tag) = self.slot(range);
        if slot.count(tag).is_some() {
            slot.count.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that a read into `range`, which was taken for warm, took `ns`. One that took far longer than
    /// usual may have met cold pages: if the process took as many faults as they would have cost
    /// (`faults`, asked then only), every read of the destination is looked at from then on, until
    /// [`WARY_FOR`] of them have found it warm.
    pub(super) fn took(&self, range: Range, ns: u64, faults: impl FnOnce() -> u64) {
        let (slot, tag) = self.slot(range);
        if slot.count(tag).is_none() {
            return;
        }
        let ns = ns.min(USUAL_MASK);
        let usual = match slot.usual(tag) {
            Some(usual) if ns > usual.saturating_mul(2).saturating_add(SLOW_NS) => {
                let faults = faults();
                let before = self.faults.swap(faults, Ordering::Relaxed);
                if faults.saturating_sub(before) >= enough_faults(range) {
                    slot.count.store(tag | WARY, Ordering::Relaxed);
                }
                usual + usual / 64
            }
            // Follows what the machine and the device do, upwards slowly.
            Some(usual) if ns < usual => usual - (usual - ns) / 4,
            Some(usual) => usual + usual / 64,
            None => ns,
        };
        let usual = tag & !USUAL_MASK | usual.clamp(1, USUAL_MASK);
        slot.usual.store(usual, Ordering::Relaxed);
    }

    fn slot(&self, range: Range) -> (&Slot, u64) {
        let mut hasher = Mix.build_hasher();
        hasher.write_usize(range.address);
        hasher.write_usize(range.len);
        // What was warm before a fork is shared after it.
        hasher.write_u32(fork::generation());
        let hash = hasher.finish();
        let index = usize::try_from(hash % SLOTS as u64).unwrap_or(0);
        // `index < SLOTS`, so the first slot is never the fallback in fact.
        let slot = self.slots.get(index).unwrap_or(&self.slots[0]);
        (slot, hash & !COUNT_MASK)
    }
}

impl Slot {
    /// The questions asked, if the slot is that destination's and it was found warm.
    fn count(&self, tag: u64) -> Option<u64> {
        let word = self.count.load(Ordering::Relaxed);
        let count = word & COUNT_MASK;
        (word & !COUNT_MASK == tag && count != 0).then_some(count)
    }

    /// The usual time of a read, if one is known.
    fn usual(&self, tag: u64) -> Option<u64> {
        let word = self.usual.load(Ordering::Relaxed);
        let ns = word & USUAL_MASK;
        (word & !USUAL_MASK == tag & !USUAL_MASK && ns != 0).then_some(ns)
    }
}

/// A fixed mixing function (that of splitmix64): the standard one is seeded and slower.
#[derive(Clone, Copy)]
struct Mix;

impl BuildHasher for Mix {
    type Hasher = MixHasher;

    fn build_hasher(&self) -> MixHasher {
        MixHasher(0x9e37_79b9_7f4a_7c15)
    }
}

struct MixHasher(u64);

impl Hasher for MixHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        let mut z = (self.0 ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = z ^ (z >> 31);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Half a fault for each page of 4 KiB: what a cold read takes at least. Huge pages take few, and then a
/// cold read is not the slow one that has to be found.
const fn enough_faults(range: Range) -> u64 {
    (range.len / 4096 / 2) as u64
}

/// Programs read into a handful of buffers; 256 slots are 4 KiB.
const SLOTS: usize = 256;
const COUNT_MASK: u64 = 0xffff;
const USUAL_MASK: u64 = (1 << 48) - 1;
/// Up to 16 MiB a sample of 8 pages would be more than 1 % of a read from a fast link.
const SMALL_BYTES: usize = 16 << 20;
/// A bit of the count: the destination is looked at every time, the first time closely.
const WARY: u64 = 0x8000;
/// Warm questions before it is trusted again.
const WARY_FOR: u64 = 64;
/// Warm questions before a small destination is trusted the first time.
const TRUST_AFTER: u64 = 3;
/// A trusted small destination of whose reads no times are known is sampled once in eight.
const SAMPLE_EVERY: u64 = 8;
/// One whose reads are timed, once in 32.
const SAMPLE_EVERY_TIMED: u64 = 32;
/// Every 64th question looks at every page.
const CLOSE_EVERY: u64 = 64;
/// 20 microseconds: what a wake-up may take longer, and half of what the smallest cold read does.
const SLOW_NS: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_or_cold_destination_is_looked_at_closely_and_a_warm_one_seldom() {
        let warmth = Warmth::new();
        let range = Range::new(0x1000, 1 << 20).unwrap();
        assert_eq!(warmth.look(range), Look::Closely);
        assert_eq!(warmth.look(range), Look::Closely);
        warmth.was_warm(range);
        let looks: Vec<Look> = (0..64).map(|_| warmth.look(range)).collect();
        assert_eq!(
            &looks[..4],
            [Look::Sample, Look::Sample, Look::Not, Look::Not]
        );
        assert_eq!(looks.iter().filter(|look| **look == Look::Not).count(), 54);
        assert_eq!(looks[63], Look::Closely);
        warmth.was_cold(range);
        assert_eq!(warmth.look(range), Look::Closely);
    }

    #[test]
    fn one_whose_reads_are_timed_is_looked_at_less_and_after_a_slow_read_every_time() {
        let warmth = Warmth::new();
        let range = Range::new(0x1000, 1 << 20).unwrap();
        let read = |ns| {
            let look = warmth.look(range);
            if look != Look::Not {
                warmth.was_warm(range);
            }
            let faults = if ns > 500_000 { 256 } else { 0 };
            warmth.took(range, ns, || faults);
            look
        };
        let looks: Vec<Look> = (0..65)
            .map(|turn| read(100_000 + turn % 7 * 5_000))
            .collect();
        let count = |looks: &[Look], wanted| looks.iter().filter(|look| **look == wanted).count();
        assert_eq!(
            (count(&looks, Look::Closely), count(&looks, Look::Sample)),
            (2, 3)
        );
        // Six times as long: cold pages, perhaps.
        assert_ne!(read(600_000), Look::Closely);
        assert_eq!(read(100_000), Look::Closely);
        let looks: Vec<Look> = (0..64).map(|_| read(100_000)).collect();
        assert_eq!(count(&looks, Look::Not), 0);
        let looks: Vec<Look> = (0..20).map(|_| read(100_000)).collect();
        assert_eq!(count(&looks, Look::Not), 20);
    }

    #[test]
    fn a_slow_read_without_faults_is_no_alarm_nor_are_times_of_another_destination() {
        let warmth = Warmth::new();
        let range = Range::new(0x1000, 1 << 20).unwrap();
        warmth.took(range, 1, || 1000);
        warmth.was_warm(range);
        let mut looks = 0;
        for turn in 0..1000 {
            looks += usize::from(warmth.look(range) != Look::Not);
            // Behind work of the device every fourth time, while little else faults.
            let ns = if turn % 4 == 0 { 2_000_000 } else { 100_000 };
            warmth.took(range, ns, || 100_000 + turn * 20);
        }
        // The process had faulted before its first slow read, which is then taken for a cold one.
        assert!(looks <= 3 + 64 + 1000 / 32 + 1, "{looks}");
    }

    #[test]
    fn a_large_destination_is_always_looked_at() {
        let warmth = Warmth::new();
        let range = Range::new(0x1000, 100 << 20).unwrap();
        warmth.was_warm(range);
        assert!((0..100_000).all(|_| warmth.look(range) != Look::Not));
    }

    #[test]
    fn another_length_is_another_destination() {
        let warmth = Warmth::new();
        warmth.was_warm(Range::new(0x1000, 1 << 20).unwrap());
        assert_eq!(
            warmth.look(Range::new(0x1000, 2 << 20).unwrap()),
            Look::Closely
        );
    }
}
