//! Which destinations were warm lately, so that a warm one costs next to nothing to ask about.
//!
//! A scan of a warm 1 MiB destination takes 6 microseconds, 7 % of its read. A destination that was
//! found warm is therefore only sampled the next times, and a small one not even that most times. What
//! is lost: a few reads after a warm destination has become cold.

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
/// Each slot is a tag of 48 bits and a count of 16, in one word, so that two threads never mix them.
pub(super) struct Warmth {
    slots: [AtomicU64; SLOTS],
}

impl Warmth {
    pub(super) const fn new() -> Self {
        Self {
            slots: [const { AtomicU64::new(0) }; SLOTS],
        }
    }

    /// How closely to look at `range`. Counts the question.
    pub(super) fn look(&self, range: Range) -> Look {
        let (slot, tag) = self.slot(range);
        let word = slot.load(Ordering::Relaxed);
        let count = word & COUNT_MASK;
        if word & !COUNT_MASK != tag || count == 0 {
            return Look::Closely;
        }
        // A count at the end of its bits starts over, with a close look.
        slot.store(tag | (count + 1) & COUNT_MASK, Ordering::Relaxed);
        let is_small = range.len <= SMALL_BYTES;
        match count {
            _ if count.is_multiple_of(CLOSE_EVERY) => Look::Closely,
            _ if is_small && count >= TRUST_AFTER && !count.is_multiple_of(SAMPLE_EVERY) => {
                Look::Not
            }
            _ => Look::Sample,
        }
    }

    /// Notes that `range` was found warm.
    pub(super) fn was_warm(&self, range: Range) {
        let (slot, tag) = self.slot(range);
        let word = slot.load(Ordering::Relaxed);
        if word & !COUNT_MASK != tag || word & COUNT_MASK == 0 {
            slot.store(tag | 1, Ordering::Relaxed);
        }
    }

    /// Notes that `range` was found cold.
    pub(super) fn was_cold(&self, range: Range) {
        let (slot, tag) = self.slot(range);
        if slot.load(Ordering::Relaxed) & !COUNT_MASK == tag {
            slot.store(0, Ordering::Relaxed);
        }
    }

    fn slot(&self, range: Range) -> (&AtomicU64, u64) {
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

/// Programs read into a handful of buffers; 256 words are 2 KiB.
const SLOTS: usize = 256;
const COUNT_MASK: u64 = 0xffff;
/// Up to 16 MiB a sample of 8 pages would be more than 1 % of a read from a fast link.
const SMALL_BYTES: usize = 16 << 20;
/// Warm questions before a small destination is trusted.
const TRUST_AFTER: u64 = 3;
/// A trusted small destination is sampled once in eight.
const SAMPLE_EVERY: u64 = 8;
/// Every 64th question looks at every page.
const CLOSE_EVERY: u64 = 64;

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
