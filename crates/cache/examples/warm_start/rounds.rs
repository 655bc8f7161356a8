//! The arms in turn, each in a fresh process.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

use crate::{Failure, Settings, pages};

const DESIGN: &str = "each sample is a fresh process; cold = null cache, driver's disk cache off; driver_cache = null cache, driver's disk cache on and filled; driver_cache_and_empty_cache = the same with an empty VkPipelineCache; store = overlay of the store, driver's disk cache off; binaries = pipeline binaries from the store under the driver's keys; named_binaries = the same under the program's own names, no SPIR-V given to the driver; ..._not_in_memory = the cache files taken out of the page cache before; time from vkCreateDevice's return to the last pipeline";

/// Folders of one comparison.
struct Places {
    store: PathBuf,
    driver: PathBuf,
    off: PathBuf,
}

/// One arm of the comparison.
#[derive(Clone)]
struct Arm {
    name: String,
    way: &'static str,
    /// The driver's own disk cache is on.
    with_driver: bool,
    threads: usize,
    /// The cache files are taken out of the page cache before each run.
    evicted: bool,
    is_cold: bool,
}

/// Runs all arms and writes the JSON document.
pub(crate) fn drive(settings: &Settings) -> Result<(), Failure> {
    let root = std::env::temp_dir().join(format!("towpath-warm-start-{}", std::process::id()));
    let places = Places {
        store: root.join("store"),
        driver: root.join("driver"),
        off: root.join("off"),
    };
    for folder in [&places.store, &places.driver, &places.off] {
        std::fs::create_dir_all(folder)?;
    }
    let result = all(settings, &places);
    std::fs::remove_dir_all(&root)?;
    let document = result?;
    println!("{:#}", document["summary"]);
    if let Some(path) = &settings.json {
        std::fs::write(path, serde_json::to_string_pretty(&document)?)?;
    }
    Ok(())
}

fn arms(settings: &Settings, has_binaries: bool) -> Vec<Arm> {
    let mut arms = Vec::new();
    for &threads in &settings.threads {
        let suffix = if threads == 1 {
            String::new()
        } else {
            format!("_{threads}_threads")
        };
        let mut add = |name: &str, way, with_driver, evicted| {
            let is_wanted = settings.only.is_empty() || settings.only.iter().any(|one| one == name);
            if !is_wanted && name != "cold" {
                return;
            }
            arms.push(Arm {
                name: format!("{name}{suffix}"),
                way,
                with_driver,
                threads,
                evicted,
                // As slow as cold on some drivers, and so run as seldom.
                is_cold: matches!(name, "cold" | "driver_cache_and_empty_cache"),
            });
        };
        if settings.cold_threads.contains(&threads) {
            add("cold", "null", false, false);
        }
        add("driver_cache", "null", true, false);
        add("driver_cache_and_empty_cache", "empty", true, false);
        add("store", "store", false, false);
        add("store_and_driver", "store", true, false);
        if has_binaries {
            add("binaries", "binaries", false, false);
            add("named_binaries", "named", false, false);
        }
        if settings.evict {
            add("driver_cache_not_in_memory", "null", true, true);
            add("store_not_in_memory", "store", false, true);
            if has_binaries {
                add("named_binaries_not_in_memory", "named", false, true);
            }
        }
    }
    arms
}

fn all(settings: &Settings, places: &Places) -> Result<Value, Failure> {
    // Filling is cold work too, but its runs also save and use all processors: they are kept apart.
    eprintln!("filling the store, then the driver's own cache");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let fill = |way: &'static str, with_driver| {
        let arm = Arm {
            name: format!("fill {way}"),
            way,
            with_driver,
            threads: cores,
            evicted: false,
            is_cold: true,
        };
        one(settings, &arm, places)
    };
    let fill_store = fill("store", false)?;
    // A driver on which binaries do not work must not cost the other arms.
    let wanted =
        |name: &str| settings.only.is_empty() || settings.only.iter().any(|one| one == name);
    let try_fill =
        |arm| fill(arm, false).unwrap_or_else(|error| json!({ "skipped": error.to_string() }));
    let fill_binaries = if wanted("binaries") {
        try_fill("binaries")
    } else {
        Value::Null
    };
    let fill_named = try_fill("named");
    let fill_driver = fill("null", true)?;
    let has_binaries = fill_binaries["skipped"].is_null() && fill_named["skipped"].is_null();
    let arms = arms(settings, has_binaries);
    let samples = sample(settings, places, &arms)?;
    Ok(json!({
        "schema": "towpath.bench-warm-start/2",
        "count": settings.count,
        "steps": settings.size.steps,
        "idle_steps": settings.size.idle,
        "idle_form": settings.size.form.to_string(),
        "spirv_bytes_of_one": crate::spirv::shader(0, settings.size).len() * 4,
        "environment": environment(settings)?,
        "design": DESIGN,
        "summary": summary(&samples, &fill_store),
        "fill_store": fill_store,
        "fill_driver": fill_driver,
        "fill_binaries": fill_binaries,
        "fill_named": fill_named,
        "samples": samples,
    }))
}

