//! The licences of the libraries that are linked into what is shipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::tree::files_of;
use crate::run::{cargo, root};

/// A library of others.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Library {
    name: String,
    version: String,
    licence: String,
    folder: PathBuf,
}

/// One text: name, version, licence and the licence's own files of each library under `packages`.
///
/// # Errors
///
/// If cargo does not say what is linked.
pub(crate) fn collect(packages: &[&str]) -> Result<String> {
    let mut text =
        "Libraries of others that are linked into towpath, and their licences.\n".to_owned();
    for library in &linked_into(packages)? {
        text.push_str(&notice(library)?);
    }
    Ok(text)
}

/// The libraries of others that are linked into `packages`.
fn linked_into(packages: &[&str]) -> Result<BTreeSet<Library>> {
    let mut words = vec![
        "tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
    ];
    for package in packages {
        words.extend(["-p", package]);
    }
    let linked = linked(&ask(&words)?);
    // For this platform alone: what the others need may not have been fetched.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = [
        "metadata",
        "--format-version",
        "1",
        "--filter-platform",
        &platform,
    ];
    let metadata: Value = serde_json::from_str(&ask(&words)?)
        .context("cargo metadata printed something else than JSON")?;
    let libraries = libraries(&metadata, &linked);
    if libraries.is_empty() {
        bail!("cargo names no library that is linked in");
    }
    Ok(libraries)
}

/// Whether a licence, as Cargo writes it, leaves a choice that goes with a program under GPL-2.0 alone.
#[cfg(test)]
fn goes_with_gpl_2(licence: &str) -> bool {
    // Each has no more conditions than a notice. Apache-2.0 alone has some that GPL-2.0 does not allow.
    const FREE: [&str; 8] = [
        "MIT",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "BSL-1.0",
        "0BSD",
        "Unlicense",
    ];
    // "A AND B" asks for both; "/" is the old way to write OR.
    licence.split(" AND ").all(|part| {
        part.replace('/', " OR ")
            .split(" OR ")
            .any(|choice| FREE.contains(&choice.trim().trim_matches(['(', ')'])))
    })
}

fn ask(words: &[&str]) -> Result<String> {
    let shown = Command::new(cargo())
        .args(words)
        .current_dir(root())
        .output()
        .context("cannot start cargo")?;
    if !shown.status.success() {
        bail!(
            "cargo {} failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&shown.stderr)
        );
    }
    String::from_utf8(shown.stdout).context("cargo printed no UTF-8")
}

/// Names and versions in `cargo tree --format {p}`: "libc v0.2.1", "ours v0.1.0 (/path)", "x v1 (*)".
fn linked(tree: &str) -> BTreeSet<(String, String)> {
    let pairs = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let version = words.next()?.strip_prefix('v')?;
        Some((name.to_owned(), version.to_owned()))
    });
    pairs.collect()
}

