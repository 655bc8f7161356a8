//! `towpath cache stats|merge|prune`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use towpath_cache::{Limits, open_existing};

use super::output::{parse_size, size, store, stores, write_json};

/// Counts what stores hold.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath cache stats --json stats.json")]
pub(super) struct StatsArgs {
    /// A store's folder or a folder of stores; without it the user's own.
    path: Option<PathBuf>,
    /// Also writes the counts to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn stats(args: &StatsArgs) -> Result<ExitCode> {
    let mut reports = Vec::new();
    for path in stores(args.path.as_deref())? {
        let (store, _folder) = open_existing(&path, true)?;
        let stats = store.stats();
        say!(
            "{}\n  {} segments ({} sealed), {} on disk, {} live",
            path.display(),
            stats.segments,
            stats.segments_sealed,
            size(stats.bytes),
            size(stats.bytes_live)
        );
        let mut kinds = serde_json::Map::new();
        for (kind, (entries, bytes)) in &stats.kinds {
            say!("  {:<12} {entries:>8}  {:>12}", kind.name(), size(*bytes));
            let counts = json!({ "entries": entries, "bytes": bytes });
            kinds.insert(kind.name().to_owned(), counts);
        }
        reports.push(json!({
            "store": path, "segments": stats.segments, "segments_sealed": stats.segments_sealed,
            "segments_skipped": stats.segments_skipped, "bytes": stats.bytes,
            "bytes_live": stats.bytes_live, "bytes_skipped": stats.bytes_skipped, "kinds": kinds,
        }));
    }
    let document = json!({ "stores": reports });
    write_json(args.json.as_deref(), "towpath.cache-stats/1", document)?;
    Ok(ExitCode::SUCCESS)
}

/// Copies into one store what others have and it lacks.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  towpath cache merge ~/.cache/towpath/vulkan/game/10de-... backup/10de-..."
)]
pub(super) struct MergeArgs {
    /// The store that takes the entries.
    into: PathBuf,
    /// The stores that give them.
    #[arg(required = true)]
    from: Vec<PathBuf>,
    /// Also merges stores of another identity; a driver will not take its blobs.
    #[arg(long)]
    any_identity: bool,
    /// Also writes the counts to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let into = store(&args.into, false)?;
    let mut reports = Vec::new();
    for path in &args.from {
        let from = store(path, true)?;
        if from.identity() != into.identity() && !args.any_identity {
            bail!(
                "{} is of another driver or device (--any-identity)",
                path.display()
            );
        }
        let done = into.absorb(&from)?;
        say!(
            "{}: {} entries copied ({}), {} known, {} conflicting, {} damaged, {} in quarantine",
            path.display(),
            done.copied,
            size(done.bytes),
            done.known,
            done.conflicting,
            done.damaged,
            done.quarantined
        );
        reports.push(json!({
            "from": path, "copied": done.copied, "bytes": done.bytes, "known": done.known,
            "conflicting": done.conflicting, "damaged": done.damaged, "quarantined": done.quarantined,
        }));
    }
    let document = json!({ "into": args.into, "merged": reports });
    write_json(args.json.as_deref(), "towpath.cache-merge/1", document)?;
    Ok(ExitCode::SUCCESS)
}

/// Drops the least recently used entries until a store is small enough, and compacts it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath cache prune --max-bytes 1GiB --unused-days 90")]
pub(super) struct PruneArgs {
    /// A store's folder or a folder of stores; without it the user's own.
    path: Option<PathBuf>,
    /// Most bytes that each store may take on the disk, such as 500M or 1GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,
    /// Drops entries that were not used for so many days.
    #[arg(long, value_name = "DAYS")]
    unused_days: Option<u32>,
    /// Writes each store again as one segment, whether it is due or not.
    #[arg(long)]
    compact: bool,
    /// Also writes the counts to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn prune(args: &PruneArgs) -> Result<ExitCode> {
    let limits = Limits {
        bytes_max: args.max_bytes,
        unused_days_max: args.unused_days,
    };
    let mut reports = Vec::new();
    let mut is_met = true;
    for path in stores(args.path.as_deref())? {
        let (store, _folder) = open_existing(&path, false)?;
        let mut done = vec![store.prune(&limits)?];
        done.push(if args.compact {
            store.compact_all()?
        } else {
            store.compact()?
        });
        let after = done.last().map_or(0, |d| d.bytes_after);
        is_met &= args.max_bytes.is_none_or(|limit| after <= limit);
        reports.push(report(&path, &done));
    }
    let document = json!({ "stores": reports, "limits_met": is_met });
    write_json(args.json.as_deref(), "towpath.cache-prune/1", document)?;
    // Segments in use cannot be pruned: the limit is then missed, which a script may want to know.
    Ok(ExitCode::from(u8::from(!is_met) * super::DAMAGED))
}

fn report(path: &std::path::Path, done: &[towpath_cache::Tidied]) -> Value {
    let first = done.first().copied().unwrap_or_default();
    let last = done.last().copied().unwrap_or_default();
    let sum = |field: fn(&towpath_cache::Tidied) -> u64| done.iter().map(field).sum::<u64>();
    let (dropped, written) = (sum(|d| d.entries_dropped), sum(|d| d.bytes_written));
    say!(
        "{}: {} -> {}, {} -> {} segments, {dropped} entries dropped, {} written, {} in use",
        path.display(),
        size(first.bytes_before),
        size(last.bytes_after),
        first.segments_before,
        last.segments_after,
        size(written),
        last.segments_in_use
    );
    json!({
        "store": path, "bytes_before": first.bytes_before, "bytes_after": last.bytes_after,
        "segments_before": first.segments_before, "segments_after": last.segments_after,
        "entries_dropped": dropped, "bytes_written": written,
        "segments_in_use": last.segments_in_use,
        "records_damaged": sum(|d| d.records_damaged),
    })
}
