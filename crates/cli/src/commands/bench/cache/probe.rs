//! What another reader of the disk feels: 4 KiB read with O_DIRECT at random places, a thousand a second.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const BLOCK: usize = 4096;
/// Larger than what a device's own cache would hide for long, small enough to make quickly.
const FILE_BYTES: u64 = 256 << 20;
const PAUSE: Duration = Duration::from_millis(1);

/// A file to read from.
#[derive(Debug)]
pub(super) struct Probe {
    file: Arc<File>,
}

/// Reading goes on until [`stop`](Self::stop).
#[derive(Debug)]
pub(super) struct Running {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Vec<f64>>>,
}

impl Probe {
    /// Makes the file.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let mut block = vec![0; 1 << 20];
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        let mut random = fastrand::Rng::with_seed(8);
        for at in (0..FILE_BYTES).step_by(block.len()) {
            random.fill(&mut block);
            file.write_all_at(&block, at)?;
        }
        file.sync_all()?;
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(path)
            .context("this file system has no O_DIRECT")?;
        Ok(Self {
            file: Arc::new(file),
        })
    }

    /// Starts reading.
    pub(super) fn start(&self, seed: u64) -> Running {
        let is_over = Arc::new(AtomicBool::new(false));
        let (file, over) = (Arc::clone(&self.file), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || read(&file, &over, seed));
        Running { is_over, thread }
    }
}

impl Running {
    /// Ends reading and returns each read's time in microseconds, in order.
    pub(super) fn stop(self) -> Result<Vec<f64>> {
        // Relaxed: only the loop's end depends on it.
        self.is_over.store(true, Ordering::Relaxed);
        let joined = self.thread.join();
        let times = joined.map_err(|_panic| anyhow::anyhow!("the probe's thread panicked"))?;
        times.context("the probe cannot read")
    }
}

fn read(file: &File, is_over: &AtomicBool, seed: u64) -> std::io::Result<Vec<f64>> {
    let mut buffer = vec![0; 2 * BLOCK];
    let shift = buffer.as_ptr().align_offset(BLOCK);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let at = random.u64(..FILE_BYTES / BLOCK as u64) * BLOCK as u64;
        let Some(target) = buffer.get_mut(shift..shift + BLOCK) else {
            break;
        };
        let start = Instant::now();
        file.read_exact_at(target, at)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        std::thread::sleep(PAUSE);
    }
    Ok(times)
}
