//! The four example programs, built by the system's compilers against the library and run; and what the
//! library exports and needs.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use towpath_needs::{Need, artifact, can_run};

struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    /// The library under the names that the linker and the loader look for.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libtowpath.so", "libtowpath.so.0"] {
            symlink(artifact("libtowpath.so"), folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn build(&self, compiler: &str, source: &Path, more: &[&str]) -> PathBuf {
        let program = self.folder.path().join("example");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let done = Command::new(compiler)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("include"))
            .arg(source)
            .arg("-L")
            .arg(self.folder.path())
            .arg(format!("-Wl,-rpath,{}", self.folder.path().display()))
            .args(["-ltowpath", "-lpthread"])
            .args(more)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        program
    }

    /// Builds and runs an example; it prints "ok" last.
    fn run(&self, compiler: &str, name: &str, more: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples/c")
            .join(name);
        let program = self.build(compiler, &source, more);
        let done = Command::new(&program)
            .env("POCL_CACHE_DIR", self.folder.path())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&done.stdout);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success() && out.ends_with("ok\n"),
            "{out}{errors}"
        );
    }
}

#[test]
fn sync_objects_in_c() {
    if can_run(&[Need::Cc]) {
        Installed::new().run("cc", "syncobj.c", &["-std=c99"]);
    }
}

#[test]
fn textures_from_pieces_in_c() {
    if can_run(&[Need::Cc]) {
        Installed::new().run("cc", "texture_upload.c", &["-std=c11"]);
    }
}

#[test]
fn a_pipeline_cache_in_cpp() {
    if can_run(&[Need::Cxx]) {
        Installed::new().run("c++", "pipeline_cache.cpp", &["-std=c++17"]);
    }
}

#[test]
fn a_readback_in_c() {
    if can_run(&[Need::Cc, Need::Pocl, Need::PagemapScan]) {
        Installed::new().run("cc", "readback.c", &["-std=c11", "-lOpenCL"]);
    }
}

#[test]
fn the_examples_are_clean_under_address_sanitizer() {
    if !can_run(&[Need::Cc, Need::Cxx]) {
        return;
    }
    let installed = Installed::new();
    installed.run("cc", "syncobj.c", &["-std=c11", "-fsanitize=address"]);
    installed.run(
        "cc",
        "texture_upload.c",
        &["-std=c11", "-fsanitize=address"],
    );
    installed.run(
        "c++",
        "pipeline_cache.cpp",
        &["-std=c++17", "-fsanitize=address"],
    );
}

#[test]
fn exactly_the_functions_of_the_header_are_exported() {
    let listed = |args: &[&str], program: &str| {
        let done = Command::new(program)
            .args(args)
            .arg(artifact("libtowpath.so"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let exported: BTreeSet<String> = listed(&["-D", "--defined-only"], "nm")
        .lines()
        .filter_map(|line| line.split_whitespace().last().map(str::to_owned))
        .collect();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/towpath.h");
    let header = fs::read_to_string(header).unwrap();
    let declared: BTreeSet<String> = header
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '('))
        .filter_map(|word| word.split_once('('))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.starts_with("tp_"))
        .collect();
    assert!(declared.len() > 15, "{declared:?}");
    assert_eq!(exported, declared);
    let needed: BTreeSet<String> = listed(&["-d"], "readelf")
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned()))
        .collect();
    let allowed = [
        "libc.so.6",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
        "libm.so.6",
    ];
    assert!(
        needed.iter().all(|name| allowed.contains(&name.as_str())),
        "{needed:?}"
    );
}
