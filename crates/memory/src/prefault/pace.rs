//! Huge or small pages next, from what the last steps cost.
//!
//! A huge page is far cheaper than the small pages in its place, unless the machine has to get it from
//! its host first: then it costs several times as much, while small pages are still at hand. Which of the
//! two holds changes within a call and between calls. So this keeps an account: each huge step is
//! charged what it took over small pages, or credited what it saved. In debt, small pages are used for
//! some MiB, then one huge page is tried again; each further failure doubles that stretch.
//!
//! What it loses against small pages alone is bounded by the credit, the debt, and one huge page per
//! stretch. One account serves the whole process and is never locked: threads that meet at its edge
//! try at most one huge page each.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The account of this process.
pub(super) static PACE: Pace = Pace::new();

/// What to bring in next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// One huge page.
    Huge,
    /// This many bytes in small pages.
    Small(usize),
}

/// The account. All of it is advice: a lost update costs a huge page at most, so nothing is ordered.
#[derive(Debug)]
pub(super) struct Pace {
    /// What huge pages have cost over small ones, in nanoseconds; below zero what they have saved.
    debt_ns: AtomicI64,
    /// Bytes still to be brought in by small pages before a huge one is tried again.
    small_left: AtomicUsize,
    /// Length of the next such stretch, in bytes.
    stretch: AtomicUsize,
    /// What small pages take, in nanoseconds per MiB.
    small_ns: AtomicU64,
}

impl Pace {
    /// An account that has seen nothing and trusts huge pages.
    pub(super) const fn new() -> Self {
        Self {
            debt_ns: AtomicI64::new(0),
            small_left: AtomicUsize::new(0),
            stretch: AtomicUsize::new(STRETCH_MIN),
            small_ns: AtomicU64::new(SMALL_NS_PER_MIB),
        }
    }

    /// The next step of a range of whole huge pages that has `left` bytes.
    pub(super) fn next(&self, left: usize, block: usize) -> Step {
        let small = self.small_left.load(Ordering::Relaxed);
        if small == 0 {
            return Step::Huge;
        }
        // Whole blocks, so that what is left can still be huge.
        let step = small.max(block).min(left);
        let step = (step - step % block.max(1)).max(block).min(left);
        let less = small.saturating_sub(step);
        let _raced =
            self.small_left
                .compare_exchange(small, less, Ordering::Relaxed, Ordering::Relaxed);
        Step::Small(step)
    }

    /// How many huge pages to ask for in one call: one where they may be slow, many with full credit.
    pub(super) fn blocks_at_once(&self) -> usize {
        if self.debt_ns.load(Ordering::Relaxed) <= -TRUST_NS {
            BLOCKS_AT_ONCE
        } else {
            1
        }
    }

    /// A step of one huge page of `block` bytes took this long.
    pub(super) fn huge_took(&self, block: usize, took: Duration) {
        let small = self.small(block);
        let more = signed(took).saturating_sub(small);
        let debt = self
            .debt_ns
            .fetch_add(more, Ordering::Relaxed)
            .saturating_add(more);
        if debt > DEBT_MAX_NS {
            let stretch = self.stretch.load(Ordering::Relaxed);
            self.stretch.store(
                stretch.saturating_mul(2).min(STRETCH_MAX),
                Ordering::Relaxed,
            );
            // The huge page at the end of the stretch has to be a fast one, or the next begins.
            self.debt_ns.store(DEBT_MAX_NS, Ordering::Relaxed);
            self.small_left.store(stretch, Ordering::Relaxed);
        } else if debt <= 0 {
            self.stretch.store(STRETCH_MIN, Ordering::Relaxed);
            if debt < -CREDIT_MAX_NS {
                self.debt_ns.store(-CREDIT_MAX_NS, Ordering::Relaxed);
            }
        }
    }

    /// A step of `bytes` in small pages, most of them absent before, took this long.
    pub(super) fn small_took(&self, bytes: usize, took: Duration) {
        let found = took.as_nanos().saturating_mul(1 << 20) / (bytes.max(1) as u128);
        let found = u64::try_from(found).unwrap_or(u64::MAX).min(SMALL_NS_MAX);
        let before = self.small_ns.load(Ordering::Relaxed);
        self.small_ns
            .store((before * 3 + found) / 4, Ordering::Relaxed);
    }

