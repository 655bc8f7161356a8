//! What files of the system say: loaders, drivers, kernel switches. Nothing is started here.

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::Finding;

/// Folders that the dynamic linker of common distributions searches.
pub(super) const LIBRARY_FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/lib64",
    "/lib",
];

/// All of them, in the order of the report.
pub(super) fn findings() -> Vec<Finding> {
    let mut all = vec![opencl()];
    all.extend(vulkan());
    all.extend([
        huge_pages(),
        locked_memory(),
        render_nodes(),
        udmabuf(),
        map_count(),
        pressure(),
    ]);
    all
}

/// The drivers that are registered with the OpenCL loader.
fn opencl() -> Finding {
    registered(
        "readback",
        "OpenCL drivers",
        &["/etc/OpenCL/vendors"],
        "icd",
    )
}

fn vulkan() -> Vec<Finding> {
    let loader = match library("libvulkan.so.1") {
        None => Finding::unavailable("cache", "Vulkan loader", "no libvulkan.so.1"),
        Some(path) => {
            let real = fs::canonicalize(&path).unwrap_or(path);
            Finding::good("cache", "Vulkan loader", real.display().to_string())
        }
    };
    let folders = [
        "/usr/share/vulkan/icd.d",
        "/etc/vulkan/icd.d",
        "/usr/local/share/vulkan/icd.d",
    ];
    vec![
        loader,
        registered("cache", "Vulkan drivers", &folders, "json"),
    ]
}

/// The names of the manifests in `folders`.
fn registered(path: &'static str, what: &str, folders: &[&str], ending: &str) -> Finding {
    let mut names: Vec<String> = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|found| found == ending))
        .filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    if names.is_empty() {
        return Finding::unavailable(path, what, format!("none in {}", folders.join(", ")));
    }
    Finding::good(path, what, names.join(", "))
}

fn huge_pages() -> Finding {
    let what = "transparent huge pages";
    match chosen("/sys/kernel/mm/transparent_hugepage/enabled") {
        Some(mode) if mode == "never" => Finding::unavailable("readback", what, "never")
            .advise("with \"madvise\" prefault is about three times cheaper"),
        Some(mode) => Finding::good("readback", what, mode),
        None => Finding::unavailable("readback", what, "this kernel has none"),
    }
}

/// The word in brackets, as sysfs marks the choice.
fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn locked_memory() -> Finding {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next());
    match limit {
        Some("unlimited") => Finding::good("readback", "locked memory", "unlimited"),
        Some(bytes) => Finding::good("readback", "locked memory", format!("{bytes} bytes")),
        None => Finding::unavailable(
            "readback",
            "locked memory",
            "/proc/self/limits says nothing",
        ),
    }
}

fn render_nodes() -> Finding {
    let mut nodes: Vec<String> = fs::read_dir("/dev/dri")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.starts_with("renderD"))
        .collect();
    nodes.sort();
    if nodes.is_empty() {
        return Finding::unavailable(
            "waits",
            "render nodes",
            "no /dev/dri/renderD*: no kernel sync objects",
        );
    }
    Finding::good("waits", "render nodes", nodes.join(", "))
}

fn udmabuf() -> Finding {
    let path = Path::new("/dev/udmabuf");
    if !path.exists() {
        return Finding::unavailable(
            "upload",
            "udmabuf",
            "no /dev/udmabuf; stitched views are used",
        );
    }
    match fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Finding::good("upload", "udmabuf", "/dev/udmabuf can be opened"),
        Err(error) => Finding::unavailable("upload", "udmabuf", format!("/dev/udmabuf: {error}"))
            .advise("add yourself to the group that owns it (often kvm)"),
    }
}

fn map_count() -> Finding {
    match fs::read_to_string("/proc/sys/vm/max_map_count") {
        Ok(text) => Finding::good("upload", "mappings per process", text.trim()),
        Err(error) => Finding::unavailable("upload", "mappings per process", error.to_string()),
    }
}

fn pressure() -> Finding {
    if Path::new("/proc/pressure/io").exists() {
        return Finding::good("cache", "pressure (PSI)", "/proc/pressure/io");
    }
    Finding::unavailable(
        "cache",
        "pressure (PSI)",
        "this kernel has none; writes are paced by rate only",
    )
}

/// The first library of that name in the linker's folders.
fn library(name: &str) -> Option<PathBuf> {
    LIBRARY_FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
}

/// Whether the bytes of `needle` occur.
pub(super) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}
