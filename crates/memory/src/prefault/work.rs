//! The chunks of one prefault, handed out to its threads.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use towpath_sys::madvise::Advice;

use super::Prefaulted;
use super::cut::Chunk;
use super::machine::Machine;
use super::pace::{Pace, Step};
use crate::{Error, Range, Result, page_size};

/// Chunks, and what has become of them.
pub(super) struct Work<'a, M> {
    machine: &'a M,
    pace: &'a Pace,
    chunks: &'a [Chunk],
    next: AtomicUsize,
    done_bytes: AtomicUsize,
    huge_bytes: AtomicUsize,
    faults: AtomicU64,
    fell_back: AtomicBool,
    has_failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    started: Duration,
    limit: Duration,
    block: usize,
}

impl<'a, M: Machine> Work<'a, M> {
    pub(super) fn new(
        machine: &'a M,
        pace: &'a Pace,
        chunks: &'a [Chunk],
        limit: Duration,
        block: usize,
    ) -> Self {
        Self {
            machine,
            pace,
            chunks,
            next: AtomicUsize::new(0),
            done_bytes: AtomicUsize::new(0),
            huge_bytes: AtomicUsize::new(0),
            faults: AtomicU64::new(0),
            fell_back: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            started: machine.now(),
            limit,
            block,
        }
    }

    /// Takes chunks until none is left, one has failed, or time is up.
    pub(super) fn run(&self) {
        let faults = self.machine.faults();
        while self.may_go_on() {
            let Some(chunk) = self.chunks.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let outcome = if chunk.is_huge {
                self.bring_in_blocks(chunk.range)
            } else {
                self.bring_in(chunk.range)
            };
            if let Err((range, source)) = outcome {
                self.fail(range, source);
            }
        }
        let faults = self.machine.faults().saturating_sub(faults);
        self.faults.fetch_add(faults, Ordering::Relaxed);
    }

    fn may_go_on(&self) -> bool {
        let spent = self.machine.now().saturating_sub(self.started);
        !self.has_failed.load(Ordering::Relaxed) && spent < self.limit
    }

    fn bring_in(&self, range: Range) -> Outcome {
        self.machine
            .advise(range, Advice::PopulateWrite)
            .map_err(|source| (range, source))?;
        self.done_bytes.fetch_add(range.len, Ordering::Relaxed);
        Ok(())
    }

    /// Whole huge pages, one by one or in small pages, as the pace says.
    fn bring_in_blocks(&self, range: Range) -> Outcome {
        let (mut at, mut advised_to) = (range.address, range.address);
        while at < range.end() && self.may_go_on() {
            let step = self.pace.next(range.end() - at, self.block);
            match step {
                // What has been asked for in huge pages comes in huge pages.
                Step::Small(bytes) if at >= advised_to => {
                    self.small(Range::between(at, at + bytes))?;
                    at += bytes;
                }
                Step::Small(_) | Step::Huge => {
                    if at >= advised_to {
                        advised_to = self.ask_for_huge(at, range.end());
                    }
                    self.huge(Range::between(at, at + self.block), at < advised_to)?;
                    at += self.block;
                }
            }
        }
        Ok(())
    }

    /// Asks for huge pages from `at` on, for as many as the pace allows in one call; where that ends.
    fn ask_for_huge(&self, at: usize, end: usize) -> usize {
        let blocks = self.pace.blocks_at_once().saturating_mul(self.block);
        let stride = Range::between(at, at.saturating_add(blocks).min(end));
        match self.machine.advise(stride, Advice::HugePage) {
            Ok(()) => stride.end(),
            // Refused where the kernel has no huge pages or the mapping cannot: then small ones come.
            Err(_refused) => at,
        }
    }

    fn huge(&self, block: Range, is_advised: bool) -> Outcome {
        let start = self.machine.spent();
        self.bring_in(block)?;
        if is_advised {
            let took = self.machine.spent().since(start);
            self.pace.huge_took(block.len, took);
            self.huge_bytes.fetch_add(block.len, Ordering::Relaxed);
        }
        Ok(())
    }

    fn small(&self, part: Range) -> Outcome {
        self.fell_back.store(true, Ordering::Relaxed);
        let (start, faults) = (self.machine.spent(), self.machine.faults());
        self.bring_in(part)?;
        let taken = self.machine.faults().saturating_sub(faults);
        // Where pages were present, or came huge without being asked, this says nothing of small ones.
        if taken >= (part.len / page_size() / 2) as u64 {
            self.pace
                .small_took(part.len, self.machine.spent().since(start));
        }
        Ok(())
    }

    fn fail(&self, range: Range, source: io::Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        if let Ok(mut failure) = self.failure.lock() {
            let _first = failure.get_or_insert(Error::Prefault {
                address: range.address,
                len: range.len,
                source,
            });
        }
    }

    /// What was done, once all threads are back.
    pub(super) fn finish(self, threads: usize) -> Result<Prefaulted> {
        if let Ok(Some(error)) = self.failure.into_inner() {
            return Err(error);
        }
        let asked: usize = self.chunks.iter().map(|chunk| chunk.range.len).sum();
        let bytes = self.done_bytes.into_inner();
        if bytes < asked {
            return Err(Error::TimeLimit {
                left_bytes: asked - bytes,
            });
        }
        Ok(Prefaulted {
            bytes,
            huge_bytes: self.huge_bytes.into_inner(),
            faults: self.faults.into_inner(),
            threads,
            fell_back: self.fell_back.into_inner(),
        })
    }
}

