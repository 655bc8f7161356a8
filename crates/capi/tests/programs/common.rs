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

    /// Builds a program; every warning is an error.
    pub(crate) fn build(&self, compiler: &str, source: &Path, more: &[&str]) -> PathBuf {
        let program = self.path().join("example");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let done = Command::new(compiler)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("include"))
            .arg("-I")
            .arg(root.join("../../examples/c"))
            .arg(source)
            .arg("-L")
            .arg(self.path())
            .arg(format!("-Wl,-rpath,{}", self.path().display()))
            .args(["-ltowpath", "-lpthread"])
            .args(more)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{errors}");
        program
    }

    /// Builds and runs an example; it prints "ok" last.
    pub(crate) fn run(&self, compiler: &str, name: &str, more: &[&str]) {
        let program = self.build(compiler, &example(name), more);
        says_ok(Command::new(program).env("POCL_CACHE_DIR", self.path()));
    }

    /// A copy of the library, a file of its own: the loader takes links for the same library.
    pub(crate) fn copy(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::copy(artifact("libtowpath.so"), &path).unwrap();
        path
    }
}

/// The source of an example.
pub(crate) fn example(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c");
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
