//! Who made a blob: everything that must be equal before a driver may see it again.
//!
//! The pipeline cache UUID alone is not enough. Debian 12's lavapipe has one made from an unformatted
//! format string, which no update changes; two drivers on one GPU share vendor and device.

use std::fmt::Write as _;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::bytes::hex;

/// A driver on a device, as its blobs depend on it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// PCI vendor or Khronos vendor number.
    pub vendor: u32,
    /// Device number.
    pub device: u32,
    /// `pipelineCacheUUID`.
    pub cache_uuid: [u8; 16],
    /// `driverVersion`, in the driver's own encoding.
    pub driver_version: u32,
    /// `driverID`, 0 if not known.
    pub driver_id: u32,
    /// `driverUUID`, zeros if not known.
    pub driver_uuid: [u8; 16],
    /// `driverName` and `driverInfo`, for some drivers the only place that tells builds apart.
    pub driver_text: String,
    /// `deviceName`.
    pub device_name: String,
    /// Size of a pointer in bytes: a 32-bit and a 64-bit process do not share.
    pub pointer_bytes: u32,
    /// The driver's libraries as they lie on the disk: see [`driver_files`].
    pub driver_files: Vec<String>,
    /// Anything else that a blob depends on, such as a hash of enabled features or a global pipeline key.
    pub extra: Vec<u8>,
}

impl Identity {
    /// The hash that names the folder and is mixed into every checksum.
    #[must_use]
    pub fn hash(&self) -> [u8; 16] {
        xxh3_128(self.text().as_bytes()).to_le_bytes()
    }

    /// The folder's name: device and hash, so that a person can tell folders apart.
    #[must_use]
    pub fn folder_name(&self) -> String {
        format!(
            "{:04x}-{:04x}-{}",
            self.vendor,
            self.device,
            hex(&self.hash())
        )
    }

    /// All fields, one per line. The hash is over this text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("towpath cache identity 1\n");
        let mut line = |name: &str, value: &str| {
            // Line breaks inside a value would let two identities share a text.
            let value = value.replace(['\n', '\r'], " ");
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "{name} = {value}");
        };
        line("vendor", &format!("{:#06x}", self.vendor));
        line("device", &format!("{:#06x}", self.device));
        line("device name", &self.device_name);
        line("cache uuid", &hex(&self.cache_uuid));
        line("driver version", &format!("{:#010x}", self.driver_version));
        line("driver id", &self.driver_id.to_string());
        line("driver uuid", &hex(&self.driver_uuid));
        line("driver", &self.driver_text);
        line("pointer bytes", &self.pointer_bytes.to_string());
        for file in &self.driver_files {
            line("driver file", file);
        }
        line("extra", &hex(&self.extra));
        text
    }
}

/// Stamps of the Vulkan driver libraries mapped into this process: name, size and modification time.
///
/// Reads `/proc/self/maps` once. `vendor_hint` keeps libraries of other drivers out, so that an update
/// of one driver does not make the other's cache cold: NVIDIA's for vendor 0x10de, else Mesa's and others'.
#[must_use]
pub fn driver_files(vendor_hint: u32) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<&str> = maps
        .lines()
        .filter_map(|line| line.find('/').and_then(|at| line.get(at..)))
        .filter(|path| is_driver(path, vendor_hint == 0x10de))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
        .into_iter()
        .filter_map(|path| stamp(Path::new(path)))
        .collect()
}

fn is_driver(path: &str, is_nvidia: bool) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    if is_nvidia {
        return name.starts_with("libnvidia-") || name.starts_with("libGLX_nvidia");
    }
    let is_loader = name.starts_with("libvulkan.so");
    let is_known = [
        "libvulkan_",
        "libvk_",
        "amdvlk",
        "libVkICD",
        "libmock_vulkan",
        "libtowpath_mock_vulkan",
    ];
    !is_loader && is_known.iter().any(|prefix| name.starts_with(prefix))
}

/// Name, size and modification time of a file; `None` if it is not there.
fn stamp(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::metadata(path).ok()?;
    let name = path.file_name()?.to_string_lossy();
    Some(format!(
        "{name} {} {}.{:09}",
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec()
    ))
}

/// Days since 1970 by the system's clock; zero before.
#[must_use]
pub fn today() -> u32 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u32::try_from(since.as_secs() / 86_400).unwrap_or(u32::MAX)
    })
}

/// A random number for names. From the kernel; where it refuses, from address and time.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_le_bytes(bytes),
        // Seeded by the standard library in another way; unique enough beside O_EXCL.
        _ => std::collections::hash_map::RandomState::new()
            .build_hasher()
            .finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_changes_the_hash() {
        let base = Identity::default();
        let changed = [
            Identity {
                vendor: 1,
                ..base.clone()
            },
            Identity {
                device: 1,
                ..base.clone()
            },
            Identity {
                cache_uuid: [1; 16],
                ..base.clone()
            },
            Identity {
                driver_version: 1,
                ..base.clone()
            },
            Identity {
                driver_id: 1,
                ..base.clone()
            },
            Identity {
                driver_uuid: [1; 16],
                ..base.clone()
            },
            Identity {
                driver_text: "Mesa 23".to_owned(),
                ..base.clone()
            },
            Identity {
                device_name: "GPU".to_owned(),
                ..base.clone()
            },
            Identity {
                pointer_bytes: 4,
                ..base.clone()
            },
            Identity {
                driver_files: vec!["libvulkan_x.so 1 2".to_owned()],
                ..base.clone()
            },
            Identity {
                extra: vec![1],
                ..base.clone()
            },
        ];
        let mut hashes: Vec<_> = changed.iter().map(Identity::hash).collect();
        hashes.push(base.hash());
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), changed.len() + 1);
    }

    #[test]
    fn a_line_break_in_a_name_does_not_make_two_identities_one() {
        let a = Identity {
            device_name: "a\ncache uuid = 00".to_owned(),
            ..Identity::default()
        };
        assert_eq!(
            a.text().lines().count(),
            Identity::default().text().lines().count()
        );
    }

    #[test]
    fn drivers_are_told_from_the_loader_and_from_each_other() {
        assert!(is_driver("/usr/lib/libvulkan_lvp.so", false));
        assert!(!is_driver("/usr/lib/libvulkan.so.1.3.239", false));
        assert!(!is_driver("/usr/lib/libvulkan_lvp.so", true));
        assert!(is_driver("/usr/lib/libnvidia-gpucomp.so.580.159.04", true));
    }
}
