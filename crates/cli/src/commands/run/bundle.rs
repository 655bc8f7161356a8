//! Ledgers, report, versions, calibrations and log in one tar file, for a bug report.
//!
//! The environment of the program is left out: it holds secrets.

use std::fs;

use anyhow::{Context as _, Result};
use towpath_settings::calibration::{Store, default_folder};

use crate::session::Session;

/// The bytes of the tar file; `report` is the report's JSON.
pub(super) fn pack(session: &Session, report: &str) -> Result<Vec<u8>> {
    let mut tar = Tar::default();
    tar.add("towpath/report.json", report.as_bytes())?;
    tar.add("towpath/versions.txt", versions().as_bytes())?;
    if let Ok(log) = fs::read(session.log_path()) {
        tar.add("towpath/layers.log", &log)?;
    }
    for ledger in session.read().0 {
        let bytes = fs::read(ledger.path())
            .with_context(|| format!("cannot read {}", ledger.path().display()))?;
        let name = ledger
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        tar.add(&format!("towpath/ledgers/{name}"), &bytes)?;
    }
    if let Ok(folder) = default_folder(session.settings()) {
        let (entries, _problems) = Store::new(folder).all();
        let text = serde_json::to_string_pretty(&entries)?;
        tar.add("towpath/calibrations.json", text.as_bytes())?;
    }
    Ok(tar.end())
}

fn versions() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    format!(
        "towpath {}\nkernel {}{}",
        env!("CARGO_PKG_VERSION"),
        read("/proc/version"),
        read("/etc/os-release")
    )
}

/// A writer of the ustar form: regular files only.
#[derive(Default)]
struct Tar {
    bytes: Vec<u8>,
}

const BLOCK: usize = 512;

impl Tar {
    fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut header = [0_u8; BLOCK];
        put(&mut header, 0, name.as_bytes(), 99)?;
        put(&mut header, 100, b"0000644\0", 8)?;
        put(&mut header, 108, b"0000000\0", 8)?;
        put(&mut header, 116, b"0000000\0", 8)?;
        put(
            &mut header,
            124,
            format!("{:011o}\0", content.len()).as_bytes(),
            12,
        )?;
        put(&mut header, 136, b"00000000000\0", 12)?;
        // The sum counts its own field as spaces.
        put(&mut header, 148, b"        ", 8)?;
        put(&mut header, 156, b"0", 1)?;
        put(&mut header, 257, b"ustar\x0000", 8)?;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes(), 8)?;
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        self.fill();
        Ok(())
    }

    fn fill(&mut self) {
        let whole = self.bytes.len().next_multiple_of(BLOCK);
        self.bytes.resize(whole, 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }
}

fn put(header: &mut [u8; BLOCK], at: usize, field: &[u8], room: usize) -> Result<()> {
    anyhow::ensure!(field.len() <= room, "a name is too long for the bundle");
    let to = header
        .get_mut(at..at + field.len())
        .context("a field outside of the header")?;
    to.copy_from_slice(field);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_what_is_packed() {
        let mut tar = Tar::default();
        tar.add("a/b.txt", b"hello").unwrap();
        tar.add("empty", b"").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar");
        fs::write(&path, tar.end()).unwrap();
        let output = std::process::Command::new("tar")
            .args(["-xvf", "x.tar"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "a/b.txt\nempty\n"
        );
        assert_eq!(fs::read(folder.path().join("a/b.txt")).unwrap(), b"hello");
    }
}
