//! Where the layers are, and what the environment must say so that loaders find them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use towpath_settings::Settings;

/// A layer or shim of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Library {
    /// OpenCL, by `OPENCL_LAYERS`.
    OpenCl,
    /// Vulkan, by `VK_INSTANCE_LAYERS`.
    Vulkan,
    /// libvirglrenderer, by `LD_PRELOAD`.
    Virgl,
    /// DRM sync objects, by `LD_PRELOAD`.
    Drm,
}

impl Library {
    /// Its file's name.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::OpenCl => "libtowpath_opencl_layer.so",
            Self::Vulkan => "libtowpath_vulkan_layer.so",
            Self::Virgl => "libtowpath_virgl_layer.so",
            Self::Drm => "libtowpath_drm_shim.so",
        }
    }
}

/// Folder, beside the other layers, of those for 32-bit processes.
const NARROW: &str = "i686";

/// Name of the Vulkan layer.
pub(crate) const VULKAN_LAYER: &str = "VK_LAYER_TOWPATH_host";

/// The layers found, by absolute path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    pub(crate) opencl: Option<PathBuf>,
    pub(crate) vulkan: Option<PathBuf>,
    /// The Vulkan layer for 32-bit processes, which few have.
    pub(crate) vulkan32: Option<PathBuf>,
    pub(crate) preload: Vec<PathBuf>,
    /// Those that were asked for or expected and are not there.
    pub(crate) missing: Vec<Library>,
}

impl Layers {
    /// Looks for the layers; `preload` names those that are wanted by `LD_PRELOAD`.
    pub(crate) fn find(settings: &Settings, preload: &[Library]) -> Self {
        let folders = folders(settings);
        let find_in = |below: &str, library: Library| {
            let paths = folders
                .iter()
                .map(|folder| folder.join(below).join(library.file_name()));
            paths
                .filter(|path| path.is_file())
                .find_map(|path| fs::canonicalize(path).ok())
        };
        let find = |library| find_in("", library);
        let mut layers = Self {
            opencl: find(Library::OpenCl),
            vulkan: find(Library::Vulkan),
            vulkan32: find_in(NARROW, Library::Vulkan),
            ..Self::default()
        };
        for library in preload {
            match find(*library) {
                Some(path) => layers.preload.push(path),
                None => layers.missing.push(*library),
            }
        }
        if layers.opencl.is_none() {
            layers.missing.push(Library::OpenCl);
        }
        if layers.vulkan.is_none() {
            layers.missing.push(Library::Vulkan);
        }
        layers
    }
}

/// The setting's folder, beside the program, `../lib/towpath`, the build's folder.
pub(crate) fn folders(settings: &Settings) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = settings.layer_dir.clone().into_iter().collect();
    let program = std::env::current_exe().unwrap_or_default();
    if let Some(beside) = program.parent() {
        folders.push(beside.to_owned());
        if let Some(above) = beside.parent() {
            folders.push(above.join("lib/towpath"));
            // A program in `deps` or `examples` of a build.
            folders.push(above.to_owned());
        }
    }
    folders
}

/// Paths in lists are parted by colons: one that holds a colon gets a link without, in `folder`.
pub(crate) fn without_colon(path: &Path, folder: &Path) -> Option<PathBuf> {
    if !path.as_os_str().as_bytes().contains(&b':') {
        return Some(path.to_owned());
    }
    let link = folder.join(path.file_name()?);
    let made = std::os::unix::fs::symlink(path, &link);
    (made.is_ok() || link.is_symlink()).then_some(link)
}

/// `list` with `item` behind what is there. The last OpenCL layer of the list is called first, and
/// so sees the program's calls before the user's own layers do.
pub(crate) fn appended(
    list: Option<&OsStr>,
    item: &OsStr,
    same: impl Fn(&OsStr) -> bool,
) -> OsString {
    let mut whole = OsString::new();
    let there = list.map(OsStr::as_bytes).unwrap_or_default();
    for part in there
        .split(|byte| *byte == b':')
        .filter(|part| !part.is_empty())
    {
        let part = OsStr::from_bytes(part);
        if same(part) {
            // The user's own choice of ours is replaced: two of one layer would count twice.
            continue;
        }
        whole.push(part);
        whole.push(":");
    }
    whole.push(item);
    whole
}

/// Whether a part of a list is the library `file_name`, wherever it lies.
pub(crate) fn is_library(part: &OsStr, file_name: &str) -> bool {
    Path::new(part).file_name() == Some(OsStr::new(file_name))
}

/// The manifest by which the Vulkan loader finds `library`: the layer's own, with the path put in.
pub(crate) fn vulkan_manifest(library: &Path) -> serde_json::Value {
    const OURS: &str = include_str!("../../../vulkan-layer/towpath_vulkan_layer.json");
    // A test holds that it can be read.
    let mut manifest: serde_json::Value = serde_json::from_str(OURS).unwrap_or_default();
    if let Some(path) = manifest.pointer_mut("/layer/library_path") {
        *path = library.to_string_lossy().into();
    }
    manifest
}

/// As [`vulkan_manifest`], for processes of `bits`: of two layers of one name a loader takes its own.
pub(crate) fn vulkan_manifest_for(library: &Path, bits: &str) -> serde_json::Value {
    let mut manifest = vulkan_manifest(library);
    if let Some(layer) = manifest.pointer_mut("/layer")
        && let Some(layer) = layer.as_object_mut()
    {
        layer.insert("library_arch".to_owned(), bits.into());
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opencl(list: Option<&str>) -> String {
        let name = Library::OpenCl.file_name();
        let item = format!("/x/{name}");
        appended(list.map(OsStr::new), item.as_ref(), |part| {
            is_library(part, name)
        })
        .into_string()
        .unwrap()
    }

    #[test]
    fn ours_comes_behind_the_users_and_only_once() {
        assert_eq!(opencl(None), "/x/libtowpath_opencl_layer.so");
        assert_eq!(opencl(Some("")), "/x/libtowpath_opencl_layer.so");
        assert_eq!(
            opencl(Some("/a.so:b.so")),
            "/a.so:b.so:/x/libtowpath_opencl_layer.so"
        );
        let twice = "libtowpath_opencl_layer.so:/a.so:/y/libtowpath_opencl_layer.so";
        assert_eq!(opencl(Some(twice)), "/a.so:/x/libtowpath_opencl_layer.so");
    }

    #[test]
    fn the_manifest_names_the_library_and_the_layer() {
        let manifest = vulkan_manifest(Path::new("/x/lib.so"));
        assert_eq!(manifest["layer"]["library_path"], "/x/lib.so");
        assert_eq!(manifest["layer"]["name"], VULKAN_LAYER);
        let manifest = vulkan_manifest_for(Path::new("/x/lib.so"), "32");
        assert_eq!(manifest["layer"]["library_arch"], "32");
        assert_eq!(manifest["layer"]["library_path"], "/x/lib.so");
    }

    #[test]
    fn a_path_with_a_colon_gets_a_link_without() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a:b");
        fs::create_dir(&odd).unwrap();
        let library = odd.join("lib.so");
        fs::write(&library, "").unwrap();
        let link = without_colon(&library, folder.path()).unwrap();
        assert_eq!(
            fs::canonicalize(&link).unwrap(),
            fs::canonicalize(&library).unwrap()
        );
        assert!(!link.to_str().unwrap().contains(':'));
        let plain = folder.path().join("lib2.so");
        assert_eq!(without_colon(&plain, folder.path()), Some(plain));
    }
}
