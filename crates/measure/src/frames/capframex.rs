//! CapFrameX JSON: `Runs[].CaptureData` with parallel arrays; several runs stay several runs.

use serde::Deserialize;

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
}

/// Arrays may be missing or null in older files, and so may their elements.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Capture {
    #[serde(default)]
    time_in_seconds: Option<Vec<Option<f64>>>,
    #[serde(default)]
    ms_between_presents: Option<Vec<Option<f64>>>,
    #[serde(default)]
    ms_between_display_change: Option<Vec<Option<f64>>>,
    #[serde(default)]
    dropped: Option<Vec<Option<serde_json::Value>>>,
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
        .map(|(index, run)| {
            one(
                index,
                run.capture_data.unwrap_or_default(),
                options,
                &mut rejected,
            )
        })
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

fn one(
    index: usize,
    capture: Capture,
    options: &ReadOptions,
    rejected: &mut Rejections,
) -> FrameRun {
    let mut run = FrameRun::default();
    let presents = capture.ms_between_presents.unwrap_or_default();
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
        match value {
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
    let is_one = |value: &Option<serde_json::Value>| {
        value
            .as_ref()
            .is_some_and(|value| value.as_bool() == Some(true) || value.as_i64() == Some(1))
    };
    let dropped = capture
        .dropped
        .iter()
        .flatten()
        .filter(|value| is_one(value))
        .count();
    if dropped > 0 {
        run.notes.push(format!(
            "{dropped} frames were dropped (presented, never shown)"
        ));
    }
    let times: Vec<f64> = capture
        .time_in_seconds
        .into_iter()
        .flatten()
        .flatten()
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
