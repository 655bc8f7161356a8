//! The arms: one way each of making all pipelines, run in a process of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ash::vk;
use serde_json::{Value, json};
use towpath_cache::vulkan::{Binaries, Made, Overlay, Saved};
use towpath_cache::{Folder, Options, Pace, open_or_memory};

use crate::gpu::{Gpu, Split};
use crate::{Failure, Settings, spirv};

/// Binaries that the driver does not take after which the arm gives up: it would compile all of them.
const REFUSED_MAX: u64 = 100;

/// Pipelines that one call makes where they are made from binaries by name.
const BATCH: usize = 64;

/// One arm in this process.
///
/// - `null`: no cache of the program's; cold, or from the driver's own disk cache.
/// - `empty`: an empty VkPipelineCache, as many programs pass.
/// - `store`: the overlay, from and to the store in `--folder`.
/// - `binaries`: pipeline binaries under the driver's keys.
/// - `named`: pipeline binaries under the program's own names: no SPIR-V is given to the driver.
pub(crate) fn run(arm: &str, settings: &Settings) -> Result<Value, Failure> {
    // Shader words are made before the clock starts: they are the program's, not the driver's work.
    let shaders: Vec<Vec<u32>> = (0..settings.count)
        .map(|n| spirv::shader(n, settings.size))
        .collect();
    let start = Instant::now();
    let gpu = Gpu::new(settings.device, matches!(arm, "binaries" | "named"))?;
    let device_ms = ms(start);
    let mut out = match arm {
        "null" => plain(&gpu, settings, &shaders, false)?,
        "empty" => plain(&gpu, settings, &shaders, true)?,
        "store" => store(&gpu, settings, &shaders)?,
        "binaries" => binaries(&gpu, settings, &shaders)?,
        "named" => named(&gpu, settings, &shaders)?,
        other => return Err(format!("unknown arm {other}").into()),
    };
    out["instance_and_device_ms"] = json!(device_ms);
    out["start_to_last_pipeline_ms"] =
        json!(device_ms + out["device_to_last_pipeline_ms"].as_f64().unwrap_or(0.0));
    out["summed_over_threads_ms"] = gpu.split.json();
    out["memory"] = memory();
    out["offers"] = json!(gpu.offers());
    if arm == "named" || arm == "binaries" {
        out["binary_properties"] = json!(gpu.binary_properties());
    }
    Ok(out)
}

/// Calls `work` with a part of the items on each of so many threads.
fn each<T: Sync>(
    threads: usize,
    items: &[T],
    work: impl Fn(usize, &[T]) -> Result<(), String> + Sync,
) -> Result<(), Failure> {
    let part = items.len().div_ceil(threads.max(1)).max(1);
    if threads <= 1 {
        return Ok(work(0, items)?);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let parts = items.chunks(part).enumerate();
        let running: Vec<_> = parts
            .map(|(n, items)| scope.spawn(move || work(n * part, items)))
            .collect();
        running.into_iter().try_for_each(|thread| {
            let panicked = |_panic| Err("a thread panicked".to_owned());
            thread.join().unwrap_or_else(panicked)
        })
    })?;
    Ok(())
}

fn threads(settings: &Settings) -> usize {
    settings.threads.first().copied().unwrap_or(1)
}

fn plain(
    gpu: &Gpu,
    settings: &Settings,
    shaders: &[Vec<u32>],
    with_cache: bool,
) -> Result<Value, Failure> {
    let start = Instant::now();
    let cache = if with_cache {
        gpu.empty_cache()?
    } else {
        vk::PipelineCache::null()
    };
    each(threads(settings), shaders, |_, shaders| {
        for words in shaders {
            let code = gpu.pipeline(words, cache, vk::PipelineCreateFlags::empty());
            if code != vk::Result::SUCCESS {
                return Err(format!("pipeline creation answers {code:?}"));
            }
        }
        Ok(())
    })?;
    let out = json!({ "device_to_last_pipeline_ms": ms(start) });
    gpu.destroy_cache(cache);
    Ok(out)
}

/// The store of this arm, written without a pace: the fill is not what is measured.
fn open(
    gpu: &Gpu,
    settings: &Settings,
    sub: &str,
) -> Result<(std::sync::Arc<towpath_cache::Store>, std::sync::Arc<Folder>), Failure> {
    let root = settings
        .folder
        .clone()
        .ok_or("this arm needs --folder")?
        .join(sub);
    let identity = gpu.identity();
    let opened = open_or_memory(&[root], &identity, &Options::new(identity.hash()));
    for problem in &opened.problems {
        eprintln!("{problem}");
    }
    let folder = opened.folder.ok_or("the store's folder cannot be used")?;
    folder.set_pace(Pace::PROMPT);
    Ok((opened.store, folder))
}

