//! C and C++ programs built against the library, for the tests of this folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use towpath_needs::artifact;

/// A folder with the library under the names that the linker and the loader look for.
pub(crate) struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libtowpath.so", "libtowpath.so.0"] {
            symlink(artifact("libtowpath.so"), folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Builds a C program with `libtowpath.a` and no shared library at all.
    pub(crate) fn build_static(&self, source: &Path) -> PathBuf {
        self.build_with_archive(source, &["-static"])
    }

    /// Builds a C program with `libtowpath.a` in it.
    pub(crate) fn build_with_archive(&self, source: &Path, more: &[&str]) -> PathBuf {
        let program = self.path().join("linked");
        built(
            compile("cc", source)
                .args(["-std=c11"])
                .args(more)
                .arg(artifact("libtowpath.a"))
                // As towpath.pc has them; where glibc is older, they are libraries of their own.
                .args(["-lpthread", "-ldl"])
                .arg("-o")
                .arg(&program),
        );
        program
    }

    /// Builds a program; every warning is an error.
    pub(crate) fn build(&self, compiler: &str, source: &Path, more: &[&str]) -> PathBuf {
        let program = self.path().join("example");
        built(
            compile(compiler, source)
                // Libraries come after the source.
                .args(more)
                .arg("-L")
                .arg(self.path())
                .arg(format!("-Wl,-rpath,{}", self.path().display()))
                .args(["-ltowpath", "-lpthread", "-o"])
                .arg(&program),
        );
        program
    }

    /// Builds and runs an example; it prints "ok" last.
    pub(crate) fn run(&self, compiler: &str, name: &str, more: &[&str]) {
        let program = self.build(compiler, &example(name), more);
        says_ok(self.drivers(&mut Command::new(program)));
    }

    /// Lets a program find the mock driver alone, and PoCL keep its kernels here.
    pub(crate) fn drivers<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let manifest = self.path().join("mock_vulkan.json");
        let text = format!(
            r#"{{"file_format_version": "1.0.1", "ICD": {{"library_path": "{}", "api_version": "1.3.0"}}}}"#,
            artifact("libtowpath_mock_vulkan.so").display()
        );
        fs::write(&manifest, text).unwrap();
        command
            .env("POCL_CACHE_DIR", self.path())
            .env("VK_ICD_FILENAMES", &manifest)
            .env("VK_DRIVER_FILES", &manifest)
            .env("MOCK_VULKAN", "entry_bytes=65536;abort_on_fault=1")
    }

    /// A copy of the library, a file of its own: the loader takes links for the same library.
    pub(crate) fn copy(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::copy(artifact("libtowpath.so"), &path).unwrap();
        path
    }
}

/// A compiler with a source and the headers that it may want.
fn compile(compiler: &str, source: &Path) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(compiler);
    // The language first: it counts for what follows.
    if source.extension().is_some_and(|ending| ending == "c") && compiler.ends_with("++") {
        command.arg("-xc++");
    }
    command
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg("-I")
        .arg(root.join("../../examples/c"))
        .arg(source)
        .arg("-xnone");
    command
}

/// Compiles without making anything.
pub(crate) fn look_at(source: &Path, more: &[&str]) {
    built(
        compile("cc", source)
            .args(["-std=c99", "-pedantic", "-fsyntax-only"])
            .args(more),
    );
}

fn built(command: &mut Command) {
    let done = command.output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
}

/// Valgrind, to which errors and blocks that nobody knows any more are failures.
pub(crate) fn valgrind() -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--quiet", "--error-exitcode=9", "--fair-sched=yes"])
        .args(["--leak-check=full", "--errors-for-leak-kinds=definite"])
        .arg(format!(
            "--suppressions={}",
            source("drivers.supp").display()
        ));
    valgrind
}

/// The source of an example.
pub(crate) fn example(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c");
    folder.join(name)
}

/// The source of a program of the tests.
pub(crate) fn source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    folder.join(name)
}

/// Runs a program that prints "ok" last.
pub(crate) fn says_ok(command: &mut Command) {
    let done = command.output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && out.ends_with("ok\n"),
        "{}: {out}{errors}",
        done.status
    );
}
