//! The Debian package of the tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::texts::{self, Target};
use super::tree::{self, Entry, Source};
use super::{clear, moment, package_file, seconds};
use crate::run::{has_program, run as start, run_with, say};

/// Where Debian looks for what has changed.
const CHANGES: &str = "usr/share/doc/towpath/changelog";

/// Packs the tree as `/usr` of a Debian package.
///
/// # Errors
///
/// If something cannot be written, or dpkg-deb fails.
pub(super) fn package(out: &Path, tree: &Path, target: &Target) -> Result<()> {
    if !has_program("dpkg-deb") {
        say("No dpkg-deb here: no Debian package.");
        return Ok(());
    }
    let folder = out.join("deb");
    clear(&folder)?;
    fs::create_dir_all(&folder)?;
    let usr = folder.join("usr");
    start(
        "cp",
        &[
            "-a",
            &tree.display().to_string(),
            &usr.display().to_string(),
        ],
    )?;
    // As Debian wants them; the time of packing must not get in.
    let pages = usr.join("share/man/man1");
    for page in tree::files_of(&pages)? {
        compress(&pages.join(page))?;
    }
    let needs = newest_glibc(tree)?;
    let kib = tree::bytes_below(&usr)?.div_ceil(1024);
    let date = moment("%cD").unwrap_or_else(|| "Thu, 1 Jan 1970 00:00:00 +0000".to_owned());
    let control = [
        ("DEBIAN/control", texts::control(target, &needs, kib)),
        ("DEBIAN/shlibs", texts::shlibs()),
        ("DEBIAN/triggers", "activate-noawait ldconfig\n".to_owned()),
        ("usr/share/doc/towpath/copyright", texts::copyright()),
        (CHANGES, texts::changes(&date)),
    ];
    for (path, text) in control {
        Entry::new(Source::Text(text), path).place(&folder)?;
    }
    compress(&folder.join(CHANGES))?;
    let file = package_file(out, target);
    let words = [
        "--build",
        "--root-owner-group",
        &folder.display().to_string(),
        &file.display().to_string(),
    ];
    run_with("dpkg-deb", &words, &[("SOURCE_DATE_EPOCH", &seconds())])?;
    say(&format!("Wrote {}", file.display()));
    Ok(())
}

/// As Debian wants texts, without the time of packing.
fn compress(path: &Path) -> Result<()> {
    start("gzip", &["-9n", &path.display().to_string()])
}

/// The glibc that the tree's programs and libraries ask for.
fn newest_glibc(tree: &Path) -> Result<String> {
    let mut text = String::new();
    for folder in ["bin", "lib", "lib/towpath"] {
        for name in tree::files_of(&tree.join(folder))? {
            let shown = Command::new("readelf")
                .args(["-V", "-W"])
                .arg(tree.join(folder).join(name))
                .output()
                .context("cannot start readelf (package binutils)")?;
            text.push_str(&String::from_utf8_lossy(&shown.stdout));
        }
    }
    texts::newest_glibc(&text).context("readelf shows no version of glibc")
}
