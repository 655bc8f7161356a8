//! Cold against warm reads on each OpenCL device, each in a process of its own: a driver that crashes or
//! hangs costs its own line.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use towpath_measure::sample::median;
use towpath_watch::{Command, End, Input, Output, Supervisor};

use super::finding::Finding;
use crate::commands::bench::{self, Listed, Probed};

/// What a process of [`probe`] is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Asked {
    /// The devices, and which libOpenCL this is.
    List,
    /// The device of that place in the list.
    Device(usize),
}

/// Reads `list` or a number.
///
/// # Errors
///
/// If it is neither.
pub(super) fn parse(text: &str) -> Result<Asked, String> {
    if text == "list" {
        return Ok(Asked::List);
    }
    let place = text.parse().map(Asked::Device);
    place.map_err(|_error| format!("{text:?} is neither list nor a number"))
}

/// What the process prints for [`Asked::List`].
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct List {
    library: Option<PathBuf>,
    devices: Vec<Listed>,
    /// Why there is none.
    problem: Option<String>,
}

/// The other side: prints one line of JSON.
///
/// # Errors
///
/// If the device cannot be measured.
pub(super) fn probe(asked: Asked) -> Result<()> {
    let text = match asked {
        Asked::List => {
            let (devices, problem) = match bench::list_devices() {
                Ok(devices) => (devices, None),
                Err(error) => (Vec::new(), Some(format!("{error:#}"))),
            };
            serde_json::to_string(&List {
                library: mapped("libOpenCL.so"),
                devices,
                problem,
            })?
        }
        Asked::Device(place) => serde_json::to_string(&bench::probe_device(place, MEASURE)?)?,
    };
    say!("{text}");
    Ok(())
}

/// The file of that name which this process has mapped.
fn mapped(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let files = maps
        .lines()
        .filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
    files
        .map(Path::new)
        .find(|path| {
            path.file_name()
                .is_some_and(|found| found.to_string_lossy().starts_with(name))
        })
        .map(Path::to_owned)
}

/// The findings, and the libOpenCL that a program gets here.
pub(super) fn findings(deadline: Instant) -> (Vec<Finding>, Option<PathBuf>) {
    let list = match ask::<List>("list", limit(deadline, 1)) {
        Ok(list) => list,
        Err(error) => {
            let text = format!("listing them failed: {error:#}");
            return (vec![Finding::unavailable("readback", WHAT, text)], None);
        }
    };
    let mut all = Vec::new();
    if let Some(problem) = &list.problem {
        all.push(Finding::unavailable("readback", WHAT, problem));
    }
    for (place, device) in list.devices.iter().enumerate() {
        let left = list.devices.len() - place;
        let name = format!("{} ({})", device.name, device.platform);
        all.push(
            match ask::<Probed>(&place.to_string(), limit(deadline, left)) {
                Ok(probed) => describe(&name, &probed),
                Err(error) => Finding::unavailable("readback", WHAT, format!("{name}: {error:#}")),
            },
        );
    }
    (all, list.library)
}

const WHAT: &str = "OpenCL device";

/// A fair share of the time that is left; what takes longer would not be in the report anyway.
fn limit(deadline: Instant, left: usize) -> Duration {
    let share = deadline.saturating_duration_since(Instant::now())
        / u32::try_from(left.max(1)).unwrap_or(u32::MAX);
    share.min(LIMIT_MAX)
}

/// Asks a process of ours, which may crash or hang.
fn ask<T: for<'a> Deserialize<'a>>(what: &str, limit: Duration) -> Result<T> {
    anyhow::ensure!(limit >= LIMIT_MIN, "no time is left for it");
    let me = std::env::current_exe().context("cannot find this program")?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let path = folder.path().join("answer");
    let exit = Command::new(Supervisor::this_program(), me)
        .args(["doctor", "--probe", what])
        .stdin(Input::Null)
        .stdout(Output::File(path.clone()))
        .stderr(Output::File(folder.path().join("errors")))
        .timeout(limit)
        .end_leftovers()
        .run()?;
    match exit.end {
        _ if exit.timed_out => {
            anyhow::bail!("the driver did not answer in {:.1} s", limit.as_secs_f64())
        }
        End::Signal(signal) => anyhow::bail!("the driver crashed (signal {signal})"),
        End::Code(0) => {}
        End::Code(code) => {
            let errors = std::fs::read_to_string(folder.path().join("errors")).unwrap_or_default();
            let line = errors.lines().last().unwrap_or_default();
            let reason = line.strip_prefix("towpath: ").unwrap_or(line);
            anyhow::bail!("cannot be measured (code {code}): {reason}");
        }
    }
    // Drivers print what they like: the answer is the last line.
    let text = std::fs::read_to_string(&path).context("no answer")?;
    let line = text.lines().last().context("no answer")?;
    serde_json::from_str(line).context("not an answer of ours")
}

fn describe(name: &str, probed: &Probed) -> Finding {
    let middle = |samples: &[u64]| {
        let millis: Vec<f64> = samples.iter().map(|ns| *ns as f64 / 1e6).collect();
        median(&millis)
    };
    let (cold, warm) = (middle(&probed.cold_ns), middle(&probed.warm_ns));
    let prefault = middle(&probed.prefault_ns);
    let finding = Finding::good(
        "readback",
        WHAT,
        format!(
            "{name}: {} MiB read in {cold:.1} ms cold, {warm:.1} ms warm ({:.1} x), {prefault:.1} ms \
             with pages brought in first",
            probed.bytes >> 20,
            cold / warm.max(1e-6),
        ),
    );
    if cold < prefault * WORTH_IT {
        return finding;
    }
    finding.advise(format!(
        "cold reads can be {:.1} x faster: towpath ab -- PROGRAM proves it, towpath run --fix auto -- \
         PROGRAM does it",
        cold / prefault.max(1e-6)
    ))
}

/// A fifth: less is within what a look of a second can tell.
const WORTH_IT: f64 = 1.2;
/// Time that a device's process measures for.
const MEASURE: Duration = Duration::from_millis(1500);
/// Longest for one device: the start of some drivers takes seconds.
const LIMIT_MAX: Duration = Duration::from_secs(8);
/// Below this nothing can be learnt.
const LIMIT_MIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    fn probed(cold: u64, prefault: u64) -> Probed {
        Probed {
            bytes: 64 << 20,
            cold_ns: vec![cold, cold * 9, cold],
            warm_ns: vec![5_000_000; 3],
            prefault_ns: vec![prefault; 3],
        }
    }

    #[test]
    fn a_device_that_gains_is_told_with_its_numbers_and_one_that_does_not_is_left_in_peace() {
        let finding = describe("a device", &probed(40_000_000, 12_000_000));
        assert_eq!(finding.state, State::Advice);
        assert!(
            finding
                .text
                .contains("40.0 ms cold, 5.0 ms warm (8.0 x), 12.0 ms")
        );
        assert!(finding.advice.unwrap().contains("3.3 x faster"));
        assert_eq!(
            describe("other", &probed(6_000_000, 5_900_000)).state,
            State::Good
        );
    }

    #[test]
    fn time_is_shared_and_ends() {
        let soon = Instant::now() + Duration::from_secs(4);
        assert!(limit(soon, 4) <= Duration::from_secs(1));
        assert!(limit(soon, 0) <= Duration::from_secs(4));
        let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        assert_eq!(limit(past, 3), Duration::ZERO);
        let error = ask::<List>("list", Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "no time is left for it");
    }
}