/// Those of `linked` that come from a registry: ours have no source.
fn libraries(metadata: &Value, linked: &BTreeSet<(String, String)>) -> BTreeSet<Library> {
    let all = metadata.get("packages").and_then(Value::as_array);
    let all = all.map(Vec::as_slice).unwrap_or_default();
    let text = |package: &Value, field: &str| {
        package
            .get(field)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    all.iter()
        .filter_map(|package| {
            text(package, "source")?;
            let manifest = PathBuf::from(text(package, "manifest_path")?);
            Some(Library {
                name: text(package, "name")?,
                version: text(package, "version")?,
                licence: text(package, "license").unwrap_or_else(|| "see below".to_owned()),
                folder: manifest.parent()?.to_owned(),
            })
        })
        .filter(|library| linked.contains(&(library.name.clone(), library.version.clone())))
        .collect()
}

fn notice(library: &Library) -> Result<String> {
    let rule = "-".repeat(80);
    let mut text = format!(
        "\n{rule}\n{} {}: {}\n",
        library.name, library.version, library.licence
    );
    for name in files_of(&library.folder)?
        .iter()
        .filter(|name| is_licence(name))
    {
        let path = library.folder.join(name);
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.push_str(&format!(
            "\n[{name}]\n{}\n",
            String::from_utf8_lossy(&content).trim_end()
        ));
    }
    Ok(text)
}

fn is_licence(name: &str) -> bool {
    let stem = Path::new(name)
        .file_name()
        .map(|name| name.to_string_lossy().to_uppercase());
    stem.is_some_and(|stem| {
        [
            "LICENSE",
            "LICENCE",
            "COPYING",
            "COPYRIGHT",
            "NOTICE",
            "UNLICENSE",
        ]
        .iter()
        .any(|start| stem.starts_with(start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_linked_libraries_of_others_are_named() {
        let tree = "towpath-cli v0.1.0 (/somewhere)\nlibc v0.2.1\nlibc v0.2.1 (*)\nash v0.38.0+1.3.281\n\n";
        let linked = linked(tree);
        assert_eq!(linked.len(), 3);
        let package = |name: &str, version: &str, source: Option<&str>| {
            serde_json::json!({
                "name": name, "version": version, "source": source, "license": "MIT",
                "manifest_path": format!("/registry/{name}/Cargo.toml"),
            })
        };
        let metadata = serde_json::json!({"packages": [
            package("libc", "0.2.1", Some("registry")),
            package("libc", "0.1.0", Some("registry")),
            package("ash", "0.38.0+1.3.281", Some("registry")),
            package("proptest", "1.0.0", Some("registry")),
            package("towpath-cli", "0.1.0", None),
        ]});
        let found = libraries(&metadata, &linked);
        let names: Vec<&str> = found.iter().map(|library| library.name.as_str()).collect();
        assert_eq!(names, ["ash", "libc"]);
        assert!(libraries(&Value::Null, &linked).is_empty());
    }

    /// docs/integration.md, "May I link it?", rests on this.
    #[test]
    fn all_that_the_c_library_links_goes_with_programs_under_gpl_2_alone() {
        let libraries = linked_into(&["towpath-capi"]).unwrap();
        assert!(libraries.len() > 5, "{libraries:?}");
        for library in libraries {
            // Run by the compiler, not linked.
            let is_tool =
                ["proc-macro2", "quote", "syn", "unicode-ident"].contains(&&*library.name);
            assert!(
                is_tool || goes_with_gpl_2(&library.licence),
                "{} {}: {}",
                library.name,
                library.version,
                library.licence
            );
        }
    }

    #[test]
    fn licences_with_and_without_a_choice() {
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND ISC",
        ] {
            assert!(goes_with_gpl_2(licence), "{licence}");
        }
        for licence in [
            "Apache-2.0",
            "MPL-2.0",
            "MIT AND Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "see below",
        ] {
            assert!(!goes_with_gpl_2(licence), "{licence}");
        }
    }

    #[test]
    fn the_texts_of_real_libraries_are_found() {
        let text = collect(&["towpath-capi"]).unwrap();
        assert!(text.contains("\nrustix ") && text.contains("Permission is hereby granted"));
        assert!(!text.contains("\ntowpath-") && !text.contains("\nproptest "));
        // Each library with a text, not only a name.
        let parts: Vec<&str> = text.split(&"-".repeat(80)).skip(1).collect();
        let bare: Vec<&&str> = parts.iter().filter(|part| !part.contains("\n[")).collect();
        assert!(bare.len() * 4 < parts.len(), "{bare:?}");
    }

    #[test]
    fn licence_files_are_known_by_their_names() {
        for name in [
            "LICENSE-MIT",
            "license.md",
            "COPYING",
            "NOTICE.txt",
            "LICENCE",
        ] {
            assert!(is_licence(name), "{name}");
        }
        assert!(!is_licence("README.md") && !is_licence("Cargo.toml"));
    }
}
