//! `towpath cache inspect`: what a store or a file holds, and how a blob grew.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use towpath_cache::foreign::{self, Contents, Difference};
use towpath_cache::{Store, safety};

use super::output::{entry_json, size, store, write_json};

/// Lists what a store, or a pipeline cache file of any known program, holds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  towpath cache inspect pipelines.bin\n  \
    towpath cache inspect --diff monday.bin tuesday.bin")]
pub(super) struct Args {
    /// A store's folder or a file.
    #[arg(required_unless_present = "diff")]
    path: Option<PathBuf>,
    /// Says how a blob grew between two versions of a file.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with = "path")]
    diff: Option<Vec<PathBuf>>,
    /// Lists every entry, not only the first 20.
    #[arg(long)]
    all: bool,
    /// Also writes what was found to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if let Some([old, new]) = args.diff.as_deref() {
        return diff(old, new, args);
    }
    let path = args.path.as_deref().context("a path is needed")?;
    if path.is_dir() {
        let store = store(path, true)?;
        return inspect_store(&store, args);
    }
    let bytes = read(path)?;
    let Some(contents) = foreign::read(&bytes) else {
        bail!("{}: no known form of pipeline cache", path.display());
    };
    print_contents(&contents, args.all);
    write_json(
        args.json.as_deref(),
        "towpath.cache-inspect/1",
        contents_json(&contents),
    )?;
    let code = if contents.is_sound() {
        0
    } else {
        super::DAMAGED
    };
    Ok(ExitCode::from(code))
}

/// A file's bytes; cuts out the blob where it stands behind a header of the program's.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    crate::input::read(path)
}

fn inspect_store(store: &Store, args: &Args) -> Result<ExitCode> {
    let entries = store.entries(None);
    let quarantined = safety::quarantined(store);
    say!("store {} ({} entries)", store.place(), entries.len());
    for (kind, (count, bytes)) in store.stats().kinds {
        say!("  {:<12} {count:>8}  {:>12}", kind.name(), size(bytes));
    }
    let shown = if args.all { entries.len() } else { 20 };
    for entry in entries.iter().take(shown) {
        let key = super::output::hex(&entry.key);
        let short = key.get(..40).unwrap_or(&key);
        say!(
            "  {:<12} {short:<40} {:>12}",
            entry.kind.name(),
            size(entry.bytes)
        );
    }
    if entries.len() > shown {
        say!("  ... {} more (--all)", entries.len() - shown);
    }
    for (id, reason) in &quarantined {
        say!("  in quarantine: {id}: {reason}");
    }
    let listed: Vec<Value> = entries.iter().map(entry_json).collect();
    let kept: Vec<Value> = quarantined
        .iter()
        .map(|(id, reason)| json!({ "content": id.to_string(), "reason": reason }))
        .collect();
    let document = json!({ "store": store.place(), "entries": listed, "quarantine": kept });
    write_json(args.json.as_deref(), "towpath.cache-inspect/1", document)?;
    Ok(ExitCode::SUCCESS)
}

fn print_contents(contents: &Contents, all: bool) {
    say!("{}", contents.format.name());
    for (name, value) in &contents.fields {
        say!("  {name:<22} {value}");
    }
    let shown = if all { contents.items.len() } else { 20 };
    for item in contents.items.iter().take(shown) {
        let check = match item.check {
            foreign::Check::Good => "sound",
            foreign::Check::Bad => "DAMAGED",
            foreign::Check::Unchecked => "",
        };
        say!(
            "  {} {:<28} {:>12} {check}",
            item.name,
            item.kind,
            size(item.payload.len() as u64)
        );
    }
    if contents.items.len() > shown {
        say!("  ... {} more (--all)", contents.items.len() - shown);
    }
    for problem in &contents.problems {
        say!("  problem: {problem}");
    }
}

fn contents_json(contents: &Contents) -> Value {
    let items: Vec<Value> = contents
        .items
        .iter()
        .map(|item| {
            json!({
                "name": item.name,
                "kind": item.kind,
                "offset": item.payload.start,
                "bytes": item.payload.len(),
                "check": format!("{:?}", item.check).to_lowercase(),
            })
        })
        .collect();
    let fields: serde_json::Map<String, Value> = contents
        .fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    json!({
        "format": contents.format.name(),
        "fields": fields,
        "items": items,
        "problems": contents.problems,
    })
}

fn diff(old: &Path, new: &Path, args: &Args) -> Result<ExitCode> {
    let (old, new) = (read(old)?, read(new)?);
    let inner = |bytes: &[u8]| foreign::blob_range(bytes).unwrap_or(0..bytes.len());
    let found = foreign::diff(
        old.get(inner(&old)).unwrap_or_default(),
        new.get(inner(&new)).unwrap_or_default(),
    );
    let Difference {
        bytes_old,
        bytes_new,
        prefix,
        bytes_known,
        objects,
    } = &found;
    say!("old {}, new {}", size(*bytes_old), size(*bytes_new));
    say!("equal at the start: {}", size(*prefix));
    say!(
        "of the new one, in chunks that the old one has too: {}",
        size(*bytes_known)
    );
    if let Some(objects) = objects {
        say!(
            "Mesa objects: {} kept, {} added ({}), {} gone",
            objects.kept,
            objects.added,
            size(objects.bytes_added),
            objects.gone
        );
    }
    say!("{}", found.verdict());
    let objects = objects.map(|o| {
        json!({ "kept": o.kept, "added": o.added, "gone": o.gone, "bytes_added": o.bytes_added })
    });
    let document = json!({
        "bytes_old": bytes_old, "bytes_new": bytes_new, "prefix": prefix,
        "bytes_known": bytes_known, "objects": objects, "verdict": found.verdict(),
    });
    write_json(args.json.as_deref(), "towpath.cache-diff/1", document)?;
    Ok(ExitCode::SUCCESS)
}
