//! `towpath bench cache`: what saving pipeline caches costs this disk and its other readers.
//!
//! Two parts. *Store*: a store of 13,000 entries and 1.1 GB is opened, checked, started from with
//! nothing new, and saved to twelve times. *Table*: twelve saves of 32 new entries done in the ways of
//! today's programs and in ours, in turn, while a probe reads 4 KiB with O_DIRECT; a null run saves nothing.

mod arms;
mod probe;
mod size;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use towpath_report::Machine;

/// Saves and reads on one disk.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath bench cache --folder /mnt/games --json cache.json")]
pub(crate) struct Args {
    /// A folder on the disk to be measured; its files are removed afterwards.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Entries of the store in the first part; 0 leaves the part out.
    #[arg(long, value_name = "N", default_value_t = 13_000)]
    entries: u32,
    /// Mebibytes of old pipelines in the second part; 0 leaves the part out.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    base_mib: u32,
    /// Rounds of the second part; each runs every arm once, in random order.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Seed of contents and orders.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Writes every raw sample to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Mean length of an entry: the game of seed 000 has 13,000 in 1.1 GB.
const ENTRY_BYTES_MEAN: usize = 88_000;

/// Runs both parts and prints them.
///
/// # Errors
///
/// If the folder cannot be written, or a saved byte does not come back.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let place = args
        .folder
        .join(format!("towpath-bench-cache-{}", std::process::id()));
    std::fs::create_dir(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let result = both(args, &place);
    std::fs::remove_dir_all(&place)
        .with_context(|| format!("cannot remove {}", place.display()))?;
    let document = result?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string(&document)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn both(args: &Args, place: &std::path::Path) -> Result<Value> {
    let store = if args.entries == 0 {
        Value::Null
    } else {
        size::measure(&place.join("store"), args.entries, args.seed)?
    };
    let table = if args.base_mib == 0 {
        Value::Null
    } else {
        table::measure(&place.join("table"), args)?
    };
    Ok(json!({
        "schema": "towpath.bench-cache/1",
        "towpath": env!("CARGO_PKG_VERSION"),
        "commit": commit(),
        "machine": Machine::collect(),
        "folder_file_system": file_system(&args.folder),
        "seed": args.seed,
        "store": store,
        "table": table,
    }))
}

/// The commit of the working copy that this runs in, if it does.
fn commit() -> Option<String> {
    let output = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The magic number of the folder's file system, such as ef53 for ext4.
fn file_system(folder: &std::path::Path) -> Option<String> {
    let found = rustix::fs::statfs(folder).ok()?;
    Some(format!("{:x}", found.f_type))
}

/// An entry's bytes: random, as a driver's compressed data, and of a length around the mean.
fn entry(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = random.usize(ENTRY_BYTES_MEAN / 4..ENTRY_BYTES_MEAN * 7 / 4);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}