/// All rounds, the arms alternated; samples by arm.
fn sample(settings: &Settings, places: &Places, arms: &[Arm]) -> Result<Value, Failure> {
    let mut samples = Map::new();
    for arm in arms {
        samples.insert(arm.name.clone(), json!([]));
    }
    let start = std::time::Instant::now();
    // An arm that fails once must not cost the others.
    let mut failed = std::collections::BTreeSet::new();
    for round in 0..settings.rounds.max(3 * settings.cold_rounds) {
        if start.elapsed().as_secs() >= settings.seconds_max {
            eprintln!("no time for more than {round} rounds");
            break;
        }
        let is_due = |arm: &&Arm| {
            let is_due = if arm.is_cold {
                // Every third round, so that cold runs do not all come first.
                round.is_multiple_of(3) && round / 3 < settings.cold_rounds
            } else {
                round < settings.rounds
            };
            is_due && !failed.contains(&arm.name)
        };
        let mut due: Vec<Arm> = arms.iter().filter(is_due).cloned().collect();
        // The order turns from round to round, so that no arm is always the one after a cold run.
        let turn = usize::try_from(round)? * 3 % due.len().max(1);
        due.rotate_left(turn);
        for arm in due {
            let sample = match one(settings, &arm, places) {
                Ok(sample) => sample,
                Err(error) => {
                    eprintln!("round {round} {}: {error}", arm.name);
                    failed.insert(arm.name);
                    continue;
                }
            };
            let took = &sample["device_to_last_pipeline_ms"];
            eprintln!("round {round} {}: {took}", arm.name);
            if let Some(list) = samples.get_mut(&arm.name).and_then(Value::as_array_mut) {
                list.push(sample);
            }
        }
    }
    Ok(Value::Object(samples))
}

/// One arm in a fresh process, with the driver's disk cache on or off.
fn one(settings: &Settings, arm: &Arm, places: &Places) -> Result<Value, Failure> {
    let (on, disabled) = if arm.with_driver {
        ("1", "false")
    } else {
        ("0", "true")
    };
    let cache = if arm.with_driver {
        &places.driver
    } else {
        &places.off
    };
    let stayed = arm
        .evicted
        .then(|| [&places.store, &places.driver].map(|folder| pages::evict(folder)));
    let output = Command::new(std::env::current_exe()?)
        .args(["--arm", arm.way, "--count", &settings.count.to_string()])
        .args(["--steps", &settings.size.steps.to_string()])
        .args(["--idle", &settings.size.idle.to_string()])
        .args(["--form", &settings.size.form.to_string()])
        .args(["--threads", &arm.threads.to_string()])
        .args(["--device", &settings.device.to_string()])
        .arg("--folder")
        .arg(&places.store)
        // NVIDIA's, then Mesa's.
        .env("__GL_SHADER_DISK_CACHE", on)
        .env("__GL_SHADER_DISK_CACHE_PATH", cache)
        .env("__GL_SHADER_DISK_CACHE_SKIP_CLEANUP", "1")
        .env("MESA_SHADER_CACHE_DISABLE", disabled)
        .env("MESA_SHADER_CACHE_DIR", cache)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("arm {} ended with {}", arm.name, output.status).into());
    }
    let mut sample: Value = serde_json::from_slice(&output.stdout)?;
    sample["cache_files_in_memory_kib"] = json!({
        "before": stayed.map(|[store, driver]| json!({ "store": store, "driver": driver })),
        "after": { "store": pages::resident(&places.store), "driver": pages::resident(&places.driver) },
    });
    Ok(sample)
}

fn environment(settings: &Settings) -> Result<Value, Failure> {
    let gpu = crate::gpu::Gpu::new(settings.device, false)?;
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let commit = commit.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    Ok(json!({
        "cpu": cpu.map(|text| text.trim_start_matches([' ', '\t', ':'])),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": kernel.trim(),
        "driver": gpu.identity().text(),
        "offers": gpu.offers(),
        "commit": commit.unwrap_or_default(),
    }))
}

fn median(list: &Value) -> Option<f64> {
    let times = list.as_array()?.iter();
    let mut times: Vec<f64> = times
        .filter_map(|sample| sample["device_to_last_pipeline_ms"].as_f64())
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// Pipelines found, by run; null for arms that do not count them.
fn hits(list: &Value) -> Value {
    let all = list.as_array().into_iter().flatten();
    all.map(|sample| sample["hits"].clone()).collect()
}

/// Medians, and every arm against cold and against the driver's own cache of the same threads and files.
fn summary(samples: &Value, fill: &Value) -> Value {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let mut out = Map::new();
    out.insert(
        "bytes_written_per_new_byte".to_owned(),
        json!(number(&fill["bytes_written"]) / number(&fill["new_bytes"])),
    );
    for (name, list) in samples.as_object().into_iter().flatten() {
        let threads = name.find(|c: char| c.is_ascii_digit());
        let suffix = threads.map_or("", |at| name.get(at - 1..).unwrap_or_default());
        let files = if name.contains("_not_in_memory") {
            "_not_in_memory"
        } else {
            ""
        };
        let driver = median(&samples[format!("driver_cache{files}{suffix}")]);
        let cold = median(&samples[format!("cold{suffix}")]);
        let Some(own) = median(list) else { continue };
        out.insert(
            name.clone(),
            json!({
                "median_ms": own,
                "hits": hits(list),
                "faster_than_cold": cold.map(|cold| cold / own),
                "faster_than_driver_cache": driver.map(|driver| driver / own),
            }),
        );
    }
    Value::Object(out)
}
