//! `cargo xtask layer32`: the Vulkan layer for 32-bit processes, where a toolchain for them can be had.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::run::{cargo, root, run_with, say};

const TARGET: &str = "i686-unknown-linux-gnu";

/// How far to go.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only checks the code: needs no 32-bit C library and no linker.
    #[arg(long)]
    check: bool,
    /// Builds it and the tests' drivers, and tests it in 32-bit processes.
    #[arg(long, conflicts_with = "check")]
    test: bool,
}

impl Args {
    /// `--test`.
    pub(crate) const TEST: Self = Self {
        check: false,
        test: true,
    };
}

/// What a 32-bit process needs of the system, and the package that brings it.
const SYSTEM: [(&str, &str); 3] = [
    ("/usr/lib32/libgcc_s.so.1", "lib32gcc-s1"),
    ("/usr/lib/i386-linux-gnu/libvulkan.so.1", "libvulkan1:i386"),
    (
        "/usr/share/vulkan/icd.d/lvp_icd.i686.json",
        "mesa-vulkan-drivers:i386",
    ),
];

/// Builds, checks or tests the layer with the compiler that `RUSTC` names, or else the usual one.
///
/// # Errors
///
/// If the compiler has neither a 32-bit standard library nor the source of one, with what to do; or if
/// the build or the tests fail.
pub(crate) fn run(args: &Args) -> Result<()> {
    let library = compiler(&["--print", "target-libdir", "--target", TARGET])?;
    let source =
        Path::new(&compiler(&["--print", "sysroot"])?).join("lib/rustlib/src/rust/library");
    let standard = standard(
        has_library(Path::new(&library)),
        source.join("Cargo.lock").exists(),
    )?;
    if args.test {
        return test(standard);
    }
    let verb = if args.check { "check" } else { "build" };
    let layer = ["--release", "--lib", "-p", "towpath-vulkan-layer"];
    build(standard, &[&[verb], &layer[..]].concat())?;
    if !args.check {
        place()?;
    }
    Ok(())
}

fn build(standard: Standard, words: &[&str]) -> Result<()> {
    let mut words = words.to_vec();
    words.extend(["--target", TARGET]);
    match standard {
        Standard::Made => run_with(&cargo(), &words, &[]),
        Standard::FromSource => {
            words.push("-Zbuild-std=std,panic_unwind");
            run_with(&cargo(), &words, &[("RUSTC_BOOTSTRAP", "1")])
        }
    }
}

/// Puts the layer where `towpath` of the release build looks for it.
fn place() -> Result<()> {
    let name = "libtowpath_vulkan_layer.so";
    let folder = root().join("target/release/i686");
    std::fs::create_dir_all(&folder)?;
    let built = root().join(format!("target/{TARGET}/release/{name}"));
    std::fs::copy(built, folder.join(name))?;
    say(&format!("target/release/i686/{name}"));
    Ok(())
}

/// Programs of both widths run against each other.
fn test(standard: Standard) -> Result<()> {
    let missing: Vec<&str> = SYSTEM
        .iter()
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|(_, package)| *package)
        .collect();
    ensure!(
        missing.is_empty(),
        "32-bit programs need more of the system: dpkg --add-architecture i386, apt-get update, and \
         apt-get install gcc-multilib {}",
        missing.join(" ")
    );
    let parts = ["vulkan-layer", "mock-vulkan", "mock-game", "capture-layer"];
    let names = parts.map(|part| format!("towpath-{part}"));
    let mut words = vec!["build"];
    words.extend(names.iter().flat_map(|name| ["-p", name]));
    build(standard, &words)?;
    run_with(
        &cargo(),
        &[&words[..], &["-p", "towpath-cli"]].concat(),
        &[],
    )?;
    let built = root().join(format!("target/{TARGET}/debug"));
    let built = built.to_string_lossy();
    let test = [
        "nextest",
        "run",
        "-p",
        "towpath-vulkan-layer",
        "--test",
        "narrow",
    ];
    run_with(&cargo(), &test, &[("TOWPATH_TEST_LAYER32", &built)])
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
