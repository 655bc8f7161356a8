//! `cargo xtask layer32`: the Vulkan layer for 32-bit processes, where a toolchain for them can be had.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{cargo, run_with, say};

const TARGET: &str = "i686-unknown-linux-gnu";

/// How far to go.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only checks the code: needs no 32-bit C library and no linker.
    #[arg(long)]
    check: bool,
}

/// Builds or checks the layer with the compiler that `RUSTC` names, or else the usual one.
///
/// # Errors
///
/// If the compiler has neither a 32-bit standard library nor the source of one, with what to do; or if
/// the build fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let library = compiler(&["--print", "target-libdir", "--target", TARGET])?;
    let source =
        Path::new(&compiler(&["--print", "sysroot"])?).join("lib/rustlib/src/rust/library");
    let standard = standard(
        has_library(Path::new(&library)),
        source.join("Cargo.lock").exists(),
    )?;
    let mut words = vec![if args.check { "check" } else { "build" }];
    words.extend([
        "--release",
        "--lib",
        "-p",
        "towpath-vulkan-layer",
        "--target",
        TARGET,
    ]);
    match standard {
        Standard::Made => run_with(&cargo(), &words, &[])?,
        Standard::FromSource => {
            words.push("-Zbuild-std=std,panic_unwind");
            run_with(&cargo(), &words, &[("RUSTC_BOOTSTRAP", "1")])?;
        }
    }
    if !args.check {
        say(&format!(
            "target/{TARGET}/release/libtowpath_vulkan_layer.so"
        ));
    }
    Ok(())
}

/// Where the 32-bit standard library comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standard {
    Made,
    FromSource,
}

fn standard(has_library: bool, has_source: bool) -> Result<Standard> {
    match (has_library, has_source) {
        (true, _) => Ok(Standard::Made),
        (false, true) => Ok(Standard::FromSource),
        (false, false) => bail!(
            "this compiler has no standard library for {TARGET} and no source of one: \
             `rustup target add {TARGET}`, or Debian's rustc-web and rust-web-src with RUSTC=/usr/bin/rustc"
        ),
    }
}

fn has_library(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .any(|name| name.starts_with("libstd-"))
}

/// What the compiler prints.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo takes the compiler from this variable too"
)]
fn compiler(words: &[&str]) -> Result<String> {
    let program = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let said = Command::new(&program)
        .args(words)
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_standard_library_the_answer_says_where_to_get_one() {
        assert_eq!(standard(true, false).unwrap(), Standard::Made);
        assert_eq!(standard(false, true).unwrap(), Standard::FromSource);
        let said = standard(false, false).unwrap_err().to_string();
        for remedy in ["rustup target add i686-unknown-linux-gnu", "rust-web-src"] {
            assert!(said.contains(remedy), "{said}");
        }
        assert!(!has_library(Path::new("/no/such/folder")));
    }
}