/// Or the range that the kernel refused, and its reason.
type Outcome = std::result::Result<(), (Range, io::Error)>;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::cut::cut;
    use super::super::machine::Spent;
    use super::*;

    const BLOCK: usize = 2 << 20;
    /// Processor time of a huge page, fast or from the host, and of a small one.
    const FAST: Duration = Duration::from_micros(180);
    const SLOW: Duration = Duration::from_millis(5);
    const SMALL: Duration = Duration::from_nanos(1_400);

    /// A machine that keeps what it was told, with a clock that moves by what a step costs.
    struct Fake {
        is_slow: bool,
        /// Time that other programs take from each step.
        stolen: Duration,
        refuse_from: usize,
        state: Mutex<State>,
    }

    #[derive(Default)]
    struct State {
        spent: Spent,
        faults: u64,
        advised: Vec<Range>,
        populated: Vec<Range>,
    }

    impl Fake {
        fn new(is_slow: bool) -> Self {
            Self {
                is_slow,
                stolen: Duration::ZERO,
                refuse_from: usize::MAX,
                state: Mutex::default(),
            }
        }

        fn prefault(&self, pace: &Pace, range: Range, limit: Duration) -> Result<Prefaulted> {
            let chunks = cut(&[range], 16 << 20, BLOCK);
            let work = Work::new(self, pace, &chunks, limit, BLOCK);
            work.run();
            work.finish(1)
        }
    }

    impl Machine for Fake {
        fn advise(&self, range: Range, advice: Advice) -> io::Result<()> {
            let mut state = self.state.lock().unwrap();
            if advice == Advice::HugePage {
                state.advised.push(range);
                return Ok(());
            }
            if range.end() > self.refuse_from {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            let is_huge = state.advised.iter().any(|one| one.contains(range));
            let (took, faults) = match (is_huge, self.is_slow) {
                (true, true) => (SLOW, 1),
                (true, false) => (FAST, 1),
                (false, _) => {
                    let pages = u32::try_from(range.len / page_size()).unwrap();
                    (SMALL * pages, pages)
                }
            };
            state.spent.processor += took;
            state.spent.wall += took + self.stolen;
            state.faults += u64::from(faults);
            state.populated.push(range);
            Ok(())
        }

        fn now(&self) -> Duration {
            self.state.lock().unwrap().spent.wall
        }

        fn spent(&self) -> Spent {
            self.state.lock().unwrap().spent
        }

        fn faults(&self) -> u64 {
            self.state.lock().unwrap().faults
        }
    }

    const LONG: Duration = Duration::from_secs(100);

    fn picture() -> Range {
        Range::new(BLOCK - page_size(), 154 << 20).unwrap()
    }

    #[test]
    fn every_page_is_brought_in_once_whatever_the_pace() {
        for is_slow in [false, true] {
            let fake = Fake::new(is_slow);
            let done = fake.prefault(&Pace::new(), picture(), LONG).unwrap();
            assert_eq!(done.bytes, picture().pages().len);
            assert_eq!(done.fell_back, is_slow);
            let mut at = picture().pages().address;
            for range in &fake.state.lock().unwrap().populated {
                assert_eq!(range.address, at);
                at = range.end();
            }
            assert_eq!(at, picture().pages().end());
        }
    }

    #[test]
    fn a_host_that_gives_huge_pages_slowly_is_asked_for_three_of_a_picture_and_not_for_a_chunk() {
        let pace = Pace::new();
        let fake = Fake::new(true);
        let done = fake.prefault(&pace, picture(), LONG).unwrap();
        assert!(done.huge_bytes <= 3 * BLOCK, "{}", done.huge_bytes);
        // The next read remembers.
        let fake = Fake::new(true);
        let done = fake.prefault(&pace, picture(), LONG).unwrap();
        assert!(done.huge_bytes <= BLOCK, "{}", done.huge_bytes);
    }

    /// Each advice keeps all threads out of the kernel while it waits for those inside.
    #[test]
    fn where_huge_pages_come_fast_they_are_asked_for_by_the_chunk() {
        let pace = Pace::new();
        let fake = Fake::new(false);
        let done = fake.prefault(&pace, picture(), LONG).unwrap();
        let asked = fake.state.lock().unwrap().advised.len();
        let blocks = done.huge_bytes / BLOCK;
        assert!(blocks > 70 && asked <= 16, "{blocks} in {asked} calls");
        // The next call starts with the credit of this one.
        let fake = Fake::new(false);
        fake.prefault(&pace, picture(), LONG).unwrap();
        assert!(fake.state.lock().unwrap().advised.len() <= 10);
    }

    #[test]
    fn other_programs_on_the_processor_do_not_make_huge_pages_slow() {
        let fake = Fake {
            stolen: Duration::from_millis(9),
            ..Fake::new(false)
        };
        let done = fake.prefault(&Pace::new(), picture(), LONG).unwrap();
        assert!(!done.fell_back);
    }

    #[test]
    fn time_is_looked_at_in_each_step() {
        let fake = Fake {
            stolen: Duration::from_millis(9),
            ..Fake::new(false)
        };
        let error = fake
            .prefault(&Pace::new(), picture(), Duration::from_millis(30))
            .unwrap_err();
        let Error::TimeLimit { left_bytes } = error else {
            panic!("{error}");
        };
        assert!(picture().pages().len - left_bytes <= 5 * BLOCK);
    }

    #[test]
    fn what_the_kernel_refuses_is_named() {
        let fake = Fake {
            refuse_from: picture().address + 20 * BLOCK,
            ..Fake::new(false)
        };
        let error = fake.prefault(&Pace::new(), picture(), LONG).unwrap_err();
        let Error::Prefault { address, len, .. } = error else {
            panic!("{error}");
        };
        assert!(len == BLOCK && address < fake.refuse_from && address + len > fake.refuse_from);
    }
}
