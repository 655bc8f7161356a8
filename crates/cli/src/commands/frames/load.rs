//! One log file: read, joined, cut, measured.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use towpath_measure::frames::metrics::Ordered;
use towpath_measure::frames::{self, FrameRun, ReadOptions, Target, metrics, sketch};
use towpath_measure::{Arm, bootstrap, sample};
use towpath_report::result::FrameLine;
use towpath_report::{Metric, Run};

use super::Args;
use super::cut::Cut;

/// So many slices of time are kept for pictures.
const SLICES_MAX: usize = 600;

/// Longest run whose interval within the run is resampled: a million frames take about a second.
const RESAMPLED_MAX: usize = 1_000_000;

/// One run of a log.
pub(crate) struct Log {
    /// The file, and the run in it if it has several.
    pub(crate) name: String,
    /// What must be said.
    pub(crate) notes: Vec<String>,
    frames: FrameRun,
}

impl Log {
    /// Reads a file's runs and cuts them.
    pub(super) fn read(path: &Path, args: &Args) -> Result<Vec<Self>> {
        let mut runs = Self::whole(path, &args.read_options(path))?;
        for log in &mut runs {
            log.cut(&args.cut)?;
            log.look();
        }
        Ok(runs)
    }

    /// Reads a file's runs as they are.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is no frame log.
    pub(crate) fn whole(path: &Path, options: &ReadOptions) -> Result<Vec<Self>> {
        let shown = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
        let log = frames::read(file, options).with_context(|| format!("cannot use {shown}"))?;
        let several = log.runs.len() > 1;
        let mut runs = Vec::new();
        for (index, run) in log.runs.into_iter().enumerate() {
            let name = if several {
                format!("{shown} run {}", index + 1)
            } else {
                shown.clone()
            };
            let size = match run.periods.len() {
                0 => format!("{} frames", run.frame_ms.len()),
                periods => format!("{periods} averages"),
            };
            let mut notes = vec![format!("{} of {size}", log.kind)];
            if !run.name.is_empty() {
                notes.push(run.name.clone());
            }
            if index == 0 {
                notes.extend(log.rejected.summary());
                notes.extend(log.notes.iter().cloned());
            }
            notes.extend(run.notes.iter().cloned());
            runs.push(Self {
                name,
                notes,
                frames: run,
            });
        }
        Ok(runs)
    }

    /// Joins and cuts as asked, and says so.
    ///
    /// # Errors
    ///
    /// A cut that cannot be made.
    pub(crate) fn cut(&mut self, cut: &Cut) -> Result<()> {
        if !self.frames.periods.is_empty() && !cut.is_nothing() {
            bail!(
                "cannot cut {}: it holds averages of periods, not frames",
                self.name
            );
        }
        let done = cut
            .apply(&mut self.frames)
            .with_context(|| format!("cannot cut {}", self.name))?;
        self.notes.extend(done);
        Ok(())
    }

    /// The rate in fps at which frames are held, if they are.
    pub(super) fn cap_fps(&self) -> Option<f64> {
        let frames = &self.frames.frame_ms;
        metrics::is_capped(frames)
            .then(|| 1e3 * frames.len() as f64 / sample::sum(frames.iter().copied()))
    }

    /// Says what the frames show about themselves.
    fn look(&mut self) {
        if !self.frames.periods.is_empty() {
            self.notes
                .push("it holds averages of periods: only the average fps can be said".to_owned());
            return;
        }
        let frames = &self.frames.frame_ms;
        if let Some(coverage) = self.frames.coverage.filter(|_| !self.frames.is_complete()) {
            self.notes.push(format!(
                "the frames cover {:.1} % of the time: a sample, so nothing is said that needs every frame",
                coverage * 100.0
            ));
        }
        if metrics::is_capped(frames) {
            self.notes.push(
                "frames are held at a rate: their average says nothing, late ones do".to_owned(),
            );
        }
        if frames.len() > RESAMPLED_MAX {
            return;
        }
        let (Some(rho), Some(effective)) = (
            bootstrap::autocorrelation(frames),
            bootstrap::effective_length(frames),
        ) else {
            return;
        };
        if frames.len() >= 100 && self.frames.is_complete() {
            let means = bootstrap::block_means(frames, bootstrap::block_length(frames), 999, 1);
            let interval = bootstrap::percentile(&means, 0.05);
            self.notes.push(format!(
                "within this run only: fps {:.2} to {:.2} at 95 % (correlation of neighbours {rho:.2}, {} frames tell as much as {effective:.0} independent ones)",
                1e3 / interval.high,
                1e3 / interval.low,
                frames.len(),
            ));
        }
    }

    /// The run with all metrics; new ones are added to the list.
    pub(crate) fn run(
        &self,
        arm: Arm,
        number: usize,
        target: &Target,
        known: &mut Vec<Metric>,
    ) -> Run {
        let mut run = Run::new(arm, number);
        run.source = Some(self.name.clone());
        if let Some(fps) = self.frames.average_fps() {
            Self::read_average(&mut run, fps, target, known);
            return run;
        }
        let frames = &self.frames.frame_ms;
        let ordered = Ordered::of(frames);
        for metric in metrics::evaluate_ordered(frames, &ordered, target) {
            if metric.needs_all && !self.frames.is_complete() {
                run.cannot_read(&metric.name, "the log is a sample of the frames");
            } else {
                run.read(&metric.name, metric.value);
            }
            if !known.iter().any(|one| one.name == metric.name) {
                known.push(Metric::new(
                    &metric.name,
                    metric.unit,
                    metric.better,
                    &metric.definition,
                ));
            }
        }
        let sketch = sketch::sketch_ordered(frames, &ordered, SLICES_MAX);
        run.frames = Some(FrameLine {
            frames: frames.len(),
            slice_s: sketch.slice_s,
            slices: sketch.slices,
            ladder: sketch.ladder,
        });
        run
    }

    /// A log of averages has one metric; the others are unavailable, which is not 0.
    fn read_average(run: &mut Run, fps: f64, target: &Target, known: &mut Vec<Metric>) {
        // Names and definitions do not depend on the frames.
        for metric in metrics::evaluate(&[16.6; 2], target) {
            if metric.name == "fps" {
                run.read(&metric.name, fps);
            } else {
                run.cannot_read(&metric.name, "the log holds averages, not frames");
            }
            if !known.iter().any(|one| one.name == metric.name) {
                known.push(Metric::new(
                    &metric.name,
                    metric.unit,
                    metric.better,
                    &metric.definition,
                ));
            }
        }
    }
}
