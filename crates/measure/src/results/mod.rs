//! Results that other programs print: numbers, hyperfine, Criterion, perf stat, glbench, gears, glmark2, vkmark.
//!
//! Each reader takes bytes and gives [`Series`]: one metric with its unit, its direction and its values. A value that
//! cannot be used is counted with the place where it stood ([`Rejected`]), never turned into 0.

mod criterion;
mod hyperfine;
mod lines;
mod numbers;
mod perf;

pub use numbers::Columns;

use crate::judge::Direction;

/// One metric as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name; empty for bare numbers.
    pub metric: String,
    /// Its unit; empty if the file does not say.
    pub unit: String,
    /// Which way is better.
    pub better: Direction,
    /// Its values in the file's order.
    pub values: Vec<f64>,
    /// Whether the values are repeats within one run (true) or runs (false).
    pub are_repeats: bool,
    /// What must be said of them: warm-up lines, rounded numbers, multiplexed counters.
    pub notes: Vec<String>,
}

impl Series {
    fn new(metric: &str, unit: &str, better: Direction) -> Self {
        Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            better,
            values: Vec::new(),
            are_repeats: false,
            notes: Vec::new(),
        }
    }

    fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }
}

/// A place in a file that was left out, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejected {
    /// Line, from 1.
    pub line: usize,
    /// Column of the cell, from 1 (in cells, not characters).
    pub column: usize,
    /// What was wrong.
    pub why: String,
}

/// The first few rejections, and how many there were in all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rejections {
    /// How many.
    pub count: usize,
    /// The first ones.
    pub first: Vec<Rejected>,
}

/// So many rejections are kept with their place.
const SHOWN_MAX: usize = 5;

impl Rejections {
    /// Counts one more.
    pub fn add(&mut self, line: usize, column: usize, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(Rejected {
                line,
                column,
                why: why(),
            });
        }
    }

    /// Goes on with what was rejected later in the file, `lines` lines further down.
    pub(crate) fn join(&mut self, later: Self, lines: usize) {
        self.count += later.count;
        let room = SHOWN_MAX.saturating_sub(self.first.len());
        let later = later.first.into_iter().take(room);
        self.first.extend(later.map(|rejected| Rejected {
            line: rejected.line + lines,
            ..rejected
        }));
    }

    /// One line for a report; `None` if nothing was rejected.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        let first = self.first.first()?;
        let what = if self.count == 1 {
            "value or row was"
        } else {
            "values or rows were"
        };
        Some(format!(
            "{} {what} left out, first at line {}, column {}: {}",
            self.count, first.line, first.column, first.why
        ))
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Which kind of file it is, in words.
    pub kind: &'static str,
    /// Its metrics.
    pub series: Vec<Series>,
    /// What was left out.
    pub rejected: Rejections,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing in it is a result that this program knows.
    #[error("line {line}, column {column}: {why}")]
    Unusable {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was expected or found.
        why: String,
    },
    /// It is empty, or holds headers only.
    #[error("there is no value in it")]
    Empty,
}

/// Reads a file of results of any known kind.
///
/// # Errors
///
/// [`ReadError::Unusable`] with the place of the first thing that fits no kind; [`ReadError::Empty`].
pub fn read(bytes: &[u8], columns: &Columns) -> Result<Results, ReadError> {
    if let Some(archive) = crate::encoding::archive(bytes) {
        return Err(ReadError::Unusable {
            line: 1,
            column: 1,
            why: archive.to_owned(),
        });
    }
    let text = crate::encoding::text(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let start = text.trim_start();
    let found = if start.starts_with('{') {
        json(start)?
    } else if let Some(found) = lines::read(text) {
        found
    } else if let Some(found) = criterion::read_csv(text) {
        found
    } else if let Some(found) = perf::read_lines(text) {
        found
    } else {
        numbers::read(text, columns)?
    };
    if found.series.iter().all(|series| series.values.is_empty()) {
        return match found.rejected.first.first() {
            Some(first) => Err(ReadError::Unusable {
                line: first.line,
                column: first.column,
                why: first.why.clone(),
            }),
            None => Err(ReadError::Empty),
        };
    }
    Ok(found)
}

/// The kinds that are JSON: one object, or one per line.
fn json(text: &str) -> Result<Results, ReadError> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(whole) => {
            let single = std::slice::from_ref(&whole);
            hyperfine::read(&whole)
                .or_else(|| criterion::read_sample(&whole))
                .or_else(|| perf::read_json(single))
                .ok_or_else(|| ReadError::Unusable {
                    line: 1,
                    column: 1,
                    why: format!("JSON of no known kind (its keys: {})", keys(&whole)),
                })
        }
        Err(error) => {
            let rows: Vec<_> = text
                .lines()
                .map_while(|line| serde_json::from_str(line.trim()).ok())
                .collect();
            perf::read_json(&rows).ok_or_else(|| ReadError::Unusable {
                line: error.line(),
                column: error.column(),
                why: "JSON that breaks off or is damaged".to_owned(),
            })
        }
    }
}

fn keys(value: &serde_json::Value) -> String {
    let keys = value
        .as_object()
        .map(|object| object.keys().take(8).cloned().collect::<Vec<_>>());
    keys.unwrap_or_default().join(", ")
}

/// Finds the series of that name or adds it.
fn series<'a>(
    all: &'a mut Vec<Series>,
    metric: &str,
    unit: &str,
    better: Direction,
) -> Option<&'a mut Series> {
    let place = all
        .iter()
        .position(|series| series.metric == metric)
        .unwrap_or_else(|| {
            all.push(Series::new(metric, unit, better));
            all.len() - 1
        });
    all.get_mut(place)
}
