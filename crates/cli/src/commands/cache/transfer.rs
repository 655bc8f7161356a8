//! `towpath cache export|import`: entries as plain files and back, byte for byte.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use towpath_cache::{ContentId, Kind, Store, foreign};

use super::inspect::read;
use super::output::{entry_json, hex, size, store, unhex, write_json};

const MANIFEST: &str = "manifest.json";
const SCHEMA: &str = "towpath.cache-export/1";

/// Writes a store's entries as files, with a manifest.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  towpath cache export ~/.cache/towpath/vulkan/game/10de-... --out backup"
)]
pub(super) struct ExportArgs {
    /// The store.
    store: PathBuf,
    /// A new folder for the files.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Only entries of this kind, such as overlay, binary or blob.
    #[arg(long)]
    kind: Option<String>,
    /// Also writes the manifest to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What stands in the manifest.
#[derive(Debug, Deserialize, Serialize)]
struct Manifest {
    schema: String,
    identity: String,
    entries: Vec<Line>,
}

/// One entry of the manifest.
#[derive(Debug, Deserialize, Serialize)]
struct Line {
    kind: u8,
    key: String,
    file: String,
    content: String,
}

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let store = store(&args.store, true)?;
    std::fs::create_dir(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let mut entries = Vec::new();
    let mut damaged = 0;
    for (number, entry) in store.entries(None).iter().enumerate() {
        if args
            .kind
            .as_deref()
            .is_some_and(|kind| kind != entry.kind.name())
        {
            continue;
        }
        let Some(blob) = store.lookup(entry.kind, &entry.key) else {
            damaged += 1;
            continue;
        };
        let file = format!("{number:06}.{}", entry.kind.name());
        let path = args.out.join(&file);
        std::fs::write(&path, &blob[..])
            .with_context(|| format!("cannot write {}", path.display()))?;
        entries.push(Line {
            kind: entry.kind.0,
            key: hex(&entry.key),
            file,
            content: entry.id.to_string(),
        });
    }
    say!("{} entries, {damaged} damaged", entries.len());
    let manifest = Manifest {
        schema: SCHEMA.to_owned(),
        identity: hex(&store.identity()),
        entries,
    };
    let path = args.out.join(MANIFEST);
    std::fs::write(&path, serde_json::to_string_pretty(&manifest)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    write_json(
        args.json.as_deref(),
        SCHEMA,
        serde_json::to_value(&manifest)?,
    )?;
    let code = if damaged == 0 { 0 } else { super::DAMAGED };
    Ok(ExitCode::from(code))
}

/// Puts an exported folder, or files of other programs, into a store.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  towpath cache import backup --into ~/.cache/towpath/vulkan/game/10de-..."
)]
pub(super) struct ImportArgs {
    /// Folders written by `export`, or pipeline cache files of any known program.
    #[arg(required = true)]
    from: Vec<PathBuf>,
    /// The store that takes them.
    #[arg(long, value_name = "STORE")]
    into: PathBuf,
    /// Takes the VkPipelineCache inside a file as a blob to start from, not the file as it is.
    #[arg(long)]
    as_overlay: bool,
    /// Also writes what was imported to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn import(args: &ImportArgs) -> Result<ExitCode> {
    let into = store(&args.into, false)?;
    for path in &args.from {
        if path.is_dir() {
            import_folder(&into, path)?;
        } else {
            import_file(&into, path, args.as_overlay)?;
        }
    }
    into.seal()?;
    let entries: Vec<_> = into.entries(None).iter().map(entry_json).collect();
    say!("{} entries now", entries.len());
    let document = json!({ "into": args.into, "entries": entries });
    write_json(args.json.as_deref(), "towpath.cache-import/1", document)?;
    Ok(ExitCode::SUCCESS)
}

fn import_folder(into: &Store, folder: &Path) -> Result<()> {
    let text = read(&folder.join(MANIFEST))?;
    let manifest: Manifest = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no manifest", folder.join(MANIFEST).display()))?;
    if manifest.schema != SCHEMA {
        bail!("{} has schema {}", folder.display(), manifest.schema);
    }
    for line in &manifest.entries {
        let is_plain = !line.file.contains('/') && line.file != "..";
        let key = unhex(&line.key).filter(|_| is_plain);
        let key = key.with_context(|| format!("manifest: bad entry {}", line.file))?;
        let bytes = read(&folder.join(&line.file))?;
        if ContentId::of(&bytes).to_string() != line.content {
            bail!(
                "{} is not what was exported",
                folder.join(&line.file).display()
            );
        }
        into.append(Kind(line.kind), &key, &bytes)?;
    }
    Ok(())
}

fn import_file(into: &Store, path: &Path, as_overlay: bool) -> Result<()> {
    let bytes = read(path)?;
    let Some(contents) = foreign::read(&bytes) else {
        bail!("{}: no known form of pipeline cache", path.display());
    };
    if !contents.is_sound() {
        bail!(
            "{}: damaged: {}",
            path.display(),
            contents.problems.join("; ")
        );
    }
    if as_overlay {
        let range = contents.blob.context("it holds no VkPipelineCache blob")?;
        let blob = bytes.get(range).unwrap_or_default();
        into.append(Kind::OVERLAY, &ContentId::of(blob).0, blob)?;
    } else {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        into.append(Kind::BLOB, name.as_bytes(), &bytes)?;
    }
    say!(
        "{}: {}, {}",
        path.display(),
        contents.format.name(),
        size(bytes.len() as u64)
    );
    Ok(())
}
