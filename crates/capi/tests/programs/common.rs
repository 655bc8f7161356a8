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
        let program = self.path().join("static");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let done = Command::new("cc")
            .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-static"])
            .arg("-I")
            .arg(root.join("include"))
            .arg("-I")
            .arg(root.join("../../examples/c"))
            .arg(source)
            .arg(artifact("libtowpath.a"))
            .args(["-lpthread", "-lm", "-ldl"])
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{errors}");
        program
    }

    /// Builds a program; every warning is an error.
    pub(crate) fn build(&self, compiler: &str, source: &Path, more: &[&str]) -> PathBuf {
        let program = self.path().join("example");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let done = Command::new(compiler)
            .args(more)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("include"))
            .arg("-I")
            .arg(root.join("../../examples/c"))
            .arg(source)
            .arg("-L")
            .arg(self.path())
            .arg(format!("-Wl,-rpath,{}", self.path().display()))
            .args(["-ltowpath", "-lpthread"])
            // After the source, for those of them that are libraries.
            .args(more.iter().filter(|word| word.starts_with("-l")))
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
