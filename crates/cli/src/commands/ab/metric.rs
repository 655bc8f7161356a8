//! What is measured of each run: towpath's own metrics, and those read from a program's output.

use anyhow::{Context, Result, bail};
use regex::Regex;
use towpath_measure::judge::Direction;

/// One metric of a comparison.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    /// Its name, as in the tables and for `--primary`.
    pub(super) name: String,
    /// The unit of its values.
    pub(super) unit: String,
    /// Which way is better.
    pub(super) better: Direction,
    /// For a metric of the program's own: where its output says it; the first group is the number.
    pub(super) pattern: Option<Regex>,
}

/// towpath's own metrics: name and unit. Lower is better in all of them.
pub(super) const BUILT_IN: &[(&str, &str)] = &[
    ("wall", "s"),
    ("user", "s"),
    ("sys", "s"),
    ("cpu", "s"),
    ("minor-faults", "faults"),
    ("peak-rss", "MiB"),
    ("readback-time", "s"),
    ("readback-bytes", "MiB"),
    ("readback-cold", "MiB"),
    ("upload-time", "s"),
    ("upload-bytes", "MiB"),
    ("waits-time", "s"),
    ("cache-time", "s"),
    ("cache-written", "MiB"),
];

impl Metric {
    /// One of towpath's own.
    pub(super) fn built_in(name: &str, unit: &str) -> Self {
        let better = Direction::Lower;
        Self { name: name.to_owned(), unit: unit.to_owned(), better, pattern: None }
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
        let (better, unit, pattern) = match (parts.next(), parts.next(), parts.next()) {
            (Some(better), Some(unit), Some(pattern)) => (better, unit, pattern),
            _ => bail!("--metric {text}: wants NAME=REGEX:UNIT:lower|higher"),
        };
        let better = match better {
            "lower" => Direction::Lower,
            "higher" => Direction::Higher,
            other => bail!("--metric {text}: {other:?} is neither \"lower\" nor \"higher\""),
        };
        if name.is_empty() || BUILT_IN.iter().any(|(own, _)| *own == name) {
            bail!("--metric {text}: the name {name:?} is empty or one of towpath's own");
        }
        let pattern = Regex::new(pattern)
            .with_context(|| format!("--metric {text}: {pattern:?} is not a regular expression"))?;
        if pattern.captures_len() < 2 {
            bail!("--metric {text}: put the number into a group, as in \"fps: ([0-9.]+)\"");
        }
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Ok(Self { name, unit, better, pattern: Some(pattern) })
    }

    /// Every number that the program's output gives for this metric, in order.
    pub(super) fn found_in(&self, output: &str) -> Vec<f64> {
        let Some(pattern) = &self.pattern else { return Vec::new() };
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
        assert_eq!((fps.name.as_str(), fps.unit.as_str()), ("fps", "frames/s"));
        assert_eq!(fps.better, Direction::Higher);
        assert_eq!(fps.found_in("rate: 59.5\nrate: x\nrate: 60\n"), [59.5, 60.0]);
    }

    #[test]
    fn a_metric_that_cannot_work_is_refused_with_the_reason() {
        for bad in ["fps", "fps=([0-9]+)", "fps=([0-9]+):fps:up", "fps=[0-9]+:fps:higher",
            "fps=(:fps:higher", "=([0-9]+):fps:higher", "wall=([0-9]+):s:lower"]
        {
            assert!(Metric::parse(bad).is_err(), "{bad}");
        }
    }
}
