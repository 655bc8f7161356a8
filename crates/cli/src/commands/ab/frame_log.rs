//! Frame logs that the program writes in each run.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};
use towpath_measure::frames::{ReadOptions, Target, metrics as measured};
use towpath_report::{Metric as Shown, Run};

use super::metric::Metric;
use crate::commands::frames::load::Log;

/// Judged unless another one decides; the rest is shown.
const JUDGED: &[&str] = &["fps", "low-1%", "over-33.4ms", "late"];

/// All frame metrics; `primary` is judged whatever it is.
pub(super) fn metrics(primary: &str) -> Vec<Metric> {
    // Names and definitions do not depend on the frames.
    let any = [16.6; 2];
    let shown = measured::evaluate(&any, &Target::default())
        .into_iter()
        .map(|metric| {
            let is_judged = JUDGED.contains(&&*metric.name) || metric.name == primary;
            let shown = Shown::new(&metric.name, metric.unit, metric.better, &metric.definition);
            if is_judged {
                shown
            } else {
                shown.informative()
            }
        });
    shown
        .map(|shown| Metric {
            shown,
            pattern: None,
        })
        .collect()
}

/// Reads the logs that match `pattern` and were written since `start` into `run`.
///
/// Several logs of one run are one value of it only if there is one: of more, the newest counts.
///
/// # Errors
///
/// If the pattern is none.
pub(super) fn read_into(run: &mut Run, pattern: &str, start: SystemTime) -> Result<()> {
    let Some(path) = newest(pattern, start)? else {
        run.notes
            .push(format!("no frame log like {pattern} was written"));
        return Ok(());
    };
    let logs = match Log::whole(&path, &ReadOptions::default()) {
        Ok(logs) => logs,
        Err(error) => {
            run.notes.push(format!("{error:#}"));
            return Ok(());
        }
    };
    let Some(log) = logs.first() else {
        return Ok(());
    };
    let read = log.run(run.arm, run.pair, &Target::default(), &mut Vec::new());
    run.readings.extend(read.readings);
    run.frames = read.frames;
    Ok(())
}

fn newest(pattern: &str, start: SystemTime) -> Result<Option<PathBuf>> {
    let found = glob::glob(pattern).with_context(|| format!("--frames {pattern}"))?;
    let written = found.filter_map(|path| {
        let path = path.ok()?;
        let time = path.metadata().ok()?.modified().ok()?;
        (time >= start).then_some((time, path))
    });
    Ok(written.max().map(|(_, path)| path))
}
