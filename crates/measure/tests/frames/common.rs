//! Logs read from text.

use towpath_measure::frames::{FrameLog, FrameRun, ReadOptions, Source, read};

pub(crate) fn parse(text: &str) -> FrameLog {
    read(text.as_bytes(), &ReadOptions::default()).unwrap()
}

pub(crate) fn one(text: &str) -> FrameRun {
    let mut log = parse(text);
    assert_eq!(log.runs.len(), 1, "{log:?}");
    log.runs.remove(0)
}

pub(crate) fn display(text: &str) -> FrameRun {
    let options = ReadOptions {
        source: Source::Display,
        ..ReadOptions::default()
    };
    read(text.as_bytes(), &options).unwrap().runs.remove(0)
}

pub(crate) fn refuse(text: &str) -> String {
    read(text.as_bytes(), &ReadOptions::default())
        .unwrap_err()
        .to_string()
}

/// 95 frames of 16.7 ms, then 20, 25, 30, 40, 100.
pub(crate) fn hundred() -> Vec<f64> {
    let mut frames = vec![16.7; 95];
    frames.extend([20.0, 25.0, 30.0, 40.0, 100.0]);
    frames
}
