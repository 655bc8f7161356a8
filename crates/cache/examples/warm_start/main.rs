//! How fast a program starts: cold, from the driver's own disk cache, and from the store.
//!
//! Makes thousands of different compute pipelines, each run in a fresh process with a private cache
//! folder of the driver, the arms in turn, and prints one JSON document with every sample.
//!
//! ```text
//! cargo run --release -p towpath-cache --example warm_start -- --count 2000 --rounds 5 --json out.json
//! ```
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "an index into a JSON value answers null, it does not panic"
)]

mod gpu;
mod rounds;
mod spirv;

use std::path::PathBuf;
use std::time::Instant;

use ash::vk;
use serde_json::{Value, json};
use towpath_cache::{Options, Pace, open_or_memory, vulkan};

type Failure = Box<dyn std::error::Error>;

/// What the command line says.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) count: u64,
    pub(crate) steps: usize,
    pub(crate) rounds: u32,
    pub(crate) cold_rounds: u32,
    pub(crate) device: usize,
    pub(crate) json: Option<PathBuf>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) arm: Option<String>,
}

fn main() -> Result<(), Failure> {
    let settings = read_arguments(std::env::args().skip(1))?;
    match settings.arm.clone() {
        None => rounds::drive(&settings),
        Some(arm) => {
            println!("{}", run_arm(&arm, &settings)?);
            Ok(())
        }
    }
}

