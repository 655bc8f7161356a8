//! What the program has changed about the memory behind views.
//!
//! A view shows what lay at its pieces when it was made. A program that puts other memory there, or forbids
//! writing there, says so by a call that `remap` sees; it is noted here, and the next transfer that is looked at
//! hands out lists again where a view shows something else.
//!
//! The notes are made in any thread, in signal handlers, and inside the program's own allocator: two loads tell
//! nearly all calls that they concern nobody, and the rest store a few numbers without waiting.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use towpath_memory::Range;

/// All changes since the last look, as one range around them.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The pieces of all views lie between these two.
    lowest: AtomicUsize,
    highest: AtomicUsize,
    /// Who has set it may use `start` and `end`; who finds it set does not wait.
    is_taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Something was changed while `is_taken` was another's: it may lie anywhere.
    is_anywhere: AtomicBool,
    /// Changes noted so far.
    count: AtomicUsize,
}

/// Those of this process.
pub(crate) static CHANGES: Changes = Changes::new();

/// Any address.
const ANYWHERE: Range = Range {
    address: 0,
    len: usize::MAX,
};

impl Changes {
    const fn new() -> Self {
        Self {
            lowest: AtomicUsize::new(usize::MAX),
            highest: AtomicUsize::new(0),
            is_taken: AtomicBool::new(false),
            start: AtomicUsize::new(usize::MAX),
            end: AtomicUsize::new(0),
            is_anywhere: AtomicBool::new(false),
            count: AtomicUsize::new(0),
        }
    }

    /// A view of pieces in `around` is about to be made.
    pub(crate) fn expect(&self, around: Range) {
        // Relaxed: a program that changes memory and transfers it from two threads orders them itself.
        self.lowest.fetch_min(around.address, Ordering::Relaxed);
        self.highest.fetch_max(around.end(), Ordering::Relaxed);
    }

    /// There is no view any more.
    pub(crate) fn expect_none(&self) {
        self.lowest.store(usize::MAX, Ordering::Relaxed);
        self.highest.store(0, Ordering::Relaxed);
    }

    /// The program is about to change `range`.
    ///
    /// # Cost
    ///
    /// Two loads where no view has pieces near. Never a lock, an allocation or a system call.
    #[inline]
    pub(crate) fn note(&self, range: Range) {
        let is_below = range.end() <= self.lowest.load(Ordering::Relaxed);
        if !is_below && range.address < self.highest.load(Ordering::Relaxed) {
            self.note_near(range);
        }
    }

    #[cold]
    fn note_near(&self, range: Range) {
        let is_ours = self.alone(|| {
            self.start.fetch_min(range.address, Ordering::Relaxed);
            self.end.fetch_max(range.end(), Ordering::Relaxed);
        });
        if is_ours.is_none() {
            self.is_anywhere.store(true, Ordering::Relaxed);
        }
        // Release: who sees the count sees what was noted.
        self.count.fetch_add(1, Ordering::Release);
    }

    /// A range around all changes since `seen` changes had been noted; `None` if there were none.
    pub(crate) fn since(&self, seen: &mut usize) -> Option<Range> {
        // Acquire: pairs with the release in `note_near`.
        let count = self.count.load(Ordering::Acquire);
        if count == *seen {
            return None;
        }
        *seen = count;
        let noted = self.alone(|| {
            let start = self.start.swap(usize::MAX, Ordering::Relaxed);
            Range::between(start, self.end.swap(0, Ordering::Relaxed))
        });
        let is_anywhere = self.is_anywhere.swap(false, Ordering::Relaxed);
        Some(noted.filter(|_| !is_anywhere).unwrap_or(ANYWHERE))
    }

    fn alone<T>(&self, body: impl FnOnce() -> T) -> Option<T> {
        // Acquire and release: the next holder sees what this one has stored.
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        let answer = body();
        self.is_taken.store(false, Ordering::Release);
        Some(answer)
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(start: usize, end: usize) -> Range {
        Range::between(start, end)
    }

    #[test]
    fn only_changes_near_a_view_are_noted() {
        let (changes, mut seen) = (Changes::new(), 0);
        changes.note(range(0, usize::MAX));
        assert_eq!(changes.since(&mut seen), None, "no view");
        changes.expect(range(0x5000, 0x7000));
        changes.expect(range(0x3000, 0x4000));
        for (start, end) in [(0x1000, 0x3000), (0x7000, 0x9000), (0, 0x2fff)] {
            changes.note(range(start, end));
        }
        assert_eq!(changes.since(&mut seen), None);
        changes.note(range(0x2000, 0x3001));
        changes.note(range(0x6fff, 0x8000));
        assert_eq!(changes.since(&mut seen), Some(range(0x2000, 0x8000)));
        assert_eq!(changes.since(&mut seen), None, "told once");
        changes.expect_none();
        changes.note(range(0x2000, 0x3001));
        assert_eq!(changes.since(&mut seen), None);
    }

    /// In a signal handler, or beside another thread, the place is taken and nobody may wait.
    #[test]
    fn what_cannot_be_noted_may_lie_anywhere() {
        let (changes, mut seen) = (Changes::new(), 0);
        changes.expect(range(0x3000, 0x4000));
        changes.alone(|| changes.note(range(0x3000, 0x3001)));
        assert_eq!(changes.since(&mut seen), Some(ANYWHERE));
        changes.note(range(0x3000, 0x3001));
        changes.alone(|| assert_eq!(changes.since(&mut seen), Some(ANYWHERE)));
    }

    /// Whatever two threads note, each change lies in what is told after it.
    #[test]
    fn no_change_is_lost_between_threads() {
        let changes = Changes::new();
        changes.expect(range(0, usize::MAX));
        let (mut seen, mut told) = (0, Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let changes = &changes;
                scope.spawn(move || {
                    for at in (thread..4_000).step_by(2) {
                        changes.note(range(at << 12, (at + 1) << 12));
                    }
                });
            }
            while changes.count() < 4_000 {
                told.extend(changes.since(&mut seen));
            }
        });
        told.extend(changes.since(&mut seen));
        for at in 0..4_000 {
            let address = at << 12;
            let is_told = |told: &Range| told.address <= address && told.end() >= address + 4096;
            assert!(told.iter().any(is_told), "{at}");
        }
    }
}
