//! A game as seed 000 found it: thousands of pipelines through a cache of its own, saved whole, and a
//! frame loop that reads from the disk that the save goes to.
//!
//! The save has a thread of its own: seed 000's write took 3.6 s and more, and all frames together were
//! late by 0.9 to 1.3 s, so its frames did not wait for the write.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ash::vk;

use crate::gpu::{self, Gpu, Wishes};

/// How the game saves its cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Saves {
    /// After 32 pipelines made with the cache, known or not; the whole blob; a failed close is not
    /// noticed.
    Before,
    /// The size is asked first, and the blob written only where it differs from the last one.
    SizeFirst,
}

/// What is played.
#[derive(Clone, Debug)]
pub struct Route {
    /// Where the game's files lie: the cache, and the data that frames read.
    pub folder: PathBuf,
    /// Pipelines made at the start.
    pub pipelines: u64,
    /// Pipelines that no start made before, made in play, spread over the route.
    pub new: u64,
    /// First seed of the new ones.
    pub new_seed: u64,
    /// Frames of the whole route.
    pub frames: u32,
    /// Frames before those that are counted.
    pub counted_from: u32,
    /// The frame cap.
    pub frame: Duration,
    /// 4 KiB reads per frame.
    pub reads: u32,
    /// How the cache is saved.
    pub saves: Saves,
}

/// Present at which the game looks for the first time whether to save, and then every so many.
const SAVE_CHECK: u32 = 300;
/// Pipelines made with the cache after which a save is due.
const SAVE_AFTER: u64 = 32;
const READ: usize = 4096;

/// What the route came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Whole start: instance to last pipeline.
    pub start: Duration,
    /// Times that the cache file was written.
    pub writes: u32,
    /// Bytes of these writes.
    pub bytes_written: u64,
    /// Time inside saves.
    pub saving: Duration,
    /// Frame times that count.
    pub frames: Vec<Duration>,
    /// Read times that count.
    pub reads: Vec<Duration>,
}

impl Outcome {
    /// The table of seed 000, as `name: value unit` lines.
    #[must_use]
    pub fn table(&self, frame: Duration) -> String {
        let over = |limit_us| {
            self.frames
                .iter()
                .filter(|time| **time > Duration::from_micros(limit_us))
                .count()
        };
        let late: Duration = self
            .frames
            .iter()
            .map(|time| time.saturating_sub(frame))
            .sum();
        let slow = self
            .reads
            .iter()
            .filter(|time| **time > Duration::from_millis(10))
            .count();
        let worst = self.reads.iter().max().copied().unwrap_or_default();
        format!(
            "start: {:.1} ms\ncache writes: {}\ncache bytes written: {}\nsaving: {:.1} ms\n\
             frames counted: {}\nframes over 25 ms: {}\nframes over 33.4 ms: {}\n\
             time late: {:.1} ms\n1% low: {:.1} fps\nreads over 10 ms: {slow}\n\
             worst read: {:.2} ms\n",
            ms(self.start),
            self.writes,
            self.bytes_written,
            ms(self.saving),
            self.frames.len(),
            over(25_000),
            over(33_400),
            ms(late),
            self.one_percent_low(),
            ms(worst),
        )
    }

