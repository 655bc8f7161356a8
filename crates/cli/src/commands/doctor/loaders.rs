//! Every libOpenCL that a program could get, in the order in which the linker would look.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use towpath_settings::Settings;

use super::finding::Finding;

/// One libOpenCL.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Loader {
    path: PathBuf,
    /// Why a program would find it.
    by: &'static str,
}

/// A line for each of them; `used` is the one that this process's own start of OpenCL got.
pub(super) fn findings(settings: &Settings, used: Option<&Path>) -> Vec<Finding> {
    let loaders = all(settings, used);
    if loaders.is_empty() {
        return vec![
            Finding::unavailable("readback", WHAT, "no libOpenCL.so.1")
                .advise("install the OpenCL loader (Debian: ocl-icd-libopencl1)"),
        ];
    }
    loaders.iter().map(describe).collect()
}

const WHAT: &str = "OpenCL loader";

fn describe(loader: &Loader) -> Finding {
    let path = loader.path.display();
    let by = loader.by;
    match fs::read(&loader.path) {
        Ok(bytes) if super::files::contains(&bytes, b"OPENCL_LAYERS") => {
            Finding::good("readback", WHAT, format!("{path} loads layers ({by})"))
        }
        Ok(_) => Finding::unavailable("readback", WHAT, format!("{path} loads no layers ({by})"))
            .advise(
                "programs that get it cannot be seen: put a loader with layers (ocl-icd 2.3, \
                 Khronos) before it, in LD_LIBRARY_PATH or the linker's cache",
            ),
        Err(error) => {
            Finding::unavailable("readback", WHAT, format!("cannot read {path}: {error}"))
        }
    }
}

/// The one in use first, then by the linker's order, then where vendors put theirs; each file once.
fn all(settings: &Settings, used: Option<&Path>) -> Vec<Loader> {
    let mut found: Vec<Loader> = Vec::new();
    let mut add = |path: PathBuf, by: &'static str| {
        let real = fs::canonicalize(&path);
        let is_new = found
            .iter()
            .all(|known| fs::canonicalize(&known.path).ok() != real.as_ref().ok().cloned());
        if real.is_ok() && is_new {
            found.push(Loader { path, by });
        }
    };
    if let Some(path) = used {
        add(path.to_owned(), "a program gets this one here");
    }
    let in_folders = |folders: Vec<PathBuf>| {
        let names = ["libOpenCL.so.1", "libOpenCL.so"];
        folders
            .into_iter()
            .flat_map(move |folder| names.map(|name| folder.join(name)))
            .filter(|path| path.exists())
    };
    let by_variable = settings
        .ld_library_path
        .as_ref()
        .map(|list| std::env::split_paths(list).collect())
        .unwrap_or_default();
    for path in in_folders(by_variable) {
        add(path, "by LD_LIBRARY_PATH");
    }
    for path in linker_cache() {
        add(path, "by the linker's cache");
    }
    for path in in_folders(
        super::files::LIBRARY_FOLDERS
            .iter()
            .map(PathBuf::from)
            .collect(),
    ) {
        add(path, "in a system folder");
    }
    for path in in_folders(vendor_folders(Path::new("/"))) {
        add(path, "a vendor's, for programs that name its folder");
    }
    found
}

/// What `ldconfig -p` lists under the name that programs ask for.
fn linker_cache() -> Vec<PathBuf> {
    let listed = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"]
        .iter()
        .find_map(|program| Command::new(program).arg("-p").output().ok());
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    from_cache(&String::from_utf8_lossy(&text))
}

fn from_cache(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| line.starts_with("libOpenCL.so.1 "))
        .filter_map(|line| line.split_once(" => "))
        .map(|(_, path)| PathBuf::from(path))
        .collect()
}

/// Where CUDA, ROCm and oneAPI bring a libOpenCL of their own, below `root`.
fn vendor_folders(root: &Path) -> Vec<PathBuf> {
    let patterns = [
        "usr/local/cuda*/lib64",
        "usr/local/cuda*/targets/*/lib",
        "opt/cuda*/lib64",
        "opt/cuda*/targets/*/lib",
        "opt/rocm*/lib",
        "opt/rocm*/opencl/lib",
        "opt/amdgpu*/lib/x86_64-linux-gnu",
        "opt/intel/oneapi/compiler/*/lib",
        "opt/conda/lib",
    ];
    let full = patterns.map(|pattern| root.join(pattern).display().to_string());
    full.iter()
        .filter_map(|pattern| glob::glob(pattern).ok())
        .flat_map(Iterator::flatten)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_list_is_read() {
        let text = "1234 libs found in cache `/etc/ld.so.cache'\n\
            \tlibOpenCL.so.1 (libc6,x86-64) => /usr/local/cuda/lib64/libOpenCL.so.1\n\
            \tlibOpenCL.so (libc6,x86-64) => /usr/lib/libOpenCL.so\n\
            \tlibOpenCL.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libOpenCL.so.1\n";
        assert_eq!(
            from_cache(text),
            [
                PathBuf::from("/usr/local/cuda/lib64/libOpenCL.so.1"),
                PathBuf::from("/usr/lib/x86_64-linux-gnu/libOpenCL.so.1")
            ]
        );
        assert!(from_cache("").is_empty());
    }

    #[test]
    fn each_loader_is_named_once_with_what_it_can_do_and_why_it_would_be_found() {
        let folder = tempfile::tempdir().unwrap();
        let with = folder.path().join("with");
        let without = folder.path().join("without");
        for (place, content) in [(&with, "x OPENCL_LAYERS y"), (&without, "x")] {
            fs::create_dir(place).unwrap();
            fs::write(place.join("libOpenCL.so.1"), content).unwrap();
            std::os::unix::fs::symlink("libOpenCL.so.1", place.join("libOpenCL.so")).unwrap();
        }
        let list = std::env::join_paths([&without, &with]).unwrap();
        let (settings, _) =
            Settings::read(|name| (name == "LD_LIBRARY_PATH").then(|| list.clone()));
        let used = with.join("libOpenCL.so.1");
        let lines: Vec<String> = findings(&settings, Some(&used))
            .into_iter()
            .map(|finding| finding.text)
            .collect();
        let mine: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains(folder.path().to_str().unwrap()))
            .collect();
        assert_eq!(mine.len(), 2, "{lines:?}");
        assert!(mine[0].contains("with/libOpenCL.so.1 loads layers (a program gets"));
        assert!(mine[1].contains("without/libOpenCL.so.1 loads no layers (by LD_LIBRARY_PATH"));
    }

    #[test]
    fn vendors_folders_are_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root
            .path()
            .join("usr/local/cuda-12.4/targets/x86_64-linux/lib");
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(vendor_folders(root.path()), [folder]);
    }
}
