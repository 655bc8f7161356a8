//! `towpath cache verify`: every byte checked, and on request every blob shown to the driver.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use towpath_cache::{SegmentReport, Verification, foreign, open_existing};

use super::driver;
use super::inspect::read;
use super::output::{size, stores, write_json};

/// Checks every byte of a store or file. Exit code 2 if anything is damaged.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  towpath cache verify\n  towpath cache verify --driver ~/.cache/towpath/vulkan/game"
)]
pub(super) struct Args {
    /// A store's folder, a folder of stores, or a file; without it the user's own stores.
    path: Option<PathBuf>,
    /// Also gives each blob to the driver, in a child process, and puts into quarantine what it dies of.
    #[arg(long)]
    driver: bool,
    /// The Vulkan device for `--driver`, counted from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: usize,
    /// Also writes what was found to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (is_sound, document) = match args.path.as_deref() {
        Some(path) if !path.is_dir() => verify_file(path, args)?,
        path => verify_stores(path, args)?,
    };
    write_json(args.json.as_deref(), "towpath.cache-verify/1", document)?;
    let code = if is_sound { 0 } else { super::DAMAGED };
    Ok(ExitCode::from(code))
}

fn verify_file(path: &Path, args: &Args) -> Result<(bool, Value)> {
    let bytes = read(path)?;
    let Some(contents) = foreign::read(&bytes) else {
        bail!("{}: no known form of pipeline cache", path.display());
    };
    for problem in &contents.problems {
        say!("{}: {problem}", path.display());
    }
    let mut is_sound = contents.is_sound();
    let mut survives = None;
    if let (true, Some(blob)) = (args.driver, contents.blob.clone()) {
        let blob = bytes.get(blob).unwrap_or_default();
        let outcome = driver::try_one(blob, args.device)?;
        say!("driver: {outcome}");
        is_sound &= outcome.is_survived();
        survives = Some(outcome.to_string());
    }
    say!(
        "{}: {}",
        path.display(),
        if is_sound { "sound" } else { "DAMAGED" }
    );
    let document = json!({
        "file": path, "format": contents.format.name(), "problems": contents.problems,
        "sound": is_sound, "driver": survives,
    });
    Ok((is_sound, document))
}

fn verify_stores(path: Option<&Path>, args: &Args) -> Result<(bool, Value)> {
    let mut is_sound = true;
    let mut reports = Vec::new();
    for path in stores(path)? {
        let (store, _folder) = open_existing(&path, !args.driver)?;
        let start = std::time::Instant::now();
        let found = store.verify()?;
        let seconds = start.elapsed().as_secs_f64();
        print(&path, &found);
        say!(
            "  {} in {seconds:.2} s, {:.2} GB/s",
            size(found.bytes()),
            found.bytes() as f64 / seconds.max(1e-9) / 1e9
        );
        is_sound &= found.is_sound();
        let driver = if args.driver {
            let tried = driver::try_store(&store, args.device)?;
            say!(
                "  driver: {} blobs, {} put into quarantine",
                tried.blobs,
                tried.bad.len()
            );
            is_sound &= tried.bad.is_empty();
            Some(tried.json())
        } else {
            None
        };
        reports.push(json!({
            "store": path,
            "sound": found.is_sound(),
            "seconds": seconds,
            "bytes": found.bytes(),
            "segments": found.segments.iter().map(segment_json).collect::<Vec<_>>(),
            "driver": driver,
        }));
    }
    Ok((is_sound, json!({ "sound": is_sound, "stores": reports })))
}

fn print(path: &Path, found: &Verification) {
    let state = if found.is_sound() { "sound" } else { "DAMAGED" };
    say!(
        "{}: {state}, {} records",
        path.display(),
        found.records_sound()
    );
    for segment in &found.segments {
        if let Some(why) = &segment.not_read {
            say!("  {}: not read: {why}", segment.name);
        } else if segment.is_damaged() || segment.bytes_tail > 0 {
            say!(
                "  {}: {} records damaged, {} bytes skipped, {} bytes of torn tail{}",
                segment.name,
                segment.records_damaged,
                segment.bytes_skipped,
                segment.bytes_tail,
                if segment.is_header_sound {
                    ""
                } else {
                    ", header damaged"
                }
            );
        }
    }
}

fn segment_json(segment: &SegmentReport) -> Value {
    json!({
        "name": segment.name, "bytes": segment.bytes, "generation": segment.generation,
        "sealed": segment.is_sealed, "header_sound": segment.is_header_sound,
        "records_sound": segment.records_sound, "records_damaged": segment.records_damaged,
        "bytes_skipped": segment.bytes_skipped, "bytes_tail": segment.bytes_tail,
        "not_read": segment.not_read,
    })
}
