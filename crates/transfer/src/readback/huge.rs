//! Whether memory comes in huge pages by itself, asked where it matters and not more often than it pays.
//!
//! The kernel gives no cheap way to see it: one page is brought in, and if its whole block came along,
//! it does. Where not, that block cannot be huge any more, half a millisecond lost. Programs take their
//! large buffers from one allocator, so after such an answer the next few reads are not asked about.

use std::sync::atomic::{AtomicU32, Ordering};

use towpath_memory::prefault::huge_block;
use towpath_memory::residency::{Residency, cold_bytes};
use towpath_memory::{Huge, Prefault, Range, page_size, prefault};

/// What the last answers of this process were.
static ASKED: Asked = Asked::new();

/// Whether pages of these pieces come huge without being asked for; false where it was not tried.
pub(super) fn comes(pieces: &[Range]) -> bool {
    if !ASKED.is_due() {
        return false;
    }
    let comes = first_block(pieces).is_some_and(brings_its_block);
    ASKED.answered(comes);
    comes
}

fn first_block(pieces: &[Range]) -> Option<Range> {
    let block = huge_block();
    let mut blocks = pieces.iter().map(|piece| piece.whole_blocks(block));
    let first = blocks.find(|blocks| !blocks.is_empty())?;
    Some(Range::between(first.address, first.address + block))
}

fn brings_its_block(block: Range) -> bool {
    let page = Range::between(block.address, block.address + page_size());
    let how = Prefault {
        huge: Huge::Never,
        ..Prefault::default()
    };
    prefault(page, &how).is_ok() && matches!(cold_bytes(block), Residency::Known { cold: 0, .. })
}

/// Counts down after an answer that cost something. Two threads that meet ask once more or less.
struct Asked {
    unasked_left: AtomicU32,
}

impl Asked {
    const fn new() -> Self {
        Self {
            unasked_left: AtomicU32::new(0),
        }
    }

    fn is_due(&self) -> bool {
        let left = self.unasked_left.load(Ordering::Relaxed);
        if left > 0 {
            self.unasked_left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    fn answered(&self, comes_huge: bool) {
        if !comes_huge {
            self.unasked_left.store(UNASKED, Ordering::Relaxed);
        }
    }
}

/// Three reads: a wrong guess costs each a few hundredths of its time.
const UNASKED: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_comes_small_is_asked_about_every_fourth_time_and_other_memory_always() {
        let asked = Asked::new();
        let turns: Vec<bool> = (0..9)
            .map(|_| {
                let is_due = asked.is_due();
                if is_due {
                    asked.answered(false);
                }
                is_due
            })
            .collect();
        assert_eq!(
            turns,
            [true, false, false, false, true, false, false, false, true]
        );
        let asked = Asked::new();
        for _ in 0..5 {
            assert!(asked.is_due());
            asked.answered(true);
        }
    }
}
