//! Logs that hold averages of periods, not frames: MSI Afterburner's polls, Mesa's overlay layer.
//!
//! Only one thing can be said of them: the average fps over their time. See [`FrameRun::periods`].

use std::io::Read;

use super::lines::{Lines, cells, number};
use super::{FrameLog, FrameRun, LogError, Period, is_frame};
use crate::results::Rejections;

/// Reads an MSI Afterburner log: rows `type, date, ...` with type 0 for a session, 2 for the names of columns and 80 for
/// a poll. `first` is the line that was read already.
pub(super) fn afterburner<R: Read>(
    lines: &mut Lines<R>,
    first: &[u8],
) -> Result<FrameLog, LogError> {
    let mut log = Afterburner::default();
    log.line(first, lines.number);
    while let Some((line, place, _)) = lines.next_row()? {
        log.line(line, place);
    }
    log.end_session();
    if let (true, Some((line, why))) = (log.runs.is_empty(), log.without_rate) {
        return Err(LogError::Unusable {
            line,
            column: 3,
            why,
        });
    }
    Ok(FrameLog {
        kind: "MSI Afterburner",
        runs: log.runs,
        rejected: log.rejected,
        notes: Vec::new(),
    })
}

#[derive(Default)]
struct Afterburner {
    runs: Vec<FrameRun>,
    current: FrameRun,
    rejected: Rejections,
    /// Column of the rate, from 0, its name, and whether it is a frame time.
    rate: Option<(usize, &'static str, bool)>,
    without_rate: Option<(usize, String)>,
}

impl Afterburner {
    fn line(&mut self, line: &[u8], place: usize) {
        let mut row: Vec<&[u8]> = Vec::new();
        cells(line, b',', |_, cell| {
            row.push(cell.trim_ascii());
            true
        });
        match row.first().copied() {
            Some(b"0" | b"00") => self.end_session(),
            Some(b"2" | b"02") => self.names(&row, place),
            Some(b"80") => self.poll(&row, place),
            // The graphics card, limits of columns, and whatever later versions add.
            _ => {}
        }
    }

    fn names(&mut self, row: &[&[u8]], place: usize) {
        let find = |wanted: &str| {
            row.iter()
                .position(|name| name.eq_ignore_ascii_case(wanted.as_bytes()))
        };
        self.rate = find("Framerate")
            .map(|column| (column, "Framerate", false))
            .or_else(|| find("Frametime").map(|column| (column, "Frametime", true)));
        if self.rate.is_none() {
            let names: Vec<String> = row
                .iter()
                .skip(2)
                .filter(|name| !name.is_empty())
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect();
            self.without_rate = Some((
                place,
                format!(
                    "neither Framerate nor Frametime among: {}",
                    names.join(", ")
                ),
            ));
        }
    }

    fn poll(&mut self, row: &[&[u8]], place: usize) {
        let Some((column, name, is_time)) = self.rate else {
            return;
        };
        let Some(cell) = row.get(column) else {
            self.rejected
                .add(place, row.len(), || format!("the row ends before {name}"));
            return;
        };
        let Some(value) = number(cell, false).filter(|value| is_frame(*value)) else {
            self.rejected.add(place, column + 1, || {
                format!("{name} is `{}`", String::from_utf8_lossy(cell))
            });
            return;
        };
        let fps = if is_time { 1e3 / value } else { value };
        self.current.periods.push(Period { fps, seconds: 1.0 });
        if is_time && self.current.notes.is_empty() {
            self.current
                .notes
                .push("polled frame times stand for their periods: a rough average".to_owned());
        }
    }

    fn end_session(&mut self) {
        let session = std::mem::take(&mut self.current);
        if !session.periods.is_empty() {
            self.runs.push(session);
        }
    }
}

/// Reads the rows below Mesa's header; `fps` and `timing` are the columns of the rate and of the period's length.
pub(super) fn overlay<R: Read>(
    lines: &mut Lines<R>,
    fps: usize,
    timing: Option<usize>,
) -> Result<FrameLog, LogError> {
    let mut run = FrameRun::default();
    let mut rejected = Rejections::default();
    while let Some((line, place, _)) = lines.next_row()? {
        let mut row: Vec<&[u8]> = Vec::new();
        cells(line, b',', |_, cell| {
            row.push(cell);
            true
        });
        if line.trim_ascii().is_empty() || row.iter().any(|cell| cell.trim_ascii() == b"fps") {
            continue;
        }
        let of = |column: usize| {
            let cell = row.get(column)?;
            number(cell, false).filter(|value| is_frame(*value))
        };
        // Without its length each period counts alike: they are set to be of one length.
        let seconds = timing.map_or(Some(1.0), |column| Some(of(column)? / 1e6));
        match (of(fps), seconds) {
            (Some(fps), Some(seconds)) => run.periods.push(Period { fps, seconds }),
            (None, _) => rejected.add(place, fps + 1, || "fps is no rate".to_owned()),
            (_, None) => rejected.add(place, timing.unwrap_or(0) + 1, || {
                "frame_timing(us) is no time".to_owned()
            }),
        }
    }
    Ok(FrameLog {
        kind: "Mesa overlay",
        runs: vec![run],
        rejected,
        notes: Vec::new(),
    })
}
