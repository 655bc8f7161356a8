//! The reader's side: takes any bytes, trusts none.
//!
//! A file is read whole into memory of a fixed size. Offsets are those of the layout, never of the
//! file; texts are cleaned of control characters before anybody prints them.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::mem::{offset_of, size_of};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use towpath_measure::{Nanos, SignedNanos};
use towpath_settings::Fixes;

use crate::layout::{
    self, BUCKETS, FILE_BYTES, FRAMES, Header, Ledger, MAGIC, MODULES, SITE_BUCKETS, SITE_OTHER,
    SITES, SLOWEST, STACK_FRAMES, Slow, VERSION,
};
use crate::process::Process;
use crate::{Counter, Error, Histogram, HostPath, Operation, Outcome};

mod records;

pub use records::{Buckets, FrameLog, OutcomeCount, Site, SlowCall, StackFrame};

/// A ledger as it was at one moment.
#[derive(Clone)]
pub struct LedgerFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for LedgerFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LedgerFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl LedgerFile {
    /// Reads the ledger at `path`.
    ///
    /// # Cost
    ///
    /// Reads 540 KiB; never more, whatever the file's length.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read, [`Error::Truncated`], [`Error::WrongVersion`] or
    /// [`Error::NotALedger`] if it is not a ledger of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |operation| {
            move |source| Error::Io {
                operation,
                path: path.to_owned(),
                source,
            }
        };
        // A pipe under that name must not hold the reader up, nor a link lead it elsewhere.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(path)
            .map_err(io(Operation::Open))?;
        if !file.metadata().map_err(io(Operation::Read))?.is_file() {
            let path = path.to_owned();
            return Err(Error::NotALedger { path });
        }
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        let limit = u64::try_from(FILE_BYTES).unwrap_or(u64::MAX);
        file.take(limit)
            .read_to_end(&mut bytes)
            .map_err(io(Operation::Read))?;
        Self::parse(bytes, path)
    }

    /// Takes the bytes of a ledger; `path` is for texts and for [`LedgerFile::set_fixes`].
    ///
    /// # Errors
    ///
    /// As [`LedgerFile::open`], without the file.
    pub fn parse(bytes: Vec<u8>, path: &Path) -> Result<Self, Error> {
        let file = Self {
            path: path.to_owned(),
            bytes,
        };
        let path = || path.to_owned();
        let found = file.bytes.len();
        if found < 12 || file.u64(0) != MAGIC {
            // A file cut before its magic cannot be told from something else, but an empty one is
            // most likely a ledger whose process died while making it.
            return Err(match found {
                0 => Error::Truncated {
                    path: path(),
                    found,
                    expected: FILE_BYTES,
                },
                _ => Error::NotALedger { path: path() },
            });
        }
        let version = file.u32(offset_of!(Header, version));
        if version != VERSION {
            return Err(Error::WrongVersion {
                path: path(),
                found: version,
                expected: VERSION,
            });
        }
        if found < FILE_BYTES {
            return Err(Error::Truncated {
                path: path(),
                found,
                expected: FILE_BYTES,
            });
        }
        Ok(file)
    }

    /// Where it was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that wrote it.
    #[must_use]
    pub fn process(&self) -> Process {
        let boot_id = self
            .slice(offset_of!(Header, boot_id), 16)
            .try_into()
            .unwrap_or_default();
        Process {
            pid: self.pid(),
            start: self.u64(offset_of!(Header, process_start)),
            pid_namespace: self.u64(offset_of!(Header, pid_namespace)),
            boot_id,
        }
    }

    /// Id of the process that wrote it, as that process saw it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.u32(offset_of!(Header, pid))
    }

    /// Id of the process that this one was forked from, if the ledger was made after a fork.
    #[must_use]
    pub fn parent_pid(&self) -> Option<u32> {
        Some(self.u32(offset_of!(Header, parent_pid))).filter(|pid| *pid != 0)
    }

    /// The library that wrote it.
    #[must_use]
    pub fn library(&self) -> String {
        self.text(offset_of!(Header, library), 32)
    }

    /// The program's file name.
    #[must_use]
    pub fn program(&self) -> String {
        self.text(offset_of!(Header, program), 144)
    }

    /// Whether the process that wrote it is alive; see [`Process::is_alive`].
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process().is_alive()
    }

    /// The control word when it was read.
    #[must_use]
    pub fn fixes(&self) -> Fixes {
        Fixes::from_bits(self.u32(offset_of!(Header, fixes)))
    }

    /// Switches fixes in the process that writes this ledger.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be written.
    pub fn set_fixes(&self, fixes: Fixes) -> Result<(), Error> {
        let io = |source| Error::Io {
            operation: Operation::Switch,
            path: self.path.clone(),
            source,
        };
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(&self.path)
            .map_err(io)?;
        let offset = u64::try_from(offset_of!(Header, fixes)).map_err(io::Error::other);
        // The kernel copies an aligned word of a page in one piece.
        file.write_all_at(&fixes.to_bits().to_le_bytes(), offset.map_err(io)?)
            .map_err(io)
    }

    /// Every site that has calls.
    #[must_use]
    pub fn sites(&self) -> Vec<Site> {
        (0..SITES)
            .filter(|index| self.u64(site_at(*index)) != 0)
            .map(|index| self.site(index))
            .filter(|site| site.calls != 0)
            .collect()
    }

    fn site(&self, index: usize) -> Site {
        use crate::layout::Site as At;
        let base = site_at(index);
        let number = |offset: usize| self.u64(base + offset);
        let named = self.u32(base + offset_of!(At, is_named)) == 1;
        let text = |offset: usize, bytes: usize| {
            if named {
                self.text(base + offset, bytes)
            } else {
                "?".to_owned()
            }
        };
        let walls = self.buckets(base + offset_of!(At, walls), SITE_BUCKETS);
        let calls = walls.total();
        Site {
            hash: number(0),
            path: HostPath::from_number(self.u16(base + offset_of!(At, path))),
            call: text(offset_of!(At, call), 48),
            device: text(offset_of!(At, device), 64),
            stack: self.stack(base),
            stack_hash: number(offset_of!(At, stack_hash)),
            calls,
            bytes: number(offset_of!(At, bytes)),
            wall: Nanos(number(offset_of!(At, wall_ns))),
            faults: number(offset_of!(At, faults)),
            cold_bytes: number(offset_of!(At, cold_bytes)),
            cold_unknown_calls: number(offset_of!(At, cold_unknown)),
            warm_bytes: number(offset_of!(At, warm_bytes)),
            warm_wall: Nanos(number(offset_of!(At, warm_ns))),
            saved: SignedNanos(number(offset_of!(At, saved_ns)).cast_signed()),
            longest: Nanos(number(offset_of!(At, longest_ns))),
            outcomes: self.outcomes(base, calls),
            walls,
            is_overflow: index == SITE_OTHER,
        }
    }

    /// Calls by outcome; those that were only observed are what the others leave of `calls`.
    fn outcomes(&self, site: usize, calls: u64) -> Vec<OutcomeCount> {
        let at = |outcome: usize| {
            let outcomes = offset_of!(layout::Site, outcomes);
            self.u64(site + outcomes + outcome * size_of::<u64>())
        };
        let observed = (1..Outcome::ROOM).fold(calls, |rest, n| rest.saturating_sub(at(n)));
        (0_u16..)
            .take(Outcome::ROOM)
            .map(|number| OutcomeCount {
                number,
                outcome: Outcome::from_number(number),
                calls: match number {
                    0 => observed,
                    _ => at(usize::from(number)),
                },
            })
            .filter(|outcome| outcome.calls != 0)
            .collect()
    }

    /// Of all sites of waits: their calls by wall time, and how many of them entered kernel or driver.
    fn waits(&self) -> (Buckets, u64) {
        let mut walls = vec![0_u64; SITE_BUCKETS];
        let mut entered = 0_u64;
        let is_wait = |base: &usize| self.u8(base + offset_of!(layout::Site, is_wait)) == 1;
        for base in (0..SITES).map(site_at).filter(is_wait) {
            let own = self.buckets(base + offset_of!(layout::Site, walls), SITE_BUCKETS);
            let skipped = usize::from(Outcome::WaitSkipped.number()) * size_of::<u64>();
            let skipped = self.u64(base + offset_of!(layout::Site, outcomes) + skipped);
            entered = entered.saturating_add(own.total().saturating_sub(skipped));
            for (sum, own) in walls.iter_mut().zip(own.0) {
                *sum = sum.saturating_add(own);
            }
        }
        (Buckets(walls), entered)
    }

    fn stack(&self, site: usize) -> Vec<StackFrame> {
        use crate::layout::Site as At;
        let frames = usize::from(self.u8(site + offset_of!(At, stack_len))).min(STACK_FRAMES);
        (0..frames)
            .map(|frame| self.u64(site + offset_of!(At, stack) + frame * size_of::<u64>()))
            .map(|word| StackFrame {
                module: self.module(word >> 48),
                offset: word & ((1 << 48) - 1),
            })
            .collect()
    }

    /// Name of the module with that number plus 1.
    fn module(&self, number: u64) -> String {
        let index = usize::try_from(number).unwrap_or(0);
        if index == 0 || index > MODULES {
            return "?".to_owned();
        }
        let base = offset_of!(Ledger, modules) + (index - 1) * size_of::<layout::Module>();
        let name = self.text(base + offset_of!(layout::Module, name), 120);
        // The dynamic loader has no name for the program itself.
        if name.is_empty() {
            self.program()
        } else {
            name
        }
    }

    /// Named totals that are not 0. A number that this version does not know gives no name.
    #[must_use]
    pub fn counters(&self) -> Vec<(Counter, u64)> {
        Counter::ALL
            .iter()
            .map(|counter| (*counter, self.counter(*counter)))
            .filter(|(_, total)| *total != 0)
            .collect()
    }

    /// One named total.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        let place = usize::from(counter.number()) * size_of::<u64>();
        let counted = self.u64(offset_of!(Ledger, counters) + place);
        if counter == Counter::WaitsEntered {
            counted.saturating_add(self.waits().1)
        } else {
            counted
        }
    }

    /// Histograms that are not empty.
    #[must_use]
    pub fn histograms(&self) -> Vec<(Histogram, Buckets)> {
        let (waits, _) = self.waits();
        let of_one_object = Buckets(vec![waits.total()]);
        Histogram::ALL
            .iter()
            .map(|histogram| {
                let place = usize::from(histogram.number()) * BUCKETS * size_of::<u64>();
                let base = offset_of!(Ledger, histograms) + place;
                let mut buckets = self.buckets(base, BUCKETS);
                if *histogram == Histogram::WaitNanos {
                    buckets.add(&waits);
                } else if *histogram == Histogram::WaitMoreObjects {
                    buckets.add(&of_one_object);
                }
                (*histogram, buckets)
            })
            .filter(|(_, buckets)| buckets.total() != 0)
            .collect()
    }

    /// The slowest calls, slowest first.
    #[must_use]
    pub fn slowest(&self) -> Vec<SlowCall> {
        let mut calls: Vec<SlowCall> = (0..SLOWEST)
            .map(|index| offset_of!(Ledger, slowest) + index * size_of::<Slow>())
            .filter(|base| {
                let sequence = self.u32(*base);
                // Odd: the process was writing it, or died there.
                sequence != 0 && sequence.is_multiple_of(2)
            })
            .map(|base| self.slow_call(base))
            .collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.wall));
        calls
    }

    fn slow_call(&self, base: usize) -> SlowCall {
        let cold = self.u64(base + offset_of!(Slow, cold_bytes));
        let site = usize::from(self.u16(base + offset_of!(Slow, site)));
        SlowCall {
            site_hash: if site < SITES {
                self.u64(site_at(site))
            } else {
                0
            },
            start: Nanos(self.u64(base + offset_of!(Slow, start_ns))),
            wall: Nanos(self.u64(base + offset_of!(Slow, wall_ns))),
            bytes: self.u64(base + offset_of!(Slow, bytes)),
            cold_bytes: Some(cold).filter(|cold| *cold != crate::Call::COLD_UNKNOWN),
            faults: self.u64(base + offset_of!(Slow, faults)),
            outcome: Outcome::from_number(self.u16(base + offset_of!(Slow, outcome))),
        }
    }

    /// The presented frames.
    #[must_use]
    pub fn frames(&self) -> FrameLog {
        let presented = self.u64(offset_of!(Header, frames));
        let ring = u64::try_from(FRAMES).unwrap_or(1);
        let kept = presented.min(ring);
        let times = (presented - kept..presented)
            .filter_map(|number| usize::try_from(number % ring).ok())
            .map(|index| offset_of!(Ledger, frames) + index * size_of::<u64>())
            .map(|at| Nanos(self.u64(at)))
            .collect();
        FrameLog { presented, times }
    }

    fn buckets(&self, base: usize, count: usize) -> Buckets {
        let numbers = (0..count).map(|index| self.u64(base + index * size_of::<u64>()));
        Buckets(numbers.collect())
    }

    fn slice(&self, at: usize, length: usize) -> &[u8] {
        let end = at.saturating_add(length);
        self.bytes.get(at..end).unwrap_or_default()
    }

    fn u8(&self, at: usize) -> u8 {
        self.slice(at, 1).first().copied().unwrap_or_default()
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.slice(at, 2).try_into().unwrap_or_default())
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.slice(at, 4).try_into().unwrap_or_default())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.slice(at, 8).try_into().unwrap_or_default())
    }

    /// A text up to its first zero, with everything that a terminal might obey replaced.
    fn text(&self, at: usize, length: usize) -> String {
        let bytes = self.slice(at, length);
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default())
            .chars()
            .map(|c| if is_harmless(c) { c } else { '?' })
            .collect()
    }
}

/// Neither a control character nor one that turns the direction of a line.
fn is_harmless(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

fn site_at(index: usize) -> usize {
    offset_of!(Ledger, sites) + index * size_of::<layout::Site>()
}
