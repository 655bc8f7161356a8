//! Frame logs that the program writes in each run.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use towpath_measure::frames::{ReadOptions, Target, metrics as measured};
use towpath_report::{Metric as Shown, Run};

use super::metric::Metric;
use crate::commands::frames::cut::Cut;
use crate::commands::frames::load::Log;

/// Judged unless another one decides; the rest is shown.
const JUDGED: &[&str] = &["fps", "low-1%", "over-33.4ms", "late"];

/// Which frame logs, and what of them counts.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Options {
    /// Reads the frame logs that a run leaves where this pattern says, such as 'logs/*.csv'.
    #[arg(long, value_name = "GLOB")]
    frames: Option<String>,
    /// Refresh rate that frames should keep.
    #[arg(long, value_name = "HZ", default_value_t = 60.0, requires = "frames")]
    frames_hertz: f64,
    /// Leaves out so many frames at the start of each log.
    #[arg(long, value_name = "N", requires = "frames")]
    frames_skip: Option<usize>,
    /// Keeps at most so many frames of each log.
    #[arg(long, value_name = "N", requires = "frames")]
    frames_take: Option<usize>,
    /// Starts at the first marker line of the log that contains this text.
    #[arg(long, value_name = "TEXT", requires = "frames")]
    frames_from_marker: Option<String>,
    /// Ends at the first marker line after it that contains this text.
    #[arg(long, value_name = "TEXT", requires = "frames")]
    frames_to_marker: Option<String>,
}

impl Options {
    fn target(&self) -> Target {
        Target {
            hertz: self.frames_hertz,
            ..Target::default()
        }
    }

    fn cut(&self) -> Cut {
        Cut {
            skip: self.frames_skip,
            take: self.frames_take,
            from_marker: self.frames_from_marker.clone(),
            to_marker: self.frames_to_marker.clone(),
            ..Cut::default()
        }
    }

    /// What of each log counts, for the result; `None` if all of it does.
    pub(super) fn note(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(text) = &self.frames_from_marker {
            parts.push(format!("from marker `{text}`"));
        }
        if let Some(text) = &self.frames_to_marker {
            parts.push(format!("to marker `{text}`"));
        }
        if let Some(skip) = self.frames_skip {
            parts.push(format!("the first {skip} frames left out"));
        }
        if let Some(take) = self.frames_take {
            parts.push(format!("at most {take} frames kept"));
        }
        (!parts.is_empty()).then(|| format!("frame logs were cut: {}", parts.join(", ")))
    }

    /// All frame metrics, if there are frame logs; `primary` is judged whatever it is.
    pub(super) fn metrics(&self, primary: &str) -> Vec<Metric> {
        if self.frames.is_none() {
            return Vec::new();
        }
        // Names and definitions do not depend on the frames.
        let any = [16.6; 2];
        let shown = measured::evaluate(&any, &self.target())
            .into_iter()
            .map(|metric| {
                let is_judged = JUDGED.contains(&&*metric.name) || metric.name == primary;
                let shown =
                    Shown::new(&metric.name, metric.unit, metric.better, &metric.definition);
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

    /// Reads the newest log that was written since `start` into `run`. A log that cannot be used is noted there.
    ///
    /// # Errors
    ///
    /// If the pattern is none.
    pub(super) fn read_into(&self, run: &mut Run, start: SystemTime) -> Result<()> {
        let Some(pattern) = &self.frames else {
            return Ok(());
        };
        let Some(path) = newest(pattern, start)? else {
            run.notes
                .push(format!("no frame log like {pattern} was written"));
            return Ok(());
        };
        let read = Log::whole(&path, &ReadOptions::default()).and_then(|mut logs| {
            let log = logs.first_mut().context("the log has no run")?;
            log.cut(&self.cut())?;
            run.notes.extend(log.notes.last().cloned());
            Ok(log.run(run.arm, run.pair, &self.target(), &mut Vec::new()))
        });
        match read {
            Ok(read) => {
                run.readings.extend(read.readings);
                run.frames = read.frames;
            }
            Err(error) => run.notes.push(format!("{error:#}")),
        }
        Ok(())
    }
}

/// The moment now by the clock that stamps files. It goes in ticks of some milliseconds: by the finer one, a file that
/// is written right now may be older than now, and the log of a short run was not found.
pub(super) fn now() -> SystemTime {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_written_right_after_the_start_is_of_this_run() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("frames.csv");
        let pattern = log.display().to_string();
        for _run in 0..100 {
            let start = now();
            std::fs::write(&log, "frametime").unwrap();
            assert_eq!(newest(&pattern, start).unwrap(), Some(log.clone()));
        }
    }
}
