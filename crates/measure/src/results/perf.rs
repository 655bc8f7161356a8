//! `perf stat -x` and `perf stat -j`: one series per event, one value per run.

use serde_json::Value;

use super::numbers::number;
use super::{Rejections, Results, Series, series};
use crate::judge::Direction;
use crate::sample::can_be_judged;

/// Reads `[time][,cpu]value,unit,event,...` lines with `,` or `;`; `None` if no line looks like one.
pub(super) fn read_lines(text: &str) -> Option<Results> {
    let mut all: Vec<Series> = Vec::new();
    let mut rejected = Rejections::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let delimiter = if line.contains(';') { ';' } else { ',' };
        let cells: Vec<&str> = line.split(delimiter).map(str::trim).collect();
        // Lines of extra metrics have empty cells where value, unit and event stand.
        if cells.len() >= 4 && cells.iter().take(3).all(|cell| cell.is_empty()) {
            continue;
        }
        // The event is the first cell that looks like one; value and unit stand before it.
        let place = cells
            .iter()
            .position(|cell| is_event(cell))
            .filter(|&place| place >= 2);
        let place = place.filter(|_| cells.len() >= 4)?;
        let cell = |index: usize| cells.get(index).copied().unwrap_or("");
        add(
            &mut all,
            &mut rejected,
            index + 1,
            place,
            [cell(place - 2), cell(place - 1), cell(place)],
        );
        let share = cells.get(place + 1..).unwrap_or_default();
        // With -r the spread stands first, as a percentage.
        let running = share
            .iter()
            .filter(|cell| !cell.ends_with('%'))
            .nth(1)
            .and_then(|cell| number(cell));
        note_share(all.last_mut(), running);
    }
    (!all.is_empty()).then_some(Results {
        kind: "perf stat -x",
        series: all,
        rejected,
    })
}

/// Reads the objects of `perf stat -j`.
pub(super) fn read_json(rows: &[Value]) -> Option<Results> {
    let mut all: Vec<Series> = Vec::new();
    let mut rejected = Rejections::default();
    for (index, row) in rows.iter().enumerate() {
        let value = row.get("counter-value");
        let (Some(value), Some(event)) = (value, row.get("event").and_then(Value::as_str)) else {
            continue;
        };
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let unit = row.get("unit").and_then(Value::as_str).unwrap_or("");
        add(&mut all, &mut rejected, index + 1, 1, [&text, unit, event]);
        note_share(
            all.last_mut(),
            row.get("pcnt-running").and_then(Value::as_f64),
        );
    }
    (!all.is_empty()).then_some(Results {
        kind: "perf stat -j",
        series: all,
        rejected,
    })
}

fn add(
    all: &mut Vec<Series>,
    rejected: &mut Rejections,
    line: usize,
    column: usize,
    [value, unit, event]: [&str; 3],
) {
    let (scale, unit) = match unit {
        "msec" => (1e-3, "s"),
        "Joules" => (1.0, "J"),
        other => (1.0, other),
    };
    let Some(series) = series(all, event, unit, Direction::Lower) else {
        return;
    };
    if let Some(value) = number(value).filter(|value| can_be_judged(*value)) {
        series.values.push(value * scale);
    } else {
        series.note(&format!("unavailable: {value}"));
        rejected.add(line, column.max(1), || format!("{event}: {value}"));
    }
}

fn note_share(series: Option<&mut Series>, running: Option<f64>) {
    if let (Some(series), Some(running)) = (series, running)
        && running < 99.99
        && running > 0.0
    {
        series.note(&format!(
            "an estimate: the counter ran {running} % of the time"
        ));
    }
}

/// Event names start with a letter and hold none of the characters of values, units and comments.
fn is_event(cell: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/=".contains(letter);
    let is_unit = matches!(
        cell,
        "msec" | "ns" | "Joules" | "MiB" | "CPUs utilized" | "C" | "W" | "GHz" | "K/sec" | "M/sec"
    );
    // `S0` and `CPU3` are places, not events.
    let is_place = cell
        .trim_start_matches(['S', 'C', 'P', 'U', 'D', '-'])
        .chars()
        .all(|c| c.is_ascii_digit());
    cell.len() > 1
        && cell.starts_with(|first: char| first.is_ascii_alphabetic())
        && cell.chars().all(is_name)
        && !is_unit
        && !is_place
}
