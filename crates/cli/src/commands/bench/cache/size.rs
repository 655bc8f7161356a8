//! The store at the size of the seed's game: opening, checking, a start with nothing new, twelve saves.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use towpath_cache::storage::ProcessIo;
use towpath_cache::{Disk, Folder, Kind, Options, Store};

const IDENTITY: [u8; 16] = *b"bench of a store";
/// Opened so often; the first of each state is kept like the others.
const OPENINGS: usize = 7;

fn open(folder: &Arc<Folder>) -> Result<Store> {
    let disk: Arc<dyn Disk> = Arc::<Folder>::clone(folder);
    Ok(Store::open(disk, Options::new(IDENTITY))?)
}

pub(super) fn measure(place: &Path, entries: u32, seed: u64) -> Result<Value> {
    let bytes = fill(place, entries, seed)?;
    say!("store: {entries} entries, {:.1} MB", bytes as f64 / 1e6);
    let mut warm = Vec::new();
    let mut cold = Vec::new();
    for _ in 0..OPENINGS {
        warm.push(opening(place)?);
        drop_from_page_cache(place)?;
        cold.push(opening(place)?);
    }
    print_openings("opened, files in the page cache", &warm);
    print_openings("opened, files on the disk", &cold);
    let verified = verification(place)?;
    let nothing_new = start_with_nothing_new(place, entries)?;
    let saves = twelve_saves(place, seed)?;
    Ok(json!({
        "entries": entries,
        "bytes": bytes,
        "open_warm": warm,
        "open_cold": cold,
        "verify": verified,
        "nothing_new": nothing_new,
        "twelve_saves": saves,
    }))
}

fn fill(place: &Path, entries: u32, seed: u64) -> Result<u64> {
    let folder = Arc::new(Folder::open(place)?);
    let store = open(&folder)?;
    let mut random = fastrand::Rng::with_seed(seed);
    // Ten sessions, so that there is more than one segment to open.
    let session = entries.div_ceil(10).max(1);
    for n in 0..entries {
        store.append(Kind::BINARY, &n.to_le_bytes(), &super::entry(&mut random))?;
        if (n + 1) % session == 0 {
            store.seal()?;
        }
    }
    store.seal()?;
    Ok(store.stats().bytes)
}

/// Opens the store, looks one entry up, and says what that took.
fn opening(place: &Path) -> Result<Value> {
    let before = rss_anon_kib();
    let start = Instant::now();
    let folder = Arc::new(Folder::existing(place)?);
    let store = open(&folder)?;
    let opened = start.elapsed();
    let found = store.lookup(Kind::BINARY, &0_u32.to_le_bytes());
    let first = start.elapsed();
    ensure!(found.is_some(), "the first entry did not come back");
    let grown = rss_anon_kib().saturating_sub(before);
    Ok(json!({
        "open_ms": opened.as_secs_f64() * 1e3,
        "first_blob_ms": first.as_secs_f64() * 1e3,
        "rss_anon_kib_grown": grown,
    }))
}

fn print_openings(what: &str, openings: &[Value]) {
    let most = |name: &str| {
        let values = openings.iter().filter_map(|o| o.get(name)?.as_f64());
        values.fold(0.0, f64::max)
    };
    say!(
        "{what}: at most {:.1} ms, first blob after {:.1} ms, {:.1} MiB of anonymous memory",
        most("open_ms"),
        most("first_blob_ms"),
        most("rss_anon_kib_grown") / 1024.0
    );
}

fn verification(place: &Path) -> Result<Value> {
    let store = open(&Arc::new(Folder::existing(place)?))?;
    let mut samples = Vec::new();
    for _ in 0..4 {
        let start = Instant::now();
        let found = store.verify()?;
        let seconds = start.elapsed().as_secs_f64();
        ensure!(found.is_sound(), "the store is damaged");
        samples.push(found.bytes() as f64 / seconds / 1e9);
    }
    // The first one also brings the files into the page cache.
    let rest = samples.get(1..).unwrap_or_default();
    let least = rest.iter().copied().fold(f64::INFINITY, f64::min);
    say!("verified at {least:.2} GB/s or more on one core");
    Ok(json!({ "gb_per_second": samples, "note": "the first sample reads from the disk" }))
}

/// Opens, looks everything up, appends everything again, seals: nothing may be written.
fn start_with_nothing_new(place: &Path, entries: u32) -> Result<Value> {
    let before = ProcessIo::now();
    let start = Instant::now();
    let folder = Arc::new(Folder::existing(place)?);
    let store = open(&folder)?;
    for n in 0..entries {
        let found = store.lookup(Kind::BINARY, &n.to_le_bytes());
        ensure!(found.is_some(), "entry {n} did not come back");
    }
    store.seal()?;
    let seconds = start.elapsed().as_secs_f64();
    let io = ProcessIo::now().since(&before);
    let counts = folder.counts();
    say!(
        "start with nothing new: {} bytes written by our count, {} by the kernel's, {seconds:.2} s for all lookups",
        counts.bytes_written,
        io.write_bytes
    );
    Ok(json!({
        "bytes_written": counts.bytes_written, "syncs": counts.syncs,
        "process_wchar": io.wchar, "process_write_bytes": io.write_bytes, "seconds": seconds,
    }))
}

fn twelve_saves(place: &Path, seed: u64) -> Result<Value> {
    let folder = Arc::new(Folder::existing(place)?);
    let store = open(&folder)?;
    let mut random = fastrand::Rng::with_seed(seed + 1);
    let before = ProcessIo::now();
    let mut new_bytes = 0;
    let mut milliseconds = Vec::new();
    for save in 0..12_u32 {
        let blobs: Vec<Vec<u8>> = (0..32).map(|_| super::entry(&mut random)).collect();
        let start = Instant::now();
        for (n, blob) in (0_u32..).zip(&blobs) {
            new_bytes += blob.len() as u64;
            store.append(Kind::BINARY, &(1 << 30 | save << 8 | n).to_le_bytes(), blob)?;
        }
        store.flush()?;
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    store.seal()?;
    let io = ProcessIo::now().since(&before);
    let counts = folder.counts();
    let ratio = counts.bytes_written as f64 / new_bytes as f64;
    say!("twelve saves of 32 new entries: {ratio:.4} bytes written per new byte");
    Ok(json!({
        "new_bytes": new_bytes, "bytes_written": counts.bytes_written, "ratio": ratio,
        "process_write_bytes": io.write_bytes, "syncs": counts.syncs, "save_ms": milliseconds,
    }))
}

/// Asks the kernel to forget the pages of all files here; clean pages only, so after a sync.
fn drop_from_page_cache(place: &Path) -> Result<()> {
    for entry in std::fs::read_dir(place)? {
        let file = std::fs::File::open(entry?.path())?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

fn rss_anon_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
