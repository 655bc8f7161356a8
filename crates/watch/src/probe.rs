//! The side probe: small timed reads from storage while a program runs, as one player of seed 000 counted them.
//!
//! Reads 4 KiB at random places of a file of its own, past the page cache, and notes how long each took. The
//! file is unlinked as soon as it is open: nothing is left behind, whatever happens. The probe itself is load on
//! the disk: run it in both arms, and compare with an idle machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use towpath_measure::{Clock as _, MonotonicClock, Nanos};

/// One read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProbeRead {
    /// When it began, by the monotonic clock.
    pub at: Nanos,
    /// How long it took.
    pub took: Nanos,
}

/// What the probe saw.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// Every read, in order.
    pub reads: Vec<ProbeRead>,
    /// Reads that failed.
    pub failed: u64,
    /// Whether reads went past the page cache (`O_DIRECT`); without it the kernel is only asked to forget.
    pub is_direct: bool,
}

impl Probed {
    /// Reads that took longer than `limit`.
    #[must_use]
    pub fn over(&self, limit: Nanos) -> usize {
        self.reads.iter().filter(|read| read.took > limit).count()
    }

    /// The longest read; `None` without reads.
    #[must_use]
    pub fn worst(&self) -> Option<Nanos> {
        self.reads.iter().map(|read| read.took).max()
    }

    /// The time that `share` (0 to 1) of the reads did not exceed; `None` without reads.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let mut times: Vec<Nanos> = self.reads.iter().map(|read| read.took).collect();
        times.sort_unstable();
        let wanted = share.clamp(0.0, 1.0) * times.len() as f64;
        times
            .iter()
            .enumerate()
            .find(|(at, _)| *at as f64 + 1.0 >= wanted)
            .map(|(_, time)| *time)
    }
}

/// Size of the probe's file that caches of disks do not hold whole.
pub const PROBE_BYTES: u64 = 256 << 20;
/// Pause between reads: about 300 a second, a light load.
const PAUSE: Duration = Duration::from_millis(3);
/// Bytes of one read.
const BLOCK: usize = 4096;

/// A block at an address that direct reads take.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// Reads until it is ended.
#[derive(Debug)]
pub struct DiskProbe {
    end: Sender<()>,
    thread: Option<JoinHandle<Probed>>,
}

impl DiskProbe {
    /// Writes a file of `bytes` in `folder`, then starts reading from it.
    ///
    /// # Cost
    ///
    /// Writes `bytes` once and waits until they are on the disk; then one thread, about 300 reads a second.
    ///
    /// # Errors
    ///
    /// What the kernel answered: no such folder, no room. Nothing is left behind.
    pub fn start(folder: &Path, bytes: u64) -> io::Result<Self> {
        let blocks = bytes / u64::try_from(BLOCK).map_err(io::Error::other)?;
        if blocks == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let (file, is_direct) = make(folder, blocks)?;
        let (end, ended) = channel();
        let thread =
            std::thread::Builder::new().spawn(move || read(&file, blocks, is_direct, &ended))?;
        Ok(Self {
            end,
            thread: Some(thread),
        })
    }

    /// What it saw.
    #[must_use]
    pub fn end(mut self) -> Probed {
        // The thread may have ended already.
        let _told = self.end.send(());
        self.thread
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

/// Makes the file, opens it for reading past the cache where the file system allows, and unlinks it.
fn make(folder: &Path, blocks: u64) -> io::Result<(File, bool)> {
    let path = folder.join(format!(".towpath-probe-{}", std::process::id()));
    let made = fill(&path, blocks).and_then(|()| {
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path);
        match direct {
            Ok(file) => Ok((file, true)),
            // tmpfs of older kernels and some network file systems.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                File::open(&path).map(|file| (file, false))
            }
            Err(error) => Err(error),
        }
    });
    let unlinked = fs::remove_file(&path);
    let made = made?;
    unlinked?;
    Ok(made)
}

fn fill(path: &Path, blocks: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // Not zeros: some disks keep no zeros.
    let mut block = [0_u8; BLOCK];
    let mut state = SEED;
    for _ in 0..blocks {
        for to in block.as_chunks_mut::<8>().0 {
            state = next(state);
            *to = state.to_le_bytes();
        }
        file.write_all(&block)?;
    }
    file.sync_all()
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// xorshift: never 0 from a state that is not.
fn next(state: u64) -> u64 {
    let state = state ^ (state << 13);
    let state = state ^ (state >> 7);
    state ^ (state << 17)
}

fn read(file: &File, blocks: u64, is_direct: bool, ended: &Receiver<()>) -> Probed {
    let mut probed = Probed {
        is_direct,
        ..Probed::default()
    };
    let mut block = Box::new(Block([0; BLOCK]));
    let mut state = SEED;
    loop {
        state = next(state);
        let at = (state % blocks).saturating_mul(4096);
        if !is_direct {
            // Best effort: a page that stays cached gives a short time, which is told as not direct.
            let _forgotten = fadvise(file, at, std::num::NonZero::new(4096), Advice::DontNeed);
        }
        let start = MonotonicClock.now();
        match file.read_exact_at(&mut block.0, at) {
            Ok(()) => probed.reads.push(ProbeRead {
                at: start,
                took: MonotonicClock.now().since(start),
            }),
            Err(_unreadable) => probed.failed += 1,
        }
        match ended.recv_timeout(PAUSE) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return probed,
        }
    }
}
