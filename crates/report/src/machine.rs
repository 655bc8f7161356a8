//! The machine that was measured on: what a reader needs to judge or repeat a result.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A machine, as far as it could be read; `None` where it could not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: Option<String>,
    /// Logical processors online.
    pub cpus: Option<usize>,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Swap in bytes.
    pub swap_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Distribution.
    pub distribution: Option<String>,
    /// Mode of transparent huge pages.
    pub huge_pages: Option<String>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Whether it is a virtual machine.
    pub is_virtual: Option<bool>,
    /// Load average over one minute when the measurement began.
    pub load: Option<f64>,
    /// Identity of the boot.
    pub boot_id: Option<String>,
}

impl Machine {
    /// Reads what this machine says about itself. Reads about ten files of `/proc`, `/sys` and `/etc`.
    #[must_use]
    pub fn collect() -> Self {
        Self::collect_from(Path::new("/"))
    }

    /// As [`Machine::collect`], below another root.
    #[must_use]
    pub fn collect_from(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let line = |path: &str| read(path).map(|text| text.trim().to_owned());
        let cpuinfo = read("proc/cpuinfo").unwrap_or_default();
        let meminfo = read("proc/meminfo").unwrap_or_default();
        let cpus = cpuinfo
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count();
        let flags = field(&cpuinfo, "flags");
        Self {
            cpu: field(&cpuinfo, "model name"),
            cpus: (cpus > 0).then_some(cpus),
            governor: line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: kib(&meminfo, "MemTotal"),
            swap_bytes: kib(&meminfo, "SwapTotal"),
            kernel: line("proc/sys/kernel/osrelease"),
            distribution: read("etc/os-release").and_then(|text| {
                let name = text
                    .lines()
                    .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
                Some(name.trim_matches('"').to_owned())
            }),
            huge_pages: read("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
            clock_source: line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            is_virtual: flags.map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            load: read("proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
            boot_id: line("proc/sys/kernel/random/boot_id"),
        }
    }

    /// What a machine is, without load and boot: name, here, there.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        [
            ("cpu", self.cpu.clone(), other.cpu.clone()),
            (
                "number of cpus",
                number(self.cpus.map(|n| n as u64)),
                number(other.cpus.map(|n| n as u64)),
            ),
            ("governor", self.governor.clone(), other.governor.clone()),
            (
                "memory in bytes",
                number(self.memory_bytes),
                number(other.memory_bytes),
            ),
            ("kernel", self.kernel.clone(), other.kernel.clone()),
            (
                "distribution",
                self.distribution.clone(),
                other.distribution.clone(),
            ),
            (
                "mode of huge pages",
                self.huge_pages.clone(),
                other.huge_pages.clone(),
            ),
            (
                "clock source",
                self.clock_source.clone(),
                other.clock_source.clone(),
            ),
        ]
        .into_iter()
        .filter(|(_, here, there)| here != there)
        .map(|(name, here, there)| (name, show(&here), show(&there)))
        .collect()
    }

    /// One line for a report's foot.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.cpu.clone());
        parts.extend(self.cpus.map(|cpus| format!("{cpus} cpus")));
        parts.extend(
            self.memory_bytes
                .map(|bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))),
        );
        parts.extend(self.kernel.as_ref().map(|kernel| format!("Linux {kernel}")));
        parts.extend(self.distribution.clone());
        parts.extend(
            self.governor
                .as_ref()
                .map(|governor| format!("governor {governor}")),
        );
        if self.is_virtual == Some(true) {
            parts.push("virtual machine".to_owned());
        }
        parts.join(", ")
    }
}

/// The first value of a `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// A `name: n kB` line in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    field(text, name)?
        .split(' ')
        .next()?
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// Now, in UTC, as RFC 3339 with seconds.
#[must_use]
pub fn now_rfc3339() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |span| span.as_secs());
    rfc3339(seconds)
}

/// Seconds since 1970 as RFC 3339 (civil calendar after Howard Hinnant's `civil_from_days`).
#[must_use]
pub fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_083_200, "2026-12-01T00:00:00Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn a_machine_without_files_is_unknown_and_not_zero() {
        let nothing = Machine::collect_from(Path::new("/nonexistent"));
        assert_eq!(nothing, Machine::default());
        assert_eq!(nothing.summary(), "");
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let machine = Machine::collect();
        assert!(
            machine.kernel.is_some() && machine.memory_bytes > Some(1 << 20),
            "{machine:?}"
        );
        assert!(machine.differences(&machine).is_empty());
    }
}
