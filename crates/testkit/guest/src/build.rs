//! Builds the programs that run inside the guest: static, so that it needs no libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, run_host};

/// Builds program `bin` of workspace package `package` statically and returns its path.
///
/// The build lies in its own folder (`target/guest`), so that a test never waits for the lock of the
/// build that runs it. Cost: nothing to do when nothing changed, else a debug build.
///
/// # Errors
///
/// [`Error::Program`](crate::Error::Program) with the compiler's words.
pub fn static_program(package: &str, bin: &str) -> Result<PathBuf> {
    let root = workspace();
    let target = root.join("target/guest");
    run_host(
        Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--target", TRIPLE])
            .args(["--package", package, "--bin", bin])
            .arg("--target-dir")
            .arg(&target)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env(
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
                "-C target-feature=+crt-static -C strip=debuginfo",
            )
            .current_dir(root),
    )?;
    Ok(target.join(TRIPLE).join("debug").join(bin))
}

/// Builds the guest's process number 1.
///
/// # Errors
///
/// As [`static_program`].
pub fn init_program() -> Result<PathBuf> {
    static_program("towpath-guest-init", "towpath-guest-init")
}

/// With an explicit target the flags reach only what runs in the guest, not build scripts.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap_or(here)
}