    /// What `bytes` would take in small pages, in nanoseconds.
    fn small(&self, bytes: usize) -> i64 {
        let per_mib = self.small_ns.load(Ordering::Relaxed);
        let ns = u128::from(per_mib) * (bytes as u128) / (1 << 20);
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

fn signed(span: Duration) -> i64 {
    i64::try_from(span.as_nanos())
        .unwrap_or(i64::MAX)
        .min(STEP_NS_MAX)
}

/// 1.4 microseconds for each 4 KiB, until it is known (`bench/record/vm-2core`: 0.9 to 1.5).
const SMALL_NS_PER_MIB: u64 = 350_000;
/// A tenth of a second: what counts of one step at most, so that sums cannot overflow.
const STEP_NS_MAX: i64 = 100_000_000;
/// The same for small pages, per MiB.
const SMALL_NS_MAX: u64 = 100_000_000;
/// One huge page that the host had to give costs 5 ms of processor time where small ones take 0.7.
const DEBT_MAX_NS: i64 = 3_000_000;
/// What a long fast time is worth: one slow page.
const CREDIT_MAX_NS: i64 = 2_000_000;
/// Credit with which several are asked for in one call: some three fast pages.
const TRUST_NS: i64 = 1_500_000;
/// A chunk's, where pages have 2 MiB.
const BLOCKS_AT_ONCE: usize = 8;
/// First stretch of small pages, 32 MiB: one slow huge page then costs a third of it at most.
const STRETCH_MIN: usize = 32 << 20;
/// Longest stretch, 128 MiB: a tenth of it. Where pages are fast again, what a stretch loses is three
/// times as much as the page that would have shown it, so a longer one is no thrift.
const STRETCH_MAX: usize = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 2 << 20;
    const FAST: Duration = Duration::from_micros(180);
    const SLOW: Duration = Duration::from_millis(5);
    const SMALL: Duration = Duration::from_micros(750);

    /// Brings in `bytes` by whole blocks; gives the time that it took and the huge pages tried.
    fn bring_in(
        pace: &Pace,
        bytes: usize,
        huge: &mut dyn FnMut() -> Duration,
    ) -> (Duration, usize) {
        let (mut left, mut took, mut tried) = (bytes, Duration::ZERO, 0);
        while left > 0 {
            match pace.next(left, BLOCK) {
                Step::Huge => {
                    let one = huge();
                    pace.huge_took(BLOCK, one);
                    took += one;
                    tried += 1;
                    left -= BLOCK;
                }
                Step::Small(step) => {
                    assert!(step > 0 && step <= left && step % BLOCK == 0, "{step}");
                    let blocks = u32::try_from(step / BLOCK).unwrap();
                    pace.small_took(step, SMALL * blocks);
                    took += SMALL * blocks;
                    left -= step;
                }
            }
        }
        (took, tried)
    }

    fn small_alone(bytes: usize) -> Duration {
        SMALL * u32::try_from(bytes / BLOCK).unwrap()
    }

    #[test]
    fn fast_huge_pages_are_used_throughout() {
        let (_, tried) = bring_in(&Pace::new(), 1 << 30, &mut || FAST);
        assert_eq!(tried, 512);
    }

    #[test]
    fn slow_ones_are_given_up_after_one_and_seldom_tried_again() {
        let pace = Pace::new();
        let picture = 154 << 20;
        let (took, tried) = bring_in(&pace, picture, &mut || SLOW);
        assert!(tried <= 3, "{tried} in the first read");
        assert!(took < small_alone(picture).mul_f64(1.25), "{took:?}");
        let mut later = 0;
        for _read in 0..10 {
            later += bring_in(&pace, picture, &mut || SLOW).1;
        }
        assert!(later <= 14, "{later} in ten further reads");
    }

    #[test]
    fn pages_that_become_fast_again_are_found_in_time() {
        let pace = Pace::new();
        bring_in(&pace, 4 << 30, &mut || SLOW);
        let (_, tried) = bring_in(&pace, 1 << 30, &mut || FAST);
        assert!(tried >= 512 * 3 / 4, "{tried}");
        // And are trusted as at the start.
        let (_, tried) = bring_in(&pace, 1 << 30, &mut || FAST);
        assert_eq!(tried, 512);
    }

    /// Reads of 16 MiB went on in small pages for twelve rounds of a bench after a few slow pages.
    #[test]
    fn small_reads_after_a_slow_time_find_the_fast_pages_within_eight() {
        let pace = Pace::new();
        bring_in(&pace, 4 << 30, &mut || SLOW);
        let tried: usize = (0..9)
            .map(|_| bring_in(&pace, 16 << 20, &mut || FAST).1)
            .sum();
        assert!(tried > 0, "{tried}");
    }

    #[test]
    fn one_slow_page_among_fast_ones_changes_nothing() {
        let pace = Pace::new();
        let mut number = 0;
        let (_, tried) = bring_in(&pace, 1 << 30, &mut || {
            number += 1;
            if number % 40 == 0 { SLOW } else { FAST }
        });
        assert_eq!(tried, 512);
    }

    #[test]
    fn a_mixture_costs_little_more_than_small_pages() {
        for every in [2, 3, 5, 8] {
            let pace = Pace::new();
            let mut number = 0;
            let (took, _) = bring_in(&pace, 1 << 30, &mut || {
                number += 1;
                if number % every == 0 { SLOW } else { FAST }
            });
            let small = small_alone(1 << 30);
            assert!(took < small.mul_f64(1.15), "one in {every}: {took:?}");
        }
    }

    #[test]
    fn a_machine_on_which_everything_is_slow_keeps_its_huge_pages() {
        // Small pages at 12 ms per block: a huge page of 5 ms is the better one.
        let pace = Pace::new();
        for _step in 0..20 {
            pace.small_took(BLOCK, Duration::from_millis(12));
        }
        let (_, tried) = bring_in(&pace, 1 << 30, &mut || SLOW);
        assert_eq!(tried, 512);
    }

    #[test]
    fn nonsense_from_a_clock_does_not_overflow() {
        let pace = Pace::new();
        for _step in 0..1000 {
            pace.small_took(0, Duration::MAX);
            pace.small_took(usize::MAX, Duration::ZERO);
            pace.huge_took(BLOCK, Duration::MAX);
            pace.huge_took(usize::MAX, Duration::ZERO);
            pace.next(0, 0);
            pace.next(usize::MAX, BLOCK);
        }
    }
}
