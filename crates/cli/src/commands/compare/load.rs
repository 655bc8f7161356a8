//! Files of one side: every value becomes a run, except where a file's lines are repeats within one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use towpath_measure::judge::Direction;
use towpath_measure::results::{self, Columns, Series};
use towpath_report::{Metric, Reading};

/// One side of the comparison.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Its name in tables.
    pub(super) label: String,
    /// What it has.
    pub(super) metrics: Vec<Metric>,
    /// Its runs: where from, and what was read.
    pub(super) runs: Vec<(String, BTreeMap<String, Reading>)>,
    /// What must be said of its files.
    pub(super) notes: Vec<String>,
}

impl Side {
    /// Reads the files of a side.
    pub(super) fn load(paths: &[PathBuf], columns: &Columns, each_line: bool) -> Result<Self> {
        let mut side = Self {
            label: label(paths),
            ..Self::default()
        };
        for path in paths {
            side.add(path, columns, each_line)?;
        }
        Ok(side)
    }

    fn add(&mut self, path: &Path, columns: &Columns, each_line: bool) -> Result<()> {
        let shown = path.display().to_string();
        let bytes = crate::input::read(path)?;
        let found =
            results::read(&bytes, columns).with_context(|| format!("cannot use {shown}"))?;
        if let Some(summary) = found.rejected.summary() {
            self.notes
                .push(format!("{shown} ({}): {summary}", found.kind));
        }
        let mut runs: Vec<BTreeMap<String, Reading>> = Vec::new();
        for series in found.series {
            let name = name(&series);
            if !self.metrics.iter().any(|metric| metric.name == name) {
                self.metrics
                    .push(Metric::new(&name, &series.unit, series.better, ""));
            }
            for note in &series.notes {
                let note = format!("{shown}: {name}: {note}");
                self.notes.push(note);
            }
            for (place, reading) in readings(&series, each_line).into_iter().enumerate() {
                if runs.len() <= place {
                    runs.resize_with(place + 1, BTreeMap::new);
                }
                if let Some(run) = runs.get_mut(place) {
                    run.insert(name.clone(), reading);
                }
            }
        }
        self.runs
            .extend(runs.into_iter().map(|run| (shown.clone(), run)));
        Ok(())
    }

    /// A file of exactly two metrics with one unit (two commands of hyperfine) is two sides.
    pub(super) fn split_in_two(self) -> Option<(Self, Self)> {
        let [first, second] = &self.metrics[..] else {
            return None;
        };
        if first.unit != second.unit {
            return None;
        }
        let part = |metric: &Metric| {
            let has_it = |(source, run): &(String, BTreeMap<String, Reading>)| {
                let reading = run.get(&metric.name)?.clone();
                Some((
                    source.clone(),
                    BTreeMap::from([(metric.name.clone(), reading)]),
                ))
            };
            Self {
                label: metric.name.clone(),
                metrics: vec![metric.clone()],
                runs: self.runs.iter().filter_map(has_it).collect(),
                notes: Vec::new(),
            }
        };
        let (mut first, second) = (part(first), part(second));
        first.notes.clone_from(&self.notes);
        Some((first, second))
    }

    fn rename(&mut self, to: &str) {
        for metric in &mut self.metrics {
            to.clone_into(&mut metric.name);
        }
        for (_, run) in &mut self.runs {
            *run = std::mem::take(run)
                .into_values()
                .map(|reading| (to.to_owned(), reading))
                .collect();
        }
    }
}

/// If each side has one metric, under its own name (two commands), both get one name; equal labels get the arm.
pub(super) fn agree(a: &mut Side, b: &mut Side) {
    if a.label == b.label {
        a.label.push_str(" (A)");
        b.label.push_str(" (B)");
    }
    if let ([one], [other]) = (&a.metrics[..], &b.metrics[..])
        && one.name != other.name
        && one.unit == other.unit
    {
        let name = match one.unit.as_str() {
            "s" => "time",
            "fps" => "fps",
            _ => "value",
        };
        a.rename(name);
        b.rename(name);
    }
}

/// Runs of a series: its values, or one run with its values as repeats.
fn readings(series: &Series, each_line: bool) -> Vec<Reading> {
    if !series.are_repeats || each_line {
        return series
            .values
            .iter()
            .map(|&value| Reading::of(value))
            .collect();
    }
    // The first line holds the start of the program.
    let steady = if series.values.len() > 1 {
        series.values.get(1..)
    } else {
        series.values.get(..)
    };
    vec![Reading::of_repeats(steady.unwrap_or_default().to_vec())]
}

fn name(series: &Series) -> String {
    match (series.metric.as_str(), series.better) {
        ("", Direction::Lower | Direction::Higher) => "value".to_owned(),
        (name, _) => name.to_owned(),
    }
}

/// The file's name, and how many more there are.
fn label(paths: &[PathBuf]) -> String {
    let first = paths.first().and_then(|path| path.file_name());
    let first = first.map_or_else(
        || "?".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    if paths.len() > 1 {
        format!("{first} and {} more", paths.len() - 1)
    } else {
        first
    }
}
