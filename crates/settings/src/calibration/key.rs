//! What a calibration holds for: it is stale as soon as one of these changes.

use std::fs;

use serde::{Deserialize, Serialize};

use super::envelope::checksum;

/// What a calibration holds for.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Key {
    /// What was measured: `readback`, `upload`, `waits`...
    pub subject: String,
    /// The device's name, as its driver gives it.
    pub device: String,
    /// The driver's version, as it gives it.
    pub driver: String,
    /// The kernel's release.
    pub kernel: String,
    /// Model of the CPU, how many are usable, and the quota if there is one.
    pub cpu: String,
    /// Mode of transparent huge pages: `always`, `madvise`, `never`, or `unknown`.
    pub huge_pages: String,
    /// Version of towpath.
    pub towpath: String,
}

impl Key {
    /// The key of `device` on this machine.
    ///
    /// # Cost
    ///
    /// Reads four small files of `/proc` and `/sys`.
    #[must_use]
    pub fn of_this_machine(subject: &str, device: &str, driver: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            device: device.to_owned(),
            driver: driver.to_owned(),
            kernel: read("/proc/sys/kernel/osrelease"),
            cpu: cpu(),
            huge_pages: huge_pages(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            towpath: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The name of this key's file: readable in front, unique by its hash.
    #[must_use]
    pub fn file_name(&self) -> String {
        let readable: String = format!("{}-{}", self.subject, self.device)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(40)
            .collect();
        let fields = [
            &self.subject,
            &self.device,
            &self.driver,
            &self.kernel,
            &self.cpu,
            &self.huge_pages,
            &self.towpath,
        ];
        // The lengths keep ("ab", "c") and ("a", "bc") apart.
        let whole = fields.map(|f| format!("{}:{f}", f.len())).join(",");
        format!("{readable}-{:016x}.json", checksum(whole.as_bytes()))
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// `"always [madvise] never"` gives `madvise`.
fn huge_pages(text: &str) -> String {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or_else(|| "unknown".to_owned(), |(mode, _)| mode.to_owned())
}

fn cpu() -> String {
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == "model name")
        .map_or("unknown", |(_, model)| model.trim());
    // Counts the affinity mask and the control group's quota.
    let usable = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let quota = quota().unwrap_or_else(|| "none".to_owned());
    format!("{model}, {usable} usable, quota {quota}")
}

/// The control group's CPU quota as the kernel writes it, version 2 or 1.
fn quota() -> Option<String> {
    let v2 = fs::read_to_string("/sys/fs/cgroup/cpu.max").ok();
    let v1 = || fs::read_to_string("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").ok();
    let text = v2.or_else(v1)?.trim().to_owned();
    (!text.starts_with("max") && text != "-1").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_tell_keys_apart_and_stay_in_the_folder() {
        let key = Key::of_this_machine("readback", "../../etc/passwd\0 \u{1f6a2}", "1");
        let other = Key {
            driver: "2".to_owned(),
            ..key.clone()
        };
        assert_ne!(key.file_name(), other.file_name());
        assert!(
            key.file_name()
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        );
        assert!(!key.file_name().contains(".."));
    }

    #[test]
    fn the_mode_in_brackets_is_the_one_in_force() {
        assert_eq!(huge_pages("always [madvise] never"), "madvise");
        assert_eq!(huge_pages("nothing"), "unknown");
    }
}
