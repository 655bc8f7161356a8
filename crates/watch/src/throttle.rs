//! How often the processors slowed down for heat: a mark for runs, never a reason to drop them.

use std::fs;
use std::path::Path;

use crate::Known;

/// Counts of all processors so far.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Throttle {
    /// Events of cores and packages together.
    pub events: Known<u64>,
}

impl Throttle {
    /// Reads the counts: two small files per processor.
    #[must_use]
    pub fn now() -> Self {
        Self::read(Path::new("/sys/devices/system/cpu"))
    }

    fn read(folder: &Path) -> Self {
        let mut sum = None;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            for name in ["core_throttle_count", "package_throttle_count"] {
                let path = entry.path().join("thermal_throttle").join(name);
                let count = fs::read_to_string(path).ok();
                let count: Option<u64> = count.and_then(|text| text.trim().parse().ok());
                if let Some(count) = count {
                    sum = Some(count.saturating_add(sum.unwrap_or(0)));
                }
            }
        }
        let unavailable = || {
            Known::Unavailable(format!(
                "no processor below {} counts its throttling",
                folder.display()
            ))
        };
        Self {
            events: sum.map_or_else(unavailable, Known::Value),
        }
    }

    /// Events since `earlier`; `None` where the kernel does not count them.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<u64> {
        match (&self.events, &earlier.events) {
            (Known::Value(now), Known::Value(then)) => Some(now.saturating_sub(*then)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_all_processors_are_counted_and_their_absence_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let none = Throttle::read(folder.path());
        assert!(matches!(&none.events, Known::Unavailable(why) if why.contains("no processor")));
        for (cpu, count) in [("cpu0", "7\n"), ("cpu1", "5\n")] {
            let at = folder.path().join(cpu).join("thermal_throttle");
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("core_throttle_count"), count).unwrap();
            fs::write(at.join("package_throttle_count"), "strange").unwrap();
        }
        let then = Throttle::read(folder.path());
        assert_eq!(then.events, Known::Value(12));
        let at = folder
            .path()
            .join("cpu1/thermal_throttle/core_throttle_count");
        fs::write(at, "9").unwrap();
        let now = Throttle::read(folder.path());
        assert_eq!((now.since(&then), now.since(&none)), (Some(4), None));
    }
}
