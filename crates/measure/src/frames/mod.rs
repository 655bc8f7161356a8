//! Frame logs: MangoHud, PresentMon, CapFrameX, OCAT, FrameView, towpath's own, plain columns; and the averages that
//! MSI Afterburner, Mesa's overlay and `GALLIUM_HUD` write.
//!
//! # Invariants
//!
//! - A row with one bad cell is left out as a whole and counted with its line and column; no series shifts.
//! - Runs and swap chains of one file stay apart; what was not chosen is said.
//! - A log that holds only samples of the frames says so ([`FrameRun::coverage`]), and [`metrics`] refuses what
//!   needs every frame.

mod blocks;
mod capframex;
mod header;
mod lines;
pub mod metrics;
mod periods;
mod rows;
pub mod sketch;
mod table;

use std::io::Read;

pub use metrics::{Metrics, Target};

use crate::encoding::{self, Decoded};
use crate::results::Rejections;
use crate::sample::sum;

/// Which of a log's columns is the frame time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Source {
    /// From present to present (or frame to frame): what the program did.
    #[default]
    Present,
    /// From one change of the display to the next: what was seen. Needed with frame generation.
    Display,
}

/// Unit of a plain column.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Unit {
    /// Milliseconds.
    #[default]
    Millis,
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// Frames per second of each frame.
    Fps,
    /// Average frames per second of periods of one length, as `GALLIUM_HUD_DUMP_DIR` holds them.
    PeriodFps,
}

/// How to read a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadOptions {
    /// Which frame time.
    pub source: Source,
    /// Column of a file without a header, from 1.
    pub column: usize,
    /// Its unit.
    pub unit: Unit,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            source: Source::Present,
            column: 1,
            unit: Unit::Millis,
        }
    }
}

/// One run of one swap chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameRun {
    /// Program, process and swap chain, as far as the log knows them.
    pub name: String,
    /// Frame times in milliseconds, in order; all finite and above 0.
    pub frame_ms: Vec<f64>,
    /// Share of the time span that the frames cover; `None` if the log has no time of its own.
    pub coverage: Option<f64>,
    /// What must be said: units, gaps, dropped frames, clock steps.
    pub notes: Vec<String>,
    /// For logs that hold averages of periods instead of frames: those. `frame_ms` is then empty.
    pub periods: Vec<Period>,
    /// Lines of text among the rows (`# level 2`, `// level 2`), at most [`MARKERS_MAX`].
    pub markers: Vec<Marker>,
}

/// A span of time with its average rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Frames per second in it.
    pub fps: f64,
    /// Its length in seconds, or 1 where all are of one unknown length.
    pub seconds: f64,
}

/// A line of text among the rows of a log: where a level, a scene, a cut began.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Marker {
    /// How many frames of the run came before it.
    pub frame: usize,
    /// The text, without the signs before it; at most 200 characters.
    pub text: String,
}

/// So many markers of a log are kept: more are no scenes, but a stream of comments.
pub const MARKERS_MAX: usize = 10_000;

/// Below this share of covered time a log is a sample of frames, not all of them.
pub const COVERAGE_MIN: f64 = 0.95;

/// Frame times (or fps) that a log may hold, in its own unit. Outside of it unit conversions, squares and
/// sums leave the range of numbers; no display is near either end.
const FRAME_RANGE: std::ops::RangeInclusive<f64> = 1e-9..=1e12;

/// Whether a cell of a log is a frame in any unit.
fn is_frame(value: f64) -> bool {
    FRAME_RANGE.contains(&value)
}

impl FrameRun {
    /// Whether the log holds every frame, as far as can be told.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.periods.is_empty() && self.coverage.is_none_or(|share| share >= COVERAGE_MIN)
    }

    /// The average rate of a log that holds periods: frames over time, not the mean of rates. `None` for one that
    /// holds frames.
    #[must_use]
    pub fn average_fps(&self) -> Option<f64> {
        let seconds = sum(self.periods.iter().map(|period| period.seconds));
        let frames = sum(self
            .periods
            .iter()
            .map(|period| period.fps * period.seconds));
        (seconds > 0.0).then(|| frames / seconds)
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameLog {
    /// Which kind of log, in words.
    pub kind: &'static str,
    /// Its runs: several for CapFrameX aggregations, else the one with the most time.
    pub runs: Vec<FrameRun>,
    /// Rows that were left out.
    pub rejected: Rejections,
    /// What was not chosen: other processes and swap chains.
    pub notes: Vec<String>,
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The reader failed.
    #[error("cannot read on after line {line}")]
    Read {
        /// Last line that was read.
        line: usize,
        /// The reader's answer.
        source: std::io::Error,
    },
    /// No known kind of log.
    #[error("line {line}, column {column}: {why}")]
    Unusable {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was found there.
        why: String,
    },
    /// A header, but no frame.
    #[error("there is no frame in it ({rejected} rows were left out)")]
    Empty {
        /// Rows that were left out.
        rejected: usize,
    },
}

/// Reads a log from anything that can be read, without holding the file: 8 bytes per frame stay.
///
/// # Errors
///
/// [`LogError`]; damaged rows are no error, they are counted.
pub fn read(reader: impl Read + Send, options: &ReadOptions) -> Result<FrameLog, LogError> {
    let reader = Decoded::new(reader).map_err(|source| LogError::Read { line: 0, source })?;
    if let Some(archive) = encoding::archive(reader.start()) {
        return Err(LogError::Unusable {
            line: 1,
            column: 1,
            why: archive.to_owned(),
        });
    }
    let mut lines = lines::Lines::new(reader);
    let mut log = if lines.starts_with_brace()? {
        capframex::read(&lines.rest()?, options)?
    } else {
        table::read(lines, options)?
    };
    if options.unit == Unit::PeriodFps && log.kind == table::PLAIN {
        log.kind = "rates of periods";
        for run in &mut log.runs {
            let rates = std::mem::take(&mut run.frame_ms).into_iter();
            let period = |fps| Period { fps, seconds: 1.0 };
            run.periods = rates.map(period).collect();
        }
    }
    if log
        .runs
        .iter()
        .all(|run| run.frame_ms.is_empty() && run.periods.is_empty())
    {
        return Err(LogError::Empty {
            rejected: log.rejected.count,
        });
    }
    Ok(log)
}

/// Joins frames shorter than `ms` to the one after them: pairs of presents that were shown as one.
#[must_use]
pub fn merge_short(frame_ms: &[f64], ms: f64) -> Vec<f64> {
    let mut merged = Vec::with_capacity(frame_ms.len());
    let mut waiting = 0.0;
    for frame in frame_ms {
        waiting += frame;
        if *frame >= ms {
            merged.push(waiting);
            waiting = 0.0;
        }
    }
    if waiting > 0.0 {
        merged.push(waiting);
    }
    merged
}

/// Whether presents alternate between very short and long ones: a limiter with mailbox, or frame generation.
#[must_use]
pub fn alternates(frame_ms: &[f64]) -> bool {
    let mean = crate::sample::mean(frame_ms);
    let short = frame_ms.iter().filter(|&&frame| frame < mean / 5.0).count();
    let paired = frame_ms.windows(2).filter(|pair| match pair {
        [first, second] => *first < mean / 5.0 && *second > mean / 2.0,
        _ => false,
    });
    frame_ms.len() >= 20 && short * 10 >= frame_ms.len() && paired.count() * 10 >= short * 8
}