fn store(gpu: &Gpu, settings: &Settings, shaders: &[Vec<u32>]) -> Result<Value, Failure> {
    let io_before = towpath_cache::storage::ProcessIo::now();
    let start = Instant::now();
    let (store, folder) = open(gpu, settings, "")?;
    let opened_ms = ms(start);
    #[expect(unsafe_code, reason = "Vulkan")]
    // SAFETY: the device is alive; the overlay is dropped at the end of this function, before it.
    let overlay = unsafe { Overlay::load(gpu.device.clone(), store, &gpu.identity(), None) }?;
    let loaded_ms = ms(start);
    let anonymous_kib = memory()["RssAnon"].clone();
    let hits = AtomicU64::new(0);
    let make = |shaders: &[Vec<u32>]| {
        for words in shaders {
            match overlay.create(|cache, flags| gpu.pipeline(words, cache, flags)) {
                Made::Hit => {
                    hits.fetch_add(1, Ordering::Relaxed);
                }
                Made::New => {}
                Made::Failed(code) => return Err(format!("creation answers {code:?}")),
            }
        }
        Ok(())
    };
    // The last twelve times 32 are saved in twelve saves, as in a first session after an update.
    let (first, late) = shaders.split_at(shaders.len().saturating_sub(12 * 32));
    each(threads(settings), first, |_, part| make(part))?;
    let (mut new_bytes, mut saves) = (0_u64, 0_u64);
    let mut save = || -> Result<(), Failure> {
        if let Saved::Written { bytes, .. } = overlay.save()? {
            new_bytes += bytes;
            saves += 1;
        }
        Ok(())
    };
    if hits.load(Ordering::Relaxed) == first.len() as u64 && !first.is_empty() {
        each(threads(settings), late, |_, part| make(part))?;
    } else {
        save()?;
        for part in late.chunks(32) {
            make(part)?;
            save()?;
        }
    }
    let last_ms = ms(start);
    save()?;
    overlay.store().seal()?;
    let io = towpath_cache::storage::ProcessIo::now().since(&io_before);
    Ok(json!({
        "open_store_ms": opened_ms,
        "store_to_caches_ms": loaded_ms,
        "rss_anon_kib_after_load": anonymous_kib,
        "device_to_last_pipeline_ms": last_ms,
        "hits": hits.into_inner(),
        "saves": saves,
        "new_bytes": new_bytes,
        "bytes_written": folder.counts().bytes_written,
        "process_write_bytes": io.write_bytes,
        "store_counts": format!("{:?}", folder.counts()),
        "load": format!("{:?}", overlay.report()),
    }))
}

/// What became of the pipelines of an arm with binaries.
#[derive(Debug, Default)]
struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
    new_bytes: AtomicU64,
    /// The store had binaries at the start.
    is_warm: bool,
}

impl Tally {
    /// Adds a pipeline: `None` is a hit, else the bytes that were captured.
    fn add(&self, new: Option<u64>) -> Result<(), String> {
        let Some(bytes) = new else {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        self.new_bytes.fetch_add(bytes, Ordering::Relaxed);
        let misses = self.misses.fetch_add(1, Ordering::Relaxed) + 1;
        if self.is_warm && misses > REFUSED_MAX {
            return Err(format!("the driver refused {misses} pipelines' binaries"));
        }
        Ok(())
    }
}

/// Opens the store of binaries, lets `work` make the pipelines, and reports.
fn with_binaries(
    gpu: &Gpu,
    settings: &Settings,
    sub: &str,
    work: impl FnOnce(&Binaries, &Tally) -> Result<(), Failure>,
) -> Result<Value, Failure> {
    if !gpu.has_binaries {
        return Ok(json!({ "skipped": "no VK_KHR_pipeline_binary" }));
    }
    let start = Instant::now();
    let (store, folder) = open(gpu, settings, sub)?;
    let tally = Tally {
        is_warm: !store.entries(None).is_empty(),
        ..Tally::default()
    };
    #[expect(unsafe_code, reason = "Vulkan")]
    // SAFETY: the device is alive, has the extension enabled, and outlives this function.
    let binaries = unsafe { Binaries::new(&gpu.instance, gpu.device.clone(), store) };
    let binaries = binaries.ok_or("the driver lacks functions of VK_KHR_pipeline_binary")?;
    let opened_ms = ms(start);
    work(&binaries, &tally)?;
    let last_ms = ms(start);
    binaries.store().seal()?;
    Ok(json!({
        "open_store_ms": opened_ms,
        "device_to_last_pipeline_ms": last_ms,
        "hits": tally.hits.into_inner(),
        "new_bytes": tally.new_bytes.into_inner(),
        "bytes_written": folder.counts().bytes_written,
    }))
}

fn binaries(gpu: &Gpu, settings: &Settings, shaders: &[Vec<u32>]) -> Result<Value, Failure> {
    with_binaries(gpu, settings, "binaries", |binaries, tally| {
        each(threads(settings), shaders, |_, shaders| {
            for words in shaders {
                let made = gpu.pipeline_by_key(words, binaries);
                tally.add(made.map_err(|error| error.to_string())?)?;
            }
            Ok(())
        })
    })
}

fn named(gpu: &Gpu, settings: &Settings, shaders: &[Vec<u32>]) -> Result<Value, Failure> {
    with_binaries(gpu, settings, "named", |binaries, tally| {
        each(threads(settings), shaders, |first, shaders| {
            for (n, part) in shaders.chunks(BATCH).enumerate() {
                let first = first + n * BATCH;
                let made = gpu.pipelines_by_name(first, part, binaries);
                for new in made.map_err(|error| error.to_string())? {
                    tally.add(new)?;
                }
            }
            Ok(())
        })
    })
}

impl Split {
    fn json(&self) -> Value {
        let ms = |nanos: &AtomicU64| json!(nanos.load(Ordering::Relaxed) as f64 / 1e6);
        json!({
            "shader_modules": ms(&self.modules),
            "pipeline_keys": ms(&self.keys),
            "binaries_to_driver": ms(&self.loads),
            "create_calls": ms(&self.creates),
        })
    }
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// VmRSS, RssAnon and VmHWM of this process in KiB.
fn memory() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse::<u64>().ok())
    };
    json!({ "VmRSS": field("VmRSS"), "RssAnon": field("RssAnon"), "VmHWM": field("VmHWM") })
}
