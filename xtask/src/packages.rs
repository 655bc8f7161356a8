//! What the tests and the demo need from the system, why, and how it gets there.

use std::process::Command;

use anyhow::{Context, Result};

use crate::run::{cargo, has_program, run, run_with, say};

/// One system package and the reason for it.
#[derive(Debug)]
pub(crate) struct Package {
    /// Debian's name.
    pub(crate) name: &'static str,
    /// What it is for, for the person who is asked to install it.
    pub(crate) why: &'static str,
    /// Whether the demo needs it; everything else is for the tests.
    demo: bool,
}

const fn package(name: &'static str, why: &'static str, demo: bool) -> Package {
    Package { name, why, demo }
}

/// All of them. `install(DEMO)` and `install(ALL)` filter this list.
const PACKAGES: &[Package] = &[
    package("gcc", "links Rust programs; builds the C examples", true),
    package("libc6-dev", "C headers for the examples", true),
    package(
        "ocl-icd-libopencl1",
        "the OpenCL loader that loads our layer",
        true,
    ),
    package(
        "pocl-opencl-icd",
        "an OpenCL driver that runs on the CPU",
        true,
    ),
    package("darktable", "the real program of the demo", true),
    package("g++", "builds the C++ examples", false),
    package(
        "libvulkan1",
        "the Vulkan loader that loads our layer",
        false,
    ),
    package(
        "mesa-vulkan-drivers",
        "lavapipe, a Vulkan driver that runs on the CPU",
        false,
    ),
    package(
        "libvulkan-dev",
        "headers and link for the C++ example of the cache",
        false,
    ),
    package("pkgconf", "tries the flags of the C library", false),
    package("vulkan-tools", "vkcube, a real Vulkan program", false),
    package(
        "vulkan-validationlayers",
        "Khronos' judgement of what our layer passes on",
        false,
    ),
    package("xvfb", "an X server without a screen, for vkcube", false),
    package(
        "libvirglrenderer1",
        "the library under our texture layer",
        false,
    ),
    package(
        "libegl1",
        "EGL for libvirglrenderer without a screen",
        false,
    ),
    package("libegl-mesa0", "llvmpipe behind EGL", false),
    package("libgl1-mesa-dri", "llvmpipe behind EGL", false),
    package(
        "qemu-system-x86",
        "a guest machine with a real kernel for syncobj and udmabuf",
        false,
    ),
    package("cpio", "unpacks kernel modules for the guest", false),
    package(
        "ministat",
        "the tool whose output we print byte for byte",
        false,
    ),
    package(
        "chromium",
        "a newer Vulkan loader and SwiftShader, a second driver",
        false,
    ),
    package(
        "opencl-c-headers",
        "headers for the C example of readback",
        false,
    ),
    package(
        "ocl-icd-opencl-dev",
        "links the C example of readback",
        false,
    ),
    package(
        "binutils",
        "reads what the C library exports and needs",
        false,
    ),
    package(
        "clinfo",
        "walks everything that the fake OpenCL driver says about itself",
        false,
    ),
    package("spirv-tools", "judges the mock game's shaders", false),
    package("libdrm2", "libdrm behind the sync shim's tests", false),
    package(
        "util-linux",
        "mounts, namespaces and terminals for hostile tests",
        false,
    ),
    package(
        "valgrind",
        "memory checks of the C examples; instruction counts",
        false,
    ),
];

/// Which packages to install.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Set {
    /// What the demo needs.
    Demo,
    /// What the tests and the demo need.
    All,
}

/// Everything.
pub(crate) const ALL: Set = Set::All;

/// Installs the missing packages of `set`; without apt it lists them and goes on.
///
/// # Errors
///
/// If apt is there and fails.
pub(crate) fn install(set: Set) -> Result<()> {
    let missing: Vec<&Package> = PACKAGES
        .iter()
        .filter(|package| set == Set::All || package.demo)
        .filter(|package| !is_installed(package.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    say("Missing system packages:");
    for package in &missing {
        say(&format!("  {:26} {}", package.name, package.why));
    }
    if !has_program("apt-get") {
        say(
            "This is not a Debian system: install their like by hand. Going on with what is there.",
        );
        return Ok(());
    }
    apt(&["update", "-qq"])?;
    let mut words = vec!["install", "-y", "-qq", "--no-install-recommends"];
    words.extend(missing.iter().map(|package| package.name));
    apt(&words)
}

/// Installs a cargo program if it is missing.
///
/// # Errors
///
/// If cargo fails to.
pub(crate) fn cargo_program(name: &str, version: &str, why: &str) -> Result<()> {
    if has_program(name) {
        return Ok(());
    }
    say(&format!(
        "Missing program {name}: {why}. Building it once; this takes some minutes."
    ));
    run(
        &cargo(),
        &["install", "--locked", "--version", version, name],
    )
}

fn is_installed(name: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${Status}", name])
        .output()
        .is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("ok installed"))
}

fn apt(words: &[&str]) -> Result<()> {
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    if is_root() {
        return run_with("apt-get", words, &quiet).context("apt-get failed");
    }
    let mut with_sudo = vec!["DEBIAN_FRONTEND=noninteractive", "apt-get"];
    with_sudo.extend(words);
    run("sudo", &with_sudo).context("apt-get failed; install the packages above by hand")
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}
