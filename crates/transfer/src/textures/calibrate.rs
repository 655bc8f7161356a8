//! Measures the constants of the [cost model](super::cost) on this machine, on memory of its own.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use towpath_measure::{Clock, MonotonicClock};
use towpath_memory::view::{FilePiece, View};
use towpath_memory::volatile::VolatileBytes;

use super::backing::{Backing, Entry, Memory};
use super::cost::Model;
use super::error::Result;
use super::gather::{self, Stores};
use super::plan::{Direction, Lines};
use super::ram::Ram;
use super::views::Views;

/// Measures everything; `/dev/udmabuf` too, if it is there and may be used.
///
/// # Cost
///
/// About a third of a second and 40 MiB of memory.
///
/// # Errors
///
/// [`Error::System`](super::Error::System) without memory.
pub fn calibrate() -> Result<Model> {
    let bench = Bench::new()?;
    let mut model = Model::default();
    let large = bench.copy(1, BYTES, Stores::Cached)?;
    let scattered = bench.copy(2, BYTES, Stores::Cached)?;
    model.bandwidth = BYTES as f64 / large.max(1.0);
    model.per_run = ((scattered - large) / (BYTES / PAGE) as f64).max(0.0);
    model.per_transfer = bench.copy(1, PAGE, Stores::Cached)?;
    model.streaming_min = bench.streaming_min()?;

    let (few, many) = (64, 1024);
    let small = bench.view(few, None);
    let big = bench.view(many, None);
    let per_run = (big - small) / f64::from(many - few);
    // One run of as many pages shows what the pages alone cost.
    let flat = bench.flat(u64::from(many));
    model.map_page = (flat / f64::from(many)).max(0.0);
    model.map_run = (per_run - model.map_page).max(0.0);
    model.per_view = (small - per_run * f64::from(few)).max(1_000.0);
    if let Some(device) = Views::open_device() {
        let small = bench.view(few, Some(&device));
        let big = bench.view(many, Some(&device));
        model.udmabuf_page = ((big - small) / f64::from(many - few)).max(0.0);
    }
    Ok(if model.is_sane() {
        model
    } else {
        Model::default()
    })
}

struct Bench {
    ram: Arc<Ram>,
    target: Ram,
}

impl Bench {
    fn new() -> Result<Self> {
        Ok(Self {
            ram: Arc::new(Ram::new(2 * BYTES)?),
            target: Ram::new(BYTES)?,
        })
    }

    /// Nanoseconds of a gather of `bytes` bytes in pages that lie `step` pages apart.
    fn copy(&self, step: u64, bytes: u64, stores: Stores) -> Result<f64> {
        let memory: Arc<dyn Memory> = Arc::clone(&self.ram) as Arc<dyn Memory>;
        let entries: Vec<Entry> = (0..bytes / PAGE)
            .map(|index| Entry {
                address: index * step * PAGE,
                len: PAGE,
            })
            .collect();
        let backing = Backing::attach(&memory, &entries)?;
        let lines = Lines {
            row_bytes: bytes,
            rows: 1,
            layers: 1,
            ..Lines::default()
        };
        let target: VolatileBytes<'_> = self.target.bytes();
        let mut outcome = Ok(());
        let time = shortest(|| {
            let copied = gather::copy(&backing, &lines, &target, &lines, Direction::Upload, stores);
            if copied.is_err() {
                outcome = copied;
            }
        });
        outcome.map(|()| time)
    }

    /// Where copies past the caches begin to win, to the next power of two.
    fn streaming_min(&self) -> Result<u64> {
        let mut bytes = BYTES;
        while bytes > STREAMING_LEAST {
            let next = bytes / 2;
            let cached = self.copy(1, next, Stores::Cached)?;
            // A tenth: below that the caches' later use is worth more.
            if self.copy(1, next, Stores::Streaming)? > cached * 0.9 {
                return Ok(bytes);
            }
            bytes = next;
        }
        Ok(bytes)
    }

    /// Nanoseconds of making, touching and ending a view of `pages` scattered pages.
    fn view(&self, pages: u32, device: Option<&OwnedFd>) -> f64 {
        let pieces: Vec<FilePiece<'_>> = (0..u64::from(pages))
            .map(|index| FilePiece {
                file: self.ram.file().as_fd(),
                offset: index * 2 * PAGE,
                len: PAGE,
            })
            .collect();
        shortest(|| {
            let made = match device {
                Some(device) => View::udmabuf(device.as_fd(), &pieces),
                None => View::stitch(&pieces),
            };
            if let Ok(view) = made {
                touch(&view);
            }
        })
    }

    fn flat(&self, pages: u64) -> f64 {
        let piece = FilePiece {
            file: self.ram.file().as_fd(),
            offset: 0,
            len: pages * PAGE,
        };
        shortest(|| {
            if let Ok(view) = View::stitch(&[piece]) {
                touch(&view);
            }
        })
    }
}

/// Reads a byte of every page.
fn touch(view: &View) {
    let bytes = view.bytes();
    let mut byte = [0];
    for at in (0..bytes.len()).step_by(4096) {
        if let Some(place) = bytes.get(at, 1) {
            place.copy_to(&mut byte);
        }
    }
    std::hint::black_box(byte);
}

/// The shortest of nine runs after one that warms up: on a machine that does other things too, the one that was
/// not interrupted.
fn shortest(mut body: impl FnMut()) -> f64 {
    let clock = MonotonicClock;
    body();
    let times = (0..9).map(|_run| {
        let start = clock.now();
        body();
        clock.now().saturating_sub(start).0
    });
    times.min().unwrap_or(0) as f64
}

/// 16 MiB: larger than the caches of one processor, as large textures are.
const BYTES: u64 = 16 << 20;
/// Smaller copies stay in the caches (research: streaming loses 30 % there).
const STREAMING_LEAST: u64 = 1 << 20;
const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_is_sane_and_survives_its_file() {
        let model = calibrate().unwrap();
        assert!(model.is_sane(), "{model:?}");
        assert!(model.streaming_min.is_power_of_two());
        let entry = towpath_settings::calibration::Entry::new(Model::key(), &model).unwrap();
        assert_eq!(entry.values::<Model>().unwrap(), model);
    }
}
