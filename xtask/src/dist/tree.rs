//! What lies where in the installed tree, and how it gets there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::texts::{self, SONAME, VERSION};

/// Where an entry's content comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    /// A copy of a file.
    File(PathBuf),
    /// This text.
    Text(String),
    /// A symbolic link to a neighbour.
    Link(String),
}

/// One file of the tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// Its content.
    pub(crate) source: Source,
    /// Its path below the tree.
    pub(crate) path: PathBuf,
}

impl Entry {
    pub(crate) fn new(source: Source, path: &str) -> Self {
        let path = PathBuf::from(path);
        Self { source, path }
    }

    /// A copy of `from` as `folder/name`.
    pub(crate) fn file(from: &Path, folder: &str, name: &str) -> Self {
        Self::new(Source::File(from.to_owned()), &format!("{folder}/{name}"))
    }

    /// Puts it below `tree`, readable for all, executable in `bin`.
    ///
    /// # Errors
    ///
    /// If its source is not there or the tree cannot be written.
    pub(crate) fn place(&self, tree: &Path) -> Result<()> {
        let to = tree.join(&self.path);
        let text = || format!("cannot make {}", to.display());
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).with_context(text)?;
        }
        match &self.source {
            Source::Link(target) => return symlink(target, &to).with_context(text),
            Source::Text(content) => fs::write(&to, content).with_context(text)?,
            Source::File(from) => {
                fs::copy(from, &to).with_context(|| {
                    format!("cannot copy {} to {}", from.display(), to.display())
                })?;
            }
        }
        let mode = if self.path.starts_with("bin") {
            0o755
        } else {
            0o644
        };
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).with_context(text)
    }
}

/// The layers, which the program looks for in `../lib/towpath`.
const LAYERS: [&str; 4] = [
    "libtowpath_opencl_layer.so",
    "libtowpath_vulkan_layer.so",
    "libtowpath_virgl_layer.so",
    "libtowpath_drm_shim.so",
];

/// The C programs, and the headers that they share.
const EXAMPLES: [&str; 6] = [
    "common.h",
    "game.hpp",
    "pipeline_cache.cpp",
    "readback.c",
    "syncobj.c",
    "texture_upload.c",
];

/// Everything but man pages, completions and notices, which are made first. `root` is the repository.
pub(crate) fn fixed(root: &Path) -> Vec<Entry> {
    let built = root.join("target/release");
    let full = format!("libtowpath.so.{VERSION}");
    let mut entries = vec![
        Entry::file(&built.join("towpath"), "bin", "towpath"),
        Entry::file(&built.join("libtowpath.so"), "lib", &full),
        Entry::new(Source::Link(full), &format!("lib/{SONAME}")),
        Entry::new(Source::Link(SONAME.to_owned()), "lib/libtowpath.so"),
        Entry::file(&built.join("libtowpath.a"), "lib", "libtowpath.a"),
        Entry::new(
            Source::Text(texts::pkg_config()),
            "lib/pkgconfig/towpath.pc",
        ),
        Entry::file(
            &root.join("crates/capi/include/towpath.h"),
            "include",
            "towpath.h",
        ),
    ];
    for layer in LAYERS {
        entries.push(Entry::file(&built.join(layer), "lib/towpath", layer));
    }
    let manifest = root.join("crates/vulkan-layer/towpath_vulkan_layer.json");
    entries.push(Entry::file(
        &manifest,
        "lib/towpath",
        "towpath_vulkan_layer.json",
    ));
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
        entries.push(Entry::file(&root.join(name), "share/doc/towpath", name));
    }
    for name in EXAMPLES {
        let from = root.join("examples/c").join(name);
        entries.push(Entry::file(&from, "share/doc/towpath/examples", name));
    }
    entries
}

