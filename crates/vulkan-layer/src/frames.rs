//! The frame log: one line per presented frame, in the columns that MangoHud's readers look for.
//!
//! ```text
//! os,cpu,gpu,ram,kernel,driver,cpuscheduler
//! linux,,,,,,
//! fps,frametime,elapsed
//! 60.0,16.667,16666667
//! ```
//!
//! `frametime` is in milliseconds, `elapsed` in nanoseconds since the first frame. A program that
//! presents nothing gets its queue submissions instead, and then the header's third line reads
//! `submits per second,frametime,elapsed` so that nobody takes them for frames.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use towpath_ledger::within_size_limit;
use towpath_measure::Nanos;

use crate::fork;
use crate::lock::Lock;

const HEAD: &str = "os,cpu,gpu,ram,kernel,driver,cpuscheduler\nlinux,,,,,,\n";
const FRAMES: &str = "fps,frametime,elapsed\n";
const SUBMITS: &str = "submits per second,frametime,elapsed\n";
/// Lines are handed to the kernel in pieces of this size, at the end of each device, and
const PIECE: usize = 4096;
/// after this time, so that little is lost of a program that is killed.
const WAIT: Nanos = Nanos(200_000_000);
/// Submissions before the first present after which a program counts as headless.
const HEADLESS_AFTER: u32 = 64;

/// What the lines stand for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Clock {
    /// Nothing seen yet; early submissions are kept.
    Undecided,
    Presents,
    Submits,
}

/// A frame log on its way to a file.
#[derive(Debug)]
pub(crate) struct FrameFile {
    state: Lock<State<File>>,
    /// Whether a frame was presented, so that submissions are no longer looked at.
    presents: AtomicBool,
}

#[derive(Debug)]
struct State<W> {
    file: W,
    clock: Clock,
    early: Vec<Nanos>,
    first: Nanos,
    last: Option<Nanos>,
    text: String,
    written: Nanos,
}

impl FrameFile {
    /// Starts a log; a program of several processes gets one file each (`.PID` before the ending).
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let own = if path.exists() {
            path.with_extension(format!("{}.csv", std::process::id()))
        } else {
            path.to_owned()
        };
        let file = File::create(own)?;
        Ok(Self {
            state: Lock::new(State::new(file)),
            presents: AtomicBool::new(false),
        })
    }

    /// Notes a present.
    ///
    /// # Cost
    ///
    /// A lock that only presents take, some formatting, a write every hundred frames or so.
    pub(crate) fn present(&self, at: Nanos) {
        // Relaxed: a submission that does not see it yet finds the same in the state.
        self.presents.store(true, Ordering::Relaxed);
        self.with(|state| state.present(at));
    }

    /// Notes a submission, which counts only where nothing is presented.
    ///
    /// # Cost
    ///
    /// One load once the program presents; before, as [`present`](Self::present).
    pub(crate) fn submit(&self, at: Nanos) {
        if !self.presents.load(Ordering::Relaxed) {
            self.with(|state| state.submit(at));
        }
    }

    /// Hands all lines to the kernel.
    pub(crate) fn flush(&self) {
        self.with(State::flush);
    }

    /// A forked child has its parent's file and unwritten lines: it leaves both alone.
    fn with(&self, work: impl FnOnce(&mut State<File>)) {
        if !fork::is_child() {
            self.state.with(work);
        }
    }
}

impl<W: io::Write> State<W> {
    fn new(file: W) -> Self {
        Self {
            file,
            clock: Clock::Undecided,
            early: Vec::new(),
            first: Nanos::ZERO,
            last: None,
            text: HEAD.to_owned(),
            written: Nanos::ZERO,
        }
    }

    fn present(&mut self, at: Nanos) {
        if self.clock != Clock::Presents {
            if self.clock == Clock::Submits {
                // A program that turned out to present after all: the old lines are taken back by a
                // second header, which readers of MangoHud's files take for a new log.
                self.text.push_str(HEAD);
            }
            self.clock = Clock::Presents;
            self.early.clear();
            self.last = None;
            self.text.push_str(FRAMES);
        }
        self.line(at);
    }

    fn submit(&mut self, at: Nanos) {
        match self.clock {
            Clock::Presents => {}
            Clock::Submits => self.line(at),
            Clock::Undecided => {
                self.early.push(at);
                if u32::try_from(self.early.len()).unwrap_or(u32::MAX) >= HEADLESS_AFTER {
                    self.take_submits();
                }
            }
        }
    }

    fn take_submits(&mut self) {
        self.clock = Clock::Submits;
        self.text.push_str(SUBMITS);
        for at in std::mem::take(&mut self.early) {
            self.line(at);
        }
    }

    fn line(&mut self, at: Nanos) {
        let Some(last) = self.last.replace(at) else {
            self.first = at;
            return;
        };
        let nanos = at.0.saturating_sub(last.0).max(1);
        let fps = 1e9 / nanos as f64;
        let millis = nanos as f64 / 1e6;
        let elapsed = at.0.saturating_sub(self.first.0);
        // Writing to a string cannot fail.
        let _infallible = writeln!(self.text, "{fps:.1},{millis:.3},{elapsed}");
        if self.text.len() >= PIECE || at.0.saturating_sub(self.written.0) >= WAIT.0 {
            self.written = at;
            self.write();
        }
    }

    fn flush(&mut self) {
        if self.clock == Clock::Undecided && !self.early.is_empty() {
            self.take_submits();
        }
        self.write();
    }

    fn write(&mut self) {
        // A full disk costs lines of the log, nothing else.
        let _written = within_size_limit(|| self.file.write_all(self.text.as_bytes())).is_ok();
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(feed: impl FnOnce(&mut State<Vec<u8>>)) -> String {
        let mut state = State::new(Vec::new());
        feed(&mut state);
        state.flush();
        String::from_utf8(state.file).unwrap()
    }

    #[test]
    fn presents_become_frame_times_since_the_first() {
        let text = log(|state| {
            state.submit(Nanos(1));
            for frame in 0..3 {
                state.present(Nanos(1_000 + frame * 16_666_667));
            }
        });
        let lines = "60.0,16.667,16666667\n60.0,16.667,33333334\n";
        assert_eq!(text, format!("{HEAD}{FRAMES}{lines}"));
    }

    #[test]
    fn a_program_without_presents_gets_its_submissions_named_as_such() {
        let text = log(|state| (0..100).for_each(|n| state.submit(Nanos(n * 2_000_000))));
        assert!(text.starts_with(&format!("{HEAD}{SUBMITS}")));
        assert_eq!(text.lines().count(), 3 + 99);
        let few = log(|state| (0..3).for_each(|n| state.submit(Nanos(n * 2_000_000))));
        assert_eq!(few.lines().count(), 3 + 2);
    }
}
