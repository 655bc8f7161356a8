//! Which part of a log counts: by time, frame number, a long frame, or marker lines. Every cut is said.

use anyhow::{Result, bail};
use towpath_measure::frames::{FrameRun, merge_short};

/// What is kept of a log. All cuts may be combined; they are made in the order of the fields.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Cut {
    /// Starts at the first marker line that contains this text ('# level 2'; lines that begin with # or //).
    #[arg(long, value_name = "TEXT")]
    pub(crate) from_marker: Option<String>,
    /// Ends at the first marker line after it that contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) to_marker: Option<String>,
    /// Joins presents shorter than this to the next one.
    #[arg(long, value_name = "MS")]
    pub(crate) merge_short: Option<f64>,
    /// Starts after the first frame longer than this: a loading screen as a marker.
    #[arg(long, value_name = "MS")]
    pub(crate) after: Option<f64>,
    /// Leaves out what lies before this time of the run.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) from: Option<f64>,
    /// Leaves out what lies after this time of the run.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) to: Option<f64>,
    /// Leaves out so many frames at the start.
    #[arg(long, value_name = "N")]
    pub(crate) skip: Option<usize>,
    /// Keeps at most so many frames.
    #[arg(long, value_name = "N")]
    pub(crate) take: Option<usize>,
}

impl Cut {
    /// Whether nothing is to be cut.
    pub(crate) fn is_nothing(&self) -> bool {
        let Self {
            from_marker,
            to_marker,
            merge_short,
            after,
            from,
            to,
            skip,
            take,
        } = self;
        let texts = from_marker.is_none() && to_marker.is_none();
        let numbers = [merge_short, after, from, to];
        texts && numbers.iter().all(|cut| cut.is_none()) && skip.is_none() && take.is_none()
    }

    /// Cuts `run` and says what was done and what remains; `None` if nothing was asked for.
    ///
    /// # Errors
    ///
    /// If a marker is not in the log: a cut that was asked for and not made would be a wrong result.
    pub(crate) fn apply(&self, run: &mut FrameRun) -> Result<Option<String>> {
        let before = run.frame_ms.len();
        let mut done = self.by_markers(run)?;
        if let Some(ms) = self.merge_short {
            run.frame_ms = merge_short(&run.frame_ms, ms);
            done.push(format!("presents shorter than {ms} ms joined to the next"));
        }
        let frames = &mut run.frame_ms;
        if let Some(ms) = self.after {
            let Some(long) = frames.iter().position(|&frame| frame > ms) else {
                bail!("--after {ms}: no frame is longer than {ms} ms");
            };
            frames.drain(..=long);
            done.push(format!(
                "started after frame {}, the first longer than {ms} ms",
                long + 1
            ));
        }
        if self.from.is_some() || self.to.is_some() {
            let (from, to) = (self.from.unwrap_or(0.0), self.to.unwrap_or(f64::INFINITY));
            let mut now = 0.0;
            frames.retain(|frame| {
                let start = now;
                now += frame / 1e3;
                start >= from && now <= to
            });
            done.push(format!("cut to {from} s .. {to} s"));
        }
        if let Some(skip) = self.skip {
            frames.drain(..skip.min(frames.len()));
            done.push(format!("the first {skip} frames left out"));
        }
        if let Some(take) = self.take {
            frames.truncate(take);
            done.push(format!("at most {take} frames kept"));
        }
        if done.is_empty() {
            return Ok(None);
        }
        let remain = run.frame_ms.len();
        if remain == 0 {
            bail!("{}: no frame of {before} remains", done.join(", "));
        }
        Ok(Some(format!(
            "{}: {remain} of {before} frames remain",
            done.join(", ")
        )))
    }

    fn by_markers(&self, run: &mut FrameRun) -> Result<Vec<String>> {
        let mut done = Vec::new();
        let mut start = 0;
        if let Some(text) = &self.from_marker {
            let (frame, marker) = find(run, text, 0)?;
            done.push(format!("from marker `{marker}` before frame {}", frame + 1));
            start = frame;
        }
        if let Some(text) = &self.to_marker {
            let (frame, marker) = find(run, text, start)?;
            done.push(format!("to marker `{marker}` after frame {frame}"));
            run.frame_ms.truncate(frame);
        }
        run.frame_ms.drain(..start.min(run.frame_ms.len()));
        Ok(done)
    }
}

/// The first marker at or after frame `from` whose text contains `wanted`: its place in frames, and its text.
fn find(run: &FrameRun, wanted: &str, from: usize) -> Result<(usize, String)> {
    let found = run
        .markers
        .iter()
        .find(|marker| marker.frame >= from && marker.text.contains(wanted));
    if let Some(marker) = found {
        return Ok((marker.frame, marker.text.clone()));
    }
    let known = run.markers.iter().take(8);
    let known: Vec<String> = known.map(|marker| format!("`{}`", marker.text)).collect();
    if known.is_empty() {
        bail!("no marker contains `{wanted}`: the log has no marker lines (# text, // text)");
    }
    bail!(
        "no marker contains `{wanted}` there; the log has {} markers: {}",
        run.markers.len(),
        known.join(", ")
    );
}