fn read_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Settings, Failure> {
    let mut settings = Settings {
        count: 2000,
        steps: 300,
        rounds: 5,
        cold_rounds: 3,
        device: 0,
        json: None,
        folder: None,
        arm: None,
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--count" => settings.count = value.parse()?,
            "--steps" => settings.steps = value.parse()?,
            "--rounds" => settings.rounds = value.parse()?,
            "--cold-rounds" => settings.cold_rounds = value.parse()?,
            "--device" => settings.device = value.parse()?,
            "--json" => settings.json = Some(value.into()),
            "--folder" => settings.folder = Some(value.into()),
            "--arm" => settings.arm = Some(value),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(settings)
}

/// One arm in this process: `null` without a cache, `store` and `binaries` from and to the store in `--folder`.
fn run_arm(arm: &str, settings: &Settings) -> Result<Value, Failure> {
    let start = Instant::now();
    let mut gpu = gpu::Gpu::new(settings.device, arm == "binaries")?;
    let device_ms = ms(start);
    let mut out = match arm {
        "null" => null(&mut gpu, settings)?,
        "store" => store(&mut gpu, settings)?,
        "binaries" => binaries(&mut gpu, settings)?,
        other => return Err(format!("unknown arm {other}").into()),
    };
    out["instance_and_device_ms"] = json!(device_ms);
    out["start_to_last_pipeline_ms"] =
        json!(device_ms + out["device_to_last_pipeline_ms"].as_f64().unwrap_or(0.0));
    out["memory"] = memory();
    Ok(out)
}

fn null(gpu: &mut gpu::Gpu, settings: &Settings) -> Result<Value, Failure> {
    // Shader words are made before the clock starts: they are the program's, not the driver's work.
    let shaders: Vec<Vec<u32>> = (0..settings.count)
        .map(|n| spirv::shader(n, settings.steps))
        .collect();
    let start = Instant::now();
    for words in &shaders {
        let code = gpu.pipeline(
            words,
            vk::PipelineCache::null(),
            vk::PipelineCreateFlags::empty(),
        );
        if code != vk::Result::SUCCESS {
            return Err(format!("pipeline creation answers {code:?}").into());
        }
    }
    Ok(json!({ "device_to_last_pipeline_ms": ms(start) }))
}

fn store(gpu: &mut gpu::Gpu, settings: &Settings) -> Result<Value, Failure> {
    let shaders: Vec<Vec<u32>> = (0..settings.count)
        .map(|n| spirv::shader(n, settings.steps))
        .collect();
    let root = settings
        .folder
        .clone()
        .ok_or("--arm store needs --folder")?;
    let identity = gpu.identity();
    let device = gpu.device.clone();
    let io_before = towpath_cache::storage::ProcessIo::now();
    let start = Instant::now();
    let opened = open_or_memory(&[root], &identity, &Options::new(identity.hash()));
    for problem in &opened.problems {
        eprintln!("{problem}");
    }
    let folder = opened.folder.ok_or("the store's folder cannot be used")?;
    folder.set_pace(Pace::PROMPT);
    let opened_ms = ms(start);
    #[expect(unsafe_code, reason = "Vulkan")]
    // SAFETY: the device is alive; the overlay is dropped at the end of this function, before it.
    let overlay = unsafe { vulkan::Overlay::load(device, opened.store, &identity, None) }?;
    let loaded_ms = ms(start);
    let anonymous_kib = memory()["RssAnon"].clone();
    let (mut hits, mut new_bytes, mut saves) = (0_u64, 0_u64, 0_u64);
    // The last twelve times 32 are saved in twelve saves, as in a first session after an update.
    let batches = settings.count.saturating_sub(12 * 32);
    for (n, words) in shaders.iter().enumerate() {
        let made = overlay.create(|cache, flags| gpu.pipeline(words, cache, flags));
        match made {
            vulkan::Made::Hit => hits += 1,
            vulkan::Made::New => {}
            vulkan::Made::Failed(code) => return Err(format!("creation answers {code:?}").into()),
        }
        let done = n as u64 + 1;
        if done >= batches
            && (done - batches).is_multiple_of(32)
            && let vulkan::Saved::Written { bytes, .. } = overlay.save()?
        {
            new_bytes += bytes;
            saves += 1;
        }
    }
    let last_ms = ms(start);
    overlay.save()?;
    overlay.store().seal()?;
    let written = folder.counts().bytes_written;
    let io = towpath_cache::storage::ProcessIo::now().since(&io_before);
    Ok(json!({
        "open_store_ms": opened_ms,
        "store_to_caches_ms": loaded_ms,
        "rss_anon_kib_after_load": anonymous_kib,
        "device_to_last_pipeline_ms": last_ms,
        "hits": hits,
        "saves": saves,
        "new_bytes": new_bytes,
        "bytes_written": written,
        "process_write_bytes": io.write_bytes,
        "store_counts": format!("{:?}", folder.counts()),
        "load": format!("{:?}", overlay.report()),
    }))
}

/// Pipeline binaries from and to the store; an arm of its own, since not every driver has them.
fn binaries(gpu: &mut gpu::Gpu, settings: &Settings) -> Result<Value, Failure> {
    if !gpu.has_binaries {
        return Ok(json!({ "skipped": "no VK_KHR_pipeline_binary" }));
    }
    let shaders: Vec<Vec<u32>> = (0..settings.count)
        .map(|n| spirv::shader(n, settings.steps))
        .collect();
    let root = settings
        .folder
        .clone()
        .ok_or("--arm binaries needs --folder")?;
    let identity = gpu.identity();
    let start = Instant::now();
    let opened = open_or_memory(
        &[root.join("binaries")],
        &identity,
        &Options::new(identity.hash()),
    );
    let folder = opened.folder.ok_or("the store's folder cannot be used")?;
    #[expect(unsafe_code, reason = "Vulkan")]
    // SAFETY: the device is alive, has the extension enabled, and outlives this function.
    let binaries =
        unsafe { vulkan::Binaries::new(&gpu.instance, gpu.device.clone(), opened.store) };
    let binaries = binaries.ok_or("the driver lacks functions of VK_KHR_pipeline_binary")?;
    let (mut hits, mut new_bytes) = (0_u64, 0_u64);
    for words in &shaders {
        hits += u64::from(gpu.pipeline_of_binaries(words, &binaries, &mut new_bytes)?);
    }
    let last_ms = ms(start);
    binaries.store().seal()?;
    Ok(json!({
        "device_to_last_pipeline_ms": last_ms,
        "hits": hits,
        "new_bytes": new_bytes,
        "bytes_written": folder.counts().bytes_written,
    }))
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
