//! Pressure stall information: time that work on the whole machine waited for CPU, memory or storage.
//!
//! The kernel's totals are read before and after; its averages lag and are left alone. The numbers are of the
//! machine, not of the program.

use std::fs;
use std::path::Path;

use towpath_measure::Nanos;

use crate::Known;

/// Time for which some, or all, work waited.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stall {
    /// At least one task waited.
    pub some: Nanos,
    /// All tasks waited; zero where the kernel does not count it (CPU).
    pub full: Nanos,
}

/// The machine's totals at one moment, or the time between two.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pressure {
    /// Waiting for a CPU.
    pub cpu: Known<Stall>,
    /// Waiting for memory.
    pub memory: Known<Stall>,
    /// Waiting for storage.
    pub io: Known<Stall>,
}

impl Pressure {
    /// Reads the totals. Three small files.
    #[must_use]
    pub fn now() -> Self {
        Self::read(Path::new("/proc/pressure"))
    }

    fn read(folder: &Path) -> Self {
        let one = |name: &str| {
            let path = folder.join(name);
            match fs::read_to_string(&path) {
                Ok(text) => parse(&text).map_or_else(
                    || Known::Unavailable(format!("{} has another form", path.display())),
                    Known::Value,
                ),
                Err(error) => Known::Unavailable(format!("{}: {error}", path.display())),
            }
        };
        Self {
            cpu: one("cpu"),
            memory: one("memory"),
            io: one("io"),
        }
    }

    /// The time between `earlier` and this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let one = |now: &Known<Stall>, before: &Known<Stall>| match (now, before) {
            (Known::Value(now), Known::Value(before)) => Known::Value(Stall {
                some: now.some.since(before.some),
                full: now.full.since(before.full),
            }),
            (Known::Unavailable(reason), _) | (_, Known::Unavailable(reason)) => {
                Known::Unavailable(reason.clone())
            }
        };
        Self {
            cpu: one(&self.cpu, &earlier.cpu),
            memory: one(&self.memory, &earlier.memory),
            io: one(&self.io, &earlier.io),
        }
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234` in microseconds, and a line `full` alike.
fn parse(text: &str) -> Option<Stall> {
    let total = |kind: &str| {
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(kind))?;
        let total = line
            .split(' ')
            .find_map(|word| word.strip_prefix("total="))?;
        total.parse().ok().map(Nanos::from_micros)
    };
    Some(Stall {
        some: total("some")?,
        full: total("full").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_and_absence_has_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
        write(
            "io",
            "some avg10=1.00 avg60=0.00 avg300=0.00 total=20\nfull avg10=0 total=15\n",
        );
        let before = Pressure::read(folder.path());
        write(
            "io",
            "some avg10=1.00 avg60=0.00 avg300=0.00 total=120\nfull avg10=0 total=45\n",
        );
        let passed = Pressure::read(folder.path()).since(&before);
        assert_eq!(passed.cpu.value().unwrap().some, Nanos::ZERO);
        assert_eq!(passed.io.value().unwrap().some, Nanos::from_micros(100));
        assert_eq!(passed.io.value().unwrap().full, Nanos::from_micros(30));
        let Known::Unavailable(reason) = passed.memory else {
            panic!("there is no such file");
        };
        assert!(reason.contains("memory"), "{reason}");
    }

    #[test]
    fn other_forms_are_not_read_as_nothing() {
        for text in ["", "some total=x", "full total=3", "some avg10=0"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