    /// Frames per second over the slowest hundredth of the frames.
    fn one_percent_low(&self) -> f64 {
        let mut sorted = self.frames.clone();
        sorted.sort_unstable();
        let slowest = (sorted.len() / 100).max(1);
        let sum: Duration = sorted.iter().rev().take(slowest).sum();
        if sum.is_zero() {
            0.0
        } else {
            slowest as f64 / sum.as_secs_f64()
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

struct Game<'a> {
    route: &'a Route,
    gpu: Gpu,
    cache: vk::PipelineCache,
    path: PathBuf,
    saved_size: usize,
    built_since_save: u64,
    pipelines: Vec<vk::Pipeline>,
    saving: Option<JoinHandle<Result<Saved>>>,
    outcome: Outcome,
}

/// What a save wrote, and how long it took.
struct Saved {
    bytes: usize,
    took: Duration,
}

/// Plays the route.
///
/// # Errors
///
/// What the driver or the disk says.
pub fn play(route: &Route) -> Result<Outcome> {
    let start = Instant::now();
    let path = route.folder.join("mkw_vk_pipelines.bin");
    let data = std::fs::read(&path).unwrap_or_default();
    let gpu = Gpu::open(&Wishes {
        swapchain: true,
        ..Wishes::default()
    })?;
    let cache = gpu.cache(&data).context("vkCreatePipelineCache")?;
    let mut game = Game {
        route,
        gpu,
        cache,
        path,
        saved_size: data.len(),
        built_since_save: 0,
        pipelines: Vec::new(),
        saving: None,
        outcome: Outcome::default(),
    };
    drop(data);
    for seed in 0..route.pipelines {
        game.pipeline(seed)?;
    }
    game.outcome.start = start.elapsed();
    game.frames()?;
    game.save()?;
    game.saved()?;
    let Game {
        gpu,
        cache,
        pipelines,
        outcome,
        ..
    } = game;
    for pipeline in pipelines {
        gpu.drop_pipeline(pipeline);
    }
    gpu.drop_cache(cache);
    gpu.close();
    Ok(outcome)
}

impl Game<'_> {
    fn pipeline(&mut self, seed: u64) -> Result<()> {
        let made = self
            .gpu
            .compute(self.cache, seed, vk::PipelineCreateFlags::empty())?;
        self.pipelines.push(made);
        self.built_since_save += 1;
        Ok(())
    }

    fn frames(&mut self) -> Result<()> {
        let data = data_file(&self.route.folder)?;
        let blocks = data.metadata()?.len() / READ as u64;
        let fence = self.gpu.fence(false)?;
        let every = u64::from(self.route.frames) / self.route.new.max(1);
        let mut next_new = self.route.new_seed;
        let mut block = 1_u64;
        let mut buffer = Block([0; READ]);
        for number in 0..self.route.frames {
            let began = Instant::now();
            let counts = number >= self.route.counted_from;
            for _ in 0..self.route.reads {
                block = (block.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
                let offset = (block >> 20) % blocks.max(1) * READ as u64;
                let read_began = Instant::now();
                data.read_exact_at(&mut buffer.0, offset)?;
                if counts {
                    self.outcome.reads.push(read_began.elapsed());
                }
            }
            let is_new = self.route.new > 0 && u64::from(number) % every.max(1) == 0;
            if is_new && next_new < self.route.new_seed + self.route.new {
                self.pipeline(next_new)?;
                next_new += 1;
            }
            if number > 0 && number % SAVE_CHECK == 0 && self.built_since_save > SAVE_AFTER {
                self.save()?;
            }
            self.gpu.present(fence)?;
            std::thread::sleep(self.route.frame.saturating_sub(began.elapsed()));
            if counts {
                self.outcome.frames.push(began.elapsed());
            }
        }
        self.gpu.drop_fence(fence);
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        if self.built_since_save == 0 {
            return Ok(());
        }
        self.saved()?;
        self.built_since_save = 0;
        let is_same = self.route.saves == Saves::SizeFirst
            && self.gpu.cache_size(self.cache)? == self.saved_size;
        if !is_same {
            let (device, cache) = (self.gpu.device.clone(), self.cache);
            let path = self.path.clone();
            self.saving = Some(std::thread::spawn(move || write(&device, cache, &path)));
        }
        Ok(())
    }

    /// Waits for the save that runs, if one does.
    fn saved(&mut self) -> Result<()> {
        if let Some(saving) = self.saving.take() {
            let saved = saving.join().ok().context("the saving thread panicked")??;
            self.saved_size = saved.bytes;
            self.outcome.writes += 1;
            self.outcome.bytes_written += saved.bytes as u64;
            self.outcome.saving += saved.took;
        }
        Ok(())
    }
}

/// Fetches the whole cache and writes it to a new file, which then takes the old one's name.
fn write(device: &ash::Device, cache: vk::PipelineCache, path: &Path) -> Result<Saved> {
    let began = Instant::now();
    let data = gpu::cache_data(device, cache)?;
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(&data)?;
    drop(file);
    std::fs::rename(&temporary, path)?;
    Ok(Saved {
        bytes: data.len(),
        took: began.elapsed(),
    })
}

/// A buffer that unbuffered reads may use.
#[repr(align(4096))]
struct Block([u8; READ]);

/// The file that frames read, past the page cache where the file system allows it.
fn data_file(folder: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = folder.join("romfs.bin");
    if !path.exists() {
        let piece = vec![0x5a_u8; 1 << 20];
        let mut file = File::create(&path)?;
        for _ in 0..64 {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
    }
    let mut options = File::options();
    options.read(true);
    let direct = options.clone().custom_flags(libc::O_DIRECT).open(&path);
    direct
        .or_else(|_no_direct| options.open(&path))
        .context("the game's data file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_counts_from_the_frames_that_count() {
        let outcome = Outcome {
            frames: [10, 17, 26, 40].map(Duration::from_millis).to_vec(),
            reads: [1, 11].map(Duration::from_millis).to_vec(),
            ..Outcome::default()
        };
        let table = outcome.table(Duration::from_millis(16));
        for line in [
            "frames over 25 ms: 2\n",
            "frames over 33.4 ms: 1\n",
            "time late: 35.0 ms\n",
            "1% low: 25.0 fps\n",
            "reads over 10 ms: 1\n",
            "worst read: 11.00 ms\n",
        ] {
            assert!(table.contains(line), "{line} in {table}");
        }
    }
}
