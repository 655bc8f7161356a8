//! Twelve saves of 32 new entries, once per arm and round, while the probe reads.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};
use towpath_cache::storage::ProcessIo;
use towpath_measure::sample::{quantile, sorted};

use super::arms::{ARMS, make};
use super::probe::Probe;
use super::{Args, ENTRY_BYTES_MEAN, entry};

const SAVES: usize = 12;
const NEW_ENTRIES: usize = 32;
/// The probe goes on so long after the last save: writeback comes late.
const AFTER: std::time::Duration = std::time::Duration::from_millis(400);

pub(super) fn measure(place: &Path, args: &Args) -> Result<Value> {
    std::fs::create_dir_all(place)?;
    let probe = Probe::new(&place.join("probe"))?;
    let mut random = fastrand::Rng::with_seed(args.seed);
    let count = (usize::try_from(args.base_mib)? << 20) / ENTRY_BYTES_MEAN;
    let base: Vec<Vec<u8>> = (0..count.max(1)).map(|_| entry(&mut random)).collect();
    let news: Vec<Vec<Vec<u8>>> = (0..SAVES)
        .map(|_| (0..NEW_ENTRIES).map(|_| entry(&mut random)).collect())
        .collect();
    let mut runs = Vec::new();
    for round in 0..args.rounds {
        let mut order: Vec<&str> = ARMS.iter().map(|(name, _)| *name).collect();
        random.shuffle(&mut order);
        for name in order {
            let folder = place.join(format!("{round}-{name}"));
            let mut run = one(
                name,
                &folder,
                &base,
                &news,
                &probe,
                args.seed + u64::from(round),
            )?;
            if let Some(fields) = run.as_object_mut() {
                fields.insert("arm".to_owned(), name.into());
                fields.insert("round".to_owned(), round.into());
            }
            runs.push(run);
            std::fs::remove_dir_all(&folder)?;
        }
    }
    let new_bytes: usize = news.iter().flatten().map(Vec::len).sum();
    say!(
        "\n{SAVES} saves of {NEW_ENTRIES} new entries ({:.1} MB new) on {} MiB of old ones; 4 KiB O_DIRECT reads meanwhile, worst round:",
        new_bytes as f64 / 1e6,
        args.base_mib
    );
    say!(
        "{:<16} {:>10} {:>8} {:>9} {:>9} {:>9}",
        "arm",
        "MB written",
        "per new",
        "save ms",
        "p99 ms",
        "max ms"
    );
    let summary: Vec<Value> = ARMS
        .iter()
        .map(|(name, what)| summarise(name, what, &runs, new_bytes))
        .collect();
    Ok(json!({
        "design": "every arm once per round in random order, each in a fresh folder with the old entries saved and synced before; new entries at random places of the driver's order; probe: one 4 KiB O_DIRECT read at a random place each millisecond",
        "base_mib": args.base_mib,
        "new_bytes": new_bytes,
        "summary": summary,
        "runs": runs,
    }))
}

fn one(
    name: &str,
    folder: &Path,
    base: &[Vec<u8>],
    news: &[Vec<Vec<u8>>],
    probe: &Probe,
    seed: u64,
) -> Result<Value> {
    let mut arm = make(name, folder, base)?;
    rustix::fs::sync();
    let mut all = base.to_vec();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut milliseconds = Vec::new();
    let before = ProcessIo::now();
    let running = probe.start(seed);
    for new in news {
        for entry in new {
            let at = random.usize(0..=all.len());
            all.insert(at, entry.clone());
        }
        let start = Instant::now();
        arm.save(&all, new)?;
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        // Between saves a program plays on.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    arm.finish()?;
    std::thread::sleep(AFTER);
    let reads = running.stop()?;
    let io = ProcessIo::now().since(&before);
    // Rounded to a tenth of a microsecond: the file holds every read.
    let reads: Vec<f64> = reads.iter().map(|us| (us * 10.0).round() / 10.0).collect();
    Ok(json!({
        "write_bytes": io.write_bytes,
        "wchar": io.wchar,
        "save_ms": milliseconds,
        "reads_us": reads,
    }))
}

fn summarise(name: &str, what: &str, runs: &[Value], new_bytes: usize) -> Value {
    let mine: Vec<&Value> = runs.iter().filter(|run| run["arm"] == name).collect();
    let numbers = |run: &Value, field: &str| -> Vec<f64> {
        let list = run[field].as_array().map(Vec::as_slice).unwrap_or_default();
        sorted(&list.iter().filter_map(Value::as_f64).collect::<Vec<f64>>())
    };
    let worst = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let written = worst(&mut mine.iter().filter_map(|run| run["write_bytes"].as_f64()));
    let save = worst(
        &mut mine
            .iter()
            .map(|run| numbers(run, "save_ms").iter().sum::<f64>()),
    );
    let p99 = worst(
        &mut mine
            .iter()
            .map(|run| quantile(&numbers(run, "reads_us"), 0.99)),
    );
    let max = worst(
        &mut mine
            .iter()
            .map(|run| quantile(&numbers(run, "reads_us"), 1.0)),
    );
    let ratio = written / new_bytes as f64;
    say!(
        "{name:<16} {:>10.1} {ratio:>8.3} {save:>9.1} {:>9.2} {:>9.2}",
        written / 1e6,
        p99 / 1e3,
        max / 1e3
    );
    json!({
        "arm": name, "what": what, "write_bytes": written, "per_new_byte": ratio,
        "save_ms": save, "read_p99_us": p99, "read_max_us": max,
    })
}
