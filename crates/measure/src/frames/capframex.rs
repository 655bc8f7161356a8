//! CapFrameX JSON: `Runs[].CaptureData` with parallel arrays; several runs stay several runs.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use super::{FrameLog, FrameRun, LogError, ReadOptions, Source};
use crate::results::Rejections;
use crate::sample::sum;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    runs: Vec<Run>,
    #[serde(default)]
    info: Option<Info>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Info {
    #[serde(default)]
    game_name: Option<String>,
    #[serde(default)]
    process_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Run {
    #[serde(default)]
    capture_data: Option<Capture>,
    /// What RivaTuner's server saw, in runs without PresentMon.
    #[serde(default, rename = "RTSSFrameTimes")]
    rtss: Option<Vec<Cell>>,
}

/// A number; null, "NaN" as older versions write it, and whatever else stand for none.
#[derive(Clone, Copy)]
struct Cell(Option<f64>);

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl Visitor<'_> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell(Some(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Cell, E> {
        Ok(Cell(Some(value as f64)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell(Some(value as f64)))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Cell, E> {
        Ok(Cell(Some(f64::from(u8::from(value)))))
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cell, E> {
        Ok(Cell(
            text.parse().ok().filter(|value: &f64| value.is_finite()),
        ))
    }
}

/// Arrays may be missing or null in older files, and so may their elements.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Capture {
    #[serde(default)]
    time_in_seconds: Option<Vec<Cell>>,
    #[serde(default)]
    ms_between_presents: Option<Vec<Cell>>,
    #[serde(default)]
    ms_between_display_change: Option<Vec<Cell>>,
    #[serde(default)]
    dropped: Option<Vec<Cell>>,
}

/// Reads the whole document.
pub(super) fn read(bytes: &[u8], options: &ReadOptions) -> Result<FrameLog, LogError> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| LogError::Unusable {
        line: error.line(),
        column: error.column(),
        why: "JSON, but no CapFrameX record".to_owned(),
    })?;
    let name = file
        .info
        .and_then(|info| info.game_name.or(info.process_name))
        .unwrap_or_default();
    let mut rejected = Rejections::default();
    let mut runs: Vec<FrameRun> = file
        .runs
        .into_iter()
        .enumerate()
        .map(|(index, run)| one(index, run, options, &mut rejected))
        .collect();
    let count = runs.len();
    for (index, run) in runs.iter_mut().enumerate() {
        run.name = if count > 1 {
            format!("{name} run {}", index + 1)
        } else {
            name.clone()
        };
    }
    Ok(FrameLog {
        kind: "CapFrameX JSON",
        runs,
        rejected,
        notes: Vec::new(),
    })
}

fn one(index: usize, run: Run, options: &ReadOptions, rejected: &mut Rejections) -> FrameRun {
    let capture = run.capture_data.unwrap_or_default();
    let rtss = run.rtss.unwrap_or_default();
    let mut run = FrameRun::default();
    let mut presents = capture.ms_between_presents.unwrap_or_default();
    if presents.is_empty() && !rtss.is_empty() {
        run.notes
            .push("no presents were captured: RTSS' frame times are used".to_owned());
        presents = rtss;
    }
    let display = capture
        .ms_between_display_change
        .filter(|_| options.source == Source::Display);
    let is_display = display.is_some();
    if options.source == Source::Display && !is_display {
        run.notes
            .push("the log has no display times: presents are used".to_owned());
    }
    let mut not_shown = 0;
    for (place, value) in display.unwrap_or(presents).into_iter().enumerate() {
        match value.0 {
            Some(value) if super::is_frame(value) => run.frame_ms.push(value),
            Some(0.0) | None if is_display => not_shown += 1,
            // JSON has no lines that mean anything: the run and the place in its array stand for them.
            other => rejected.add(index + 1, place + 1, || {
                format!("a frame time of {other:?}")
            }),
        }
    }
    if not_shown > 0 {
        run.notes.push(format!(
            "{not_shown} frames were never shown and have no display time"
        ));
    }
    let dropped = capture.dropped.iter().flatten();
    let dropped = dropped.filter(|cell| cell.0 == Some(1.0)).count();
    if dropped > 0 {
        run.notes.push(format!(
            "{dropped} frames were dropped (presented, never shown)"
        ));
    }
    let times: Vec<f64> = capture
        .time_in_seconds
        .into_iter()
        .flatten()
        .filter_map(|cell| cell.0)
        .collect();
    if let (Some(first), Some(last), Some(frame)) =
        (times.first(), times.last(), run.frame_ms.first())
    {
        let span_ms = (last - first) * 1e3 + frame;
        run.coverage =
            (span_ms > 0.0 && !is_display).then(|| sum(run.frame_ms.iter().copied()) / span_ms);
    }
    run
}
