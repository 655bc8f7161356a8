//! Columns of numbers, as `ministat` reads them, but forgiving: BOM, CRLF, `;` with decimal commas.

use super::{ReadError, Rejections, Results, Series};
use crate::judge::Direction;
use crate::sample::{MAGNITUDE_MAX, can_be_judged};

/// Which column to take, and what separates columns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Columns {
    /// Number of the column, from 1.
    pub column: usize,
    /// Characters that separate columns; runs of them count once.
    pub delimiters: String,
    /// Whether lower or higher numbers are better.
    pub better: Direction,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            column: 1,
            delimiters: " \t".to_owned(),
            better: Direction::Lower,
        }
    }
}

/// Reads one number per line; `#` starts a comment.
///
/// If no line yields a number the first rejected place is the error; if some do, bad lines are counted.
#[expect(
    clippy::unnecessary_wraps,
    reason = "readers of text share a form; the caller checks for emptiness"
)]
pub(super) fn read(text: &str, columns: &Columns) -> Result<Results, ReadError> {
    let mut series = Series::new("", "", columns.better);
    let mut rejected = Rejections::default();
    for (index, line) in text.lines().enumerate() {
        let uses_semicolons = line.contains(';') && !columns.delimiters.contains(';');
        let is_delimiter = |letter: char| {
            columns.delimiters.contains(letter) || (uses_semicolons && letter == ';')
        };
        let mut cells = line
            .trim_end()
            .split(is_delimiter)
            .filter(|cell| !cell.is_empty());
        let mut cells = cells.by_ref().take_while(|cell| !cell.starts_with('#'));
        let Some(cell) = cells.nth(columns.column.saturating_sub(1)) else {
            continue;
        };
        match number(cell) {
            Some(value) if can_be_judged(value) => series.values.push(value),
            Some(value) if value.is_finite() => rejected.add(index + 1, columns.column, || {
                let shown: String = cell.chars().take(40).collect();
                format!("`{shown}` is larger than {MAGNITUDE_MAX:e}")
            }),
            Some(_) => rejected.add(index + 1, columns.column, || {
                format!("`{cell}` is not finite")
            }),
            None => rejected.add(index + 1, columns.column, || {
                let shown: String = cell.chars().take(40).collect();
                format!("`{shown}` is not a number")
            }),
        }
    }
    Ok(Results {
        kind: "numbers",
        series: vec![series],
        rejected,
    })
}

/// A number with a decimal point or comma (`1,5`; not `1,234.5`).
pub(super) fn number(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    cell.parse().ok().or_else(|| {
        let is_single = cell.matches(',').count() == 1 && !cell.contains('.');
        is_single.then(|| cell.replace(',', ".").parse().ok())?
    })
}
