//! What a prefault asks of the machine.

use std::io;
use std::time::{Duration, Instant};

use towpath_sys::madvise::{Advice, advise};

use crate::{Range, faults};

/// The kernel, or a test's own idea of it. All times and counts are of the calling thread.
pub(super) trait Machine: Sync {
    /// `madvise`.
    fn advise(&self, range: Range, advice: Advice) -> io::Result<()>;
    /// Time from any fixed start.
    fn now(&self) -> Duration;
    /// Time that the thread has spent.
    fn spent(&self) -> Spent;
    /// Page faults that the thread has taken.
    fn faults(&self) -> u64;
}

/// Two clocks of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// On a processor, the kernel's work for it included.
    pub(super) processor: Duration,
    /// By the clock on the wall.
    pub(super) wall: Duration,
}

impl Spent {
    /// What a step took since `start`: its processor time, so that another program on the same
    /// processor is not taken for slow memory. A host that has to give a page first is in it: the
    /// machine does not see that it was stopped. Where that clock is too coarse to move (sandboxes), or
    /// jumps, the other one bounds it.
    pub(super) fn since(self, start: Self) -> Duration {
        let wall = self.wall.saturating_sub(start.wall);
        match self.processor.saturating_sub(start.processor) {
            Duration::ZERO => wall,
            processor => processor.min(wall),
        }
    }
}

/// The kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    start: Instant,
}

impl Kernel {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Machine for Kernel {
    fn advise(&self, range: Range, advice: Advice) -> io::Result<()> {
        advise(range.address, range.len, advice)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn spent(&self) -> Spent {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Spent {
            processor: Duration::new(seconds, nanos),
            wall: self.now(),
        }
    }

    fn faults(&self) -> u64 {
        faults::of_thread()
    }
}
