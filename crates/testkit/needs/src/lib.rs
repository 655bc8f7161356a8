//! What a test needs of the machine, and whether it is there.
//!
//! A test that lacks a need prints so and passes; where `TOWPATH_NEEDS=all` is set (as in `.ci/run`)
//! it fails instead, so that a machine meant to have everything cannot pass by skipping.

use std::path::{Path, PathBuf};

/// Something of the machine that a test cannot make itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// PoCL as an OpenCL driver, and an OpenCL loader.
    Pocl,
    /// `clinfo`.
    Clinfo,
    /// `spirv-val`.
    SpirvTools,
    /// darktable's command-line program.
    Darktable,
    /// The Vulkan loader with lavapipe.
    Lavapipe,
    /// Headers of Vulkan, and the loader to link with.
    VulkanHeaders,
    /// Khronos' Vulkan validation layers.
    ValidationLayers,
    /// `vkcube`.
    Vkcube,
    /// A virtual X server.
    Xvfb,
    /// `qemu-system-x86_64`.
    Qemu,
    /// `libvirglrenderer.so.1` and EGL.
    Virglrenderer,
    /// Debian's `ministat`.
    Ministat,
    /// A headless Chromium (also brings a newer Vulkan loader and SwiftShader).
    Chromium,
    /// A C compiler.
    Cc,
    /// A C++ compiler.
    Cxx,
    /// Valgrind.
    Valgrind,
    /// Superuser rights.
    Root,
    /// The PAGEMAP_SCAN ioctl (Linux 6.7).
    PagemapScan,
}

impl Need {
    /// Whether this machine has it. Looks at files only, starts nothing.
    #[must_use]
    pub fn is_met(self) -> bool {
        match self {
            Self::Pocl => {
                Path::new("/etc/OpenCL/vendors/pocl.icd").exists() && has_library("libOpenCL.so.1")
            }
            Self::Clinfo => has_program("clinfo"),
            Self::SpirvTools => has_program("spirv-val"),
            Self::Darktable => has_program("darktable-cli"),
            Self::Lavapipe => {
                has_library("libvulkan.so.1")
                    && (Path::new("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json").exists()
                        || Path::new("/usr/share/vulkan/icd.d/lvp_icd.json").exists())
            }
            Self::VulkanHeaders => {
                Path::new("/usr/include/vulkan/vulkan.h").exists() && has_library("libvulkan.so")
            }
            Self::ValidationLayers => {
                Path::new("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")
                    .exists()
            }
            Self::Vkcube => has_program("vkcube"),
            Self::Xvfb => has_program("Xvfb"),
            Self::Qemu => has_program("qemu-system-x86_64"),
            Self::Virglrenderer => {
                has_library("libvirglrenderer.so.1") && has_library("libEGL.so.1")
            }
            Self::Ministat => has_program("ministat"),
            Self::Chromium => has_program("chromium"),
            Self::Cc => has_program("cc"),
            Self::Cxx => has_program("c++"),
            Self::Valgrind => has_program("valgrind"),
            Self::Root => is_root(),
            Self::PagemapScan => kernel_version() >= (6, 7),
        }
    }
}

/// Whether the test can run here; says why not if it cannot.
///
/// # Panics
///
/// Where `TOWPATH_NEEDS=all` is set and a need is not met.
#[must_use]
#[expect(
    clippy::print_stderr,
    reason = "a skip that nobody sees is a false pass"
)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests only; the settings table is for the product"
)]
pub fn can_run(needs: &[Need]) -> bool {
    let Some(missing) = needs.iter().find(|need| !need.is_met()) else {
        return true;
    };
    let strict = std::env::var("TOWPATH_NEEDS").is_ok_and(|value| value == "all");
    assert!(!strict, "this machine lacks {missing:?}");
    eprintln!("skipped: no {missing:?}");
    false
}

/// The folder of a 32-bit build of this workspace, which `cargo xtask layer32 --test` makes and names.
///
/// Without one the test says so and passes, whatever `TOWPATH_NEEDS` says: not every machine that is
/// meant to have everything can get the compiler's 32-bit library.
#[must_use]
#[expect(
    clippy::print_stderr,
    reason = "a skip that nobody sees is a false pass"
)]
#[expect(clippy::disallowed_methods, reason = "tests only")]
pub fn narrow_build() -> Option<PathBuf> {
    let folder = std::env::var_os("TOWPATH_TEST_LAYER32").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: no 32-bit build; `cargo xtask layer32 --test` makes one and runs this");
    }
    folder
}

/// The path of a built artifact of this workspace, such as `libtowpath_opencl_layer.so`, from a test.
///
/// Test programs do not build cdylibs or other packages' programs: build the workspace first.
///
/// # Panics
///
/// If it is not there.
#[must_use]
pub fn artifact(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let found = exe
        .ancestors()
        .skip(1)
        .take(3)
        .map(|folder| folder.join(name))
        .find(|p| p.exists());
    found.unwrap_or_else(|| {
        // The assertion macro is the one panic the lints leave to tests.
        assert!(
            exe.as_os_str().is_empty(),
            "no {name} near {}: cargo build --workspace",
            exe.display()
        );
        PathBuf::from(name)
    })
}

#[expect(clippy::disallowed_methods, reason = "tests only")]
fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

fn has_library(name: &str) -> bool {
    [
        "/usr/lib/x86_64-linux-gnu",
        "/lib/x86_64-linux-gnu",
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
    ]
    .iter()
    .any(|folder| Path::new(folder).join(name).exists())
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            == Some("0")
    })
}

fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = text
        .split(['.', '-'])
        .map(|part| part.trim().parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_that_no_machine_lacks_is_met() {
        assert!(kernel_version() > (3, 0));
        assert!(has_program("sh"));
        assert!(!has_program("no-such-program-of-ours"));
    }
}
