//! What is measured of each run: towpath's own metrics, and those read from a program's output.

use anyhow::{Context, Result, bail};
use regex::Regex;
use towpath_measure::judge::Direction;
use towpath_report::Metric as Shown;

/// One metric of a comparison.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    /// Name, unit, direction and definition, as the result file keeps them.
    pub(super) shown: Shown,
    /// For a metric of the program's own: where its output says it; the first group is the number.
    pub(super) pattern: Option<Regex>,
}

/// towpath's own metrics: name, unit, definition. Lower is better in all of them.
pub(super) const BUILT_IN: &[(&str, &str, &str)] = &[
    ("wall", "s", "from the start of the program to its end"),
    ("user", "s", "CPU time in user mode, children included"),
    ("sys", "s", "CPU time in the kernel, children included"),
    ("cpu", "s", "user and kernel CPU time, children included"),
    ("minor-faults", "", "page faults served without the disk"),
    (
        "peak-rss",
        "MiB",
        "largest resident set of any process of the program",
    ),
    (
        "run-queue",
        "s",
        "time that the program's main thread was ready to run and had no processor",
    ),
    ("disk-read", "MiB", "bytes that came from storage"),
    (
        "disk-written",
        "MiB",
        "bytes that went to storage, or will, less those truncated before",
    ),
    (
        "readback-time",
        "s",
        "time that the program spent in device-to-host copies, our work included",
    ),
    ("readback-bytes", "MiB", "bytes copied from devices"),
    (
        "readback-cold",
        "MiB",
        "of these, bytes whose destination pages were absent at the call",
    ),
    (
        "upload-time",
        "s",
        "time that the program spent in host-to-device copies, our work included",
    ),
    (
        "cache-time",
        "s",
        "time that the program spent making pipelines",
    ),
    (
        "waits-time",
        "s",
        "time that the program spent in waits on the device",
    ),
];

impl Metric {
    /// One of towpath's own.
    pub(super) fn built_in(name: &str, unit: &str, definition: &str) -> Self {
        Self {
            shown: Shown::new(name, unit, Direction::Lower, definition),
            pattern: None,
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.shown.name
    }

    /// Reads `NAME=REGEX:UNIT:lower|higher`; the expression may itself hold colons.
    ///
    /// # Errors
    ///
    /// If a part is missing, the expression is not one, or it has no group for the number.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (name, rest) = text
            .split_once('=')
            .with_context(|| format!("--metric {text}: wants NAME=REGEX:UNIT:lower|higher"))?;
        let mut parts = rest.rsplitn(3, ':');
        let (Some(better), Some(unit), Some(pattern)) = (parts.next(), parts.next(), parts.next())
        else {
            bail!("--metric {text}: wants NAME=REGEX:UNIT:lower|higher");
        };
        let better = match better {
            "lower" => Direction::Lower,
            "higher" => Direction::Higher,
            other => bail!("--metric {text}: {other:?} is neither \"lower\" nor \"higher\""),
        };
        if name.is_empty() || BUILT_IN.iter().any(|(own, _, _)| *own == name) {
            bail!("--metric {text}: the name {name:?} is empty or one of towpath's own");
        }
        let pattern = Regex::new(pattern)
            .with_context(|| format!("--metric {text}: {pattern:?} is not a regular expression"))?;
        if pattern.captures_len() < 2 {
            bail!("--metric {text}: put the number into a group, as in \"fps: ([0-9.]+)\"");
        }
        let definition = format!("read from the program's output by {}", pattern.as_str());
        Ok(Self {
            shown: Shown::new(name, unit, better, &definition),
            pattern: Some(pattern),
        })
    }

    /// Every number that the program's output gives for this metric, in order.
    pub(super) fn found_in(&self, output: &str) -> Vec<f64> {
        let Some(pattern) = &self.pattern else {
            return Vec::new();
        };
        pattern
            .captures_iter(output)
            .filter_map(|found| found.get(1)?.as_str().parse().ok())
            .filter(|value: &f64| value.is_finite())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_of_the_program_is_read_from_its_output() {
        let fps = Metric::parse(r"fps=rate: ([0-9.]+):frames/s:higher").unwrap();
        assert_eq!((fps.name(), fps.shown.unit.as_str()), ("fps", "frames/s"));
        assert_eq!(fps.shown.better, Direction::Higher);
        assert_eq!(
            fps.found_in("rate: 59.5\nrate: x\nrate: 60\n"),
            [59.5, 60.0]
        );
    }

    #[test]
    fn a_metric_that_cannot_work_is_refused_with_the_reason() {
        for bad in [
            "fps",
            "fps=([0-9]+)",
            "fps=([0-9]+):fps:up",
            "fps=[0-9]+:fps:higher",
            "fps=(:fps:higher",
            "=([0-9]+):fps:higher",
            "wall=([0-9]+):s:lower",
        ] {
            assert!(Metric::parse(bad).is_err(), "{bad}");
        }
    }
}