/// The names of the files and links in `folder`, sorted.
///
/// # Errors
///
/// If the folder cannot be listed.
pub(crate) fn files_of(folder: &Path) -> Result<Vec<String>> {
    let text = || format!("cannot list {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(text)? {
        let entry = entry.with_context(text)?;
        if !entry.file_type().with_context(text)?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The bytes of all files below `folder`; links count nothing.
///
/// # Errors
///
/// If a folder cannot be listed.
pub(crate) fn bytes_below(folder: &Path) -> Result<u64> {
    let text = || format!("cannot list {}", folder.display());
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(text)? {
        let entry = entry.with_context(text)?;
        let kind = entry.metadata().with_context(text)?;
        if kind.is_dir() {
            bytes += bytes_below(&entry.path())?;
        } else if kind.is_file() {
            bytes += kind.len();
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::run::root;

    fn plan() -> Vec<Entry> {
        fixed(&root())
    }

    fn source_of(path: &str) -> Source {
        let found = plan()
            .into_iter()
            .find(|entry| entry.path == Path::new(path));
        found.unwrap_or_else(|| panic!("no {path}")).source
    }

    #[test]
    fn whatever_the_repository_gives_is_in_the_repository() {
        let root = root();
        let mut given = 0;
        for entry in plan() {
            let Source::File(from) = entry.source else {
                continue;
            };
            if !from.starts_with(root.join("target")) {
                given += 1;
                assert!(from.is_file(), "{}", from.display());
            }
        }
        assert!(given > 8, "{given}");
        let written: BTreeSet<String> = files_of(&root.join("examples/c"))
            .unwrap()
            .into_iter()
            .collect();
        assert_eq!(written, EXAMPLES.map(str::to_owned).into_iter().collect());
    }

    #[test]
    fn no_path_is_given_twice_or_leaves_the_tree() {
        let paths: Vec<PathBuf> = plan().into_iter().map(|entry| entry.path).collect();
        let unique: BTreeSet<&PathBuf> = paths.iter().collect();
        assert_eq!(unique.len(), paths.len());
        for path in &paths {
            assert!(path.is_relative() && !path.to_string_lossy().contains(".."));
        }
    }

    #[test]
    fn the_links_lead_from_the_linkers_name_over_the_loaders_to_the_file() {
        let Source::Link(loaders) = source_of("lib/libtowpath.so") else {
            panic!("not a link")
        };
        let Source::Link(file) = source_of(&format!("lib/{loaders}")) else {
            panic!("not a link")
        };
        let Source::File(built) = source_of(&format!("lib/{file}")) else {
            panic!("not a file")
        };
        assert!(built.ends_with("release/libtowpath.so"));
    }

    #[test]
    fn the_manifest_names_the_layer_beside_it() {
        let Source::File(manifest) = source_of("lib/towpath/towpath_vulkan_layer.json") else {
            panic!("not a file")
        };
        let text = fs::read_to_string(manifest).unwrap();
        assert!(text.contains("\"./libtowpath_vulkan_layer.so\""));
        assert!(LAYERS.contains(&"libtowpath_vulkan_layer.so"));
    }

    #[test]
    fn entries_are_placed_with_their_content_and_mode() {
        let tree = std::env::temp_dir().join(format!("towpath-dist-{}", std::process::id()));
        let entries = [
            Entry::new(Source::Text("four".to_owned()), "bin/a"),
            Entry::new(Source::Text("two".to_owned()), "share/b"),
            Entry::new(Source::Link("a".to_owned()), "bin/c"),
        ];
        for entry in &entries {
            entry.place(&tree).unwrap();
        }
        let mode = |path: &str| fs::metadata(tree.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("bin/a"), mode("share/b")), (0o755, 0o644));
        assert_eq!(fs::read_to_string(tree.join("bin/c")).unwrap(), "four");
        assert_eq!(files_of(&tree.join("bin")).unwrap(), ["a", "c"]);
        assert_eq!(bytes_below(&tree).unwrap(), 7);
        let missing = Entry::file(Path::new("/nowhere/x"), "bin", "x");
        assert!(format!("{:#}", missing.place(&tree).unwrap_err()).contains("/nowhere/x"));
        fs::remove_dir_all(tree).unwrap();
    }
}
