//! The arms in turn, each in a fresh process.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{Failure, Settings};

/// Runs all arms and writes the JSON document.
pub(crate) fn drive(settings: &Settings) -> Result<(), Failure> {
    let root = std::env::temp_dir().join(format!("towpath-warm-start-{}", std::process::id()));
    let (store, driver, off) = (root.join("store"), root.join("driver"), root.join("off"));
    for folder in [&store, &driver, &off] {
        std::fs::create_dir_all(folder)?;
    }
    let result = all(settings, &store, &driver, &off);
    std::fs::remove_dir_all(&root)?;
    let document = result?;
    println!("{}", document["summary"]);
    if let Some(path) = &settings.json {
        std::fs::write(path, serde_json::to_string_pretty(&document)?)?;
    }
    Ok(())
}

fn all(settings: &Settings, store: &Path, driver: &Path, off: &Path) -> Result<Value, Failure> {
    // Filling is cold work too, but its runs also save: they are kept apart.
    eprintln!("filling the store, then the driver's own cache");
    let fill_store = one(settings, "store", store, None, off)?;
    // A driver on which binaries do not work must not cost the other arms.
    let fill_binaries = one(settings, "binaries", store, None, off)
        .unwrap_or_else(|error| json!({ "skipped": error.to_string() }));
    let fill_driver = one(settings, "null", store, Some(driver), off)?;
    let mut samples = json!({ "cold": [], "driver_cache": [], "store": [], "store_and_driver": [], "binaries": [] });
    for round in 0..settings.rounds.max(settings.cold_rounds) {
        let mut arms = Vec::new();
        if round < settings.cold_rounds {
            arms.push(("cold", "null", None));
        }
        if round < settings.rounds {
            arms.push(("driver_cache", "null", Some(driver)));
            arms.push(("store", "store", None));
            arms.push(("store_and_driver", "store", Some(driver)));
            if fill_binaries["skipped"].is_null() {
                arms.push(("binaries", "binaries", None));
            }
        }
        // The order turns from round to round, so that no arm is always the one after a cold run.
        let turn = usize::try_from(round)? % arms.len().max(1);
        arms.rotate_left(turn);
        for (name, arm, cache) in arms {
            let sample = one(settings, arm, store, cache, off)?;
            eprintln!(
                "round {round} {name}: {}",
                sample["device_to_last_pipeline_ms"]
            );
            if let Some(list) = samples[name].as_array_mut() {
                list.push(sample);
            }
        }
    }
    Ok(json!({
        "schema": "towpath.bench-warm-start/1",
        "count": settings.count,
        "steps": settings.steps,
        "environment": environment(settings)?,
        "design": "each sample is a fresh process; cold = null cache, driver's disk cache off; driver_cache = null cache, driver's disk cache on and filled; store = store, driver's disk cache off; time from vkCreateDevice's return to the last pipeline",
        "summary": summary(&samples, &fill_store),
        "fill_store": fill_store,
        "fill_driver": fill_driver,
        "fill_binaries": fill_binaries,
        "samples": samples,
    }))
}

/// One arm in a fresh process with the driver's disk cache in `cache`, or off.
fn one(
    settings: &Settings,
    arm: &str,
    store: &Path,
    cache: Option<&Path>,
    off: &Path,
) -> Result<Value, Failure> {
    let on = if cache.is_some() { "1" } else { "0" };
    let disabled = if cache.is_some() { "false" } else { "true" };
    let output = Command::new(std::env::current_exe()?)
        .args(["--arm", arm, "--count", &settings.count.to_string()])
        .args(["--steps", &settings.steps.to_string()])
        .args(["--device", &settings.device.to_string()])
        .arg("--folder")
        .arg(store)
        // NVIDIA's, then Mesa's.
        .env("__GL_SHADER_DISK_CACHE", on)
        .env("__GL_SHADER_DISK_CACHE_PATH", cache.unwrap_or(off))
        .env("__GL_SHADER_DISK_CACHE_SKIP_CLEANUP", "1")
        .env("MESA_SHADER_CACHE_DISABLE", disabled)
        .env("MESA_SHADER_CACHE_DIR", cache.unwrap_or(off))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("arm {arm} ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
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
        "kernel": kernel.trim(),
        "driver": gpu.identity().text(),
        "commit": commit.unwrap_or_default(),
    }))
}

fn summary(samples: &Value, fill: &Value) -> Value {
    let median = |arm: &str| {
        let list = samples[arm]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut times: Vec<f64> = list
            .iter()
            .filter_map(|s| s["device_to_last_pipeline_ms"].as_f64())
            .collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let store = median("store");
    json!({
        "cold_ms": median("cold"),
        "driver_cache_ms": median("driver_cache"),
        "store_ms": store,
        "store_and_driver_ms": median("store_and_driver"),
        "binaries_ms": median("binaries"),
        "store_against_cold": median("cold") / store,
        "store_against_driver_cache": median("driver_cache") / store,
        "bytes_written_per_new_byte": number(&fill["bytes_written"]) / number(&fill["new_bytes"]),
        "hits": samples["store"].as_array().map(|list| list.iter().map(|s| s["hits"].clone()).collect::<Vec<_>>()),
        "bytes_written_warm": samples["store"].as_array().map(|list| list.iter().map(|s| s["bytes_written"].clone()).collect::<Vec<_>>()),
    })
}
