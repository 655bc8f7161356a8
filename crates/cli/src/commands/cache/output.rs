//! What the subcommands share: finding stores, writing JSON, sizes in words.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use towpath_cache::{Entry, Store, open_existing};
use towpath_settings::Settings;

/// Writes `document` with its schema to the file of `--json`, if there is one.
pub(super) fn write_json(path: Option<&Path>, schema: &str, mut document: Value) -> Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    if let Some(fields) = document.as_object_mut() {
        fields.insert("schema".to_owned(), schema.into());
    }
    let text = serde_json::to_string_pretty(&document)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Where the user's stores are: `TOWPATH_CACHE_DIR`, else towpath's part of the user's cache folder.
fn root() -> Option<PathBuf> {
    let (settings, _problems) = Settings::from_environment();
    let home = || {
        let cache = settings.cache_home.clone();
        let home = settings.home.clone().map(|home| home.join(".cache"));
        Some(cache.or(home)?.join("towpath"))
    };
    settings.cache_dir.clone().or_else(home)
}

/// The store folders that `path` names: itself, or those below it.
pub(super) fn stores(path: Option<&Path>) -> Result<Vec<PathBuf>> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => usual()?,
    };
    let mut found = Vec::new();
    // Only the folder that was named must be one that can be listed.
    let listed = gather(&path, LEVELS, &mut found);
    listed.with_context(|| format!("cannot list {}", path.display()))?;
    found.sort();
    if found.is_empty() {
        bail!("{} holds no store", path.display());
    }
    Ok(found)
}

/// The user's own folder of stores.
fn usual() -> Result<PathBuf> {
    let path = root().context("no cache folder: HOME is not set")?;
    if !path.exists() {
        bail!(
            "{} is not there yet: `towpath run --fix cache -- PROGRAM` keeps pipelines in it",
            path.display()
        );
    }
    Ok(path)
}

/// Levels of folders above stores: the Vulkan layer's lie in `vulkan/PROGRAM/IDENTITY`.
const LEVELS: u32 = 3;

/// Adds `path` if it is a store, else the stores below it. Links to folders are not followed.
fn gather(path: &Path, levels: u32, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if open_existing(path, true).is_ok() {
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)?.flatten() {
        if levels > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A folder that cannot be listed hides its stores, and no others.
            let _unlisted = gather(&entry.path(), levels - 1, found);
        }
    }
    Ok(())
}

/// Opens one store; a folder of stores is refused unless it holds just one.
pub(super) fn store(path: &Path, is_read_only: bool) -> Result<Store> {
    match stores(Some(path))?.as_slice() {
        [one] => Ok(open_existing(one, is_read_only)?.0),
        several => bail!(
            "{} holds {} stores: name one",
            path.display(),
            several.len()
        ),
    }
}

/// Bytes in the unit that a person reads.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// Reads a size such as `500M`, `1.5GiB` or `1000`.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: f64 = match text
        .get(digits.len()..)
        .unwrap_or("")
        .to_lowercase()
        .as_str()
    {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1_048_576.0,
        "g" | "gib" => 1_073_741_824.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        other => return Err(format!("unknown unit {other}")),
    };
    let value: f64 = digits
        .parse()
        .map_err(|error| format!("{digits}: {error}"))?;
    let bytes = value * factor;
    if !(0.0..9e15).contains(&bytes) {
        return Err(format!("{text} is no size"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 9e15 by the line above"
    )]
    Ok(bytes as u64)
}

/// An entry for JSON.
pub(super) fn entry_json(entry: &Entry) -> Value {
    serde_json::json!({
        "kind": entry.kind.name(),
        "kind_number": entry.kind.0,
        "key": hex(&entry.key),
        "bytes": entry.bytes,
        "content": entry.id.to_string(),
        "last_use_day": entry.last_use_day,
    })
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// Hexadecimal digits as bytes.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_size("1000"), Ok(1000));
        assert_eq!(parse_size("1.5GiB"), Ok(1_610_612_736));
        assert_eq!(parse_size("500M"), Ok(524_288_000));
        for bad in ["", "x", "-1", "5Q", "1e99", "NaN"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1_610_612_736), "1.5 GiB");
        assert_eq!(unhex(&hex(&[0, 255, 7])).unwrap(), [0, 255, 7]);
        assert_eq!(unhex("0g"), None);
    }
}
