//! Rows of a log to runs: one pass, grouped by process and swap chain.

use std::collections::HashMap;
use std::io::Read;

use super::header::{FrameUnit, Layout, Line, Role, classify, headless};
use super::lines::{Lines, cells, number};
use super::{FrameLog, FrameRun, LogError, Marker, ReadOptions, Unit};
use crate::results::Rejections;
use crate::sample::{median, sum};

/// So many products of fps and frame time decide the unit.
const PRODUCTS_MAX: usize = 4_096;

/// Markers are kept for so many processes and swap chains at most: each marker has a place in each of them.
const MARKED_GROUPS_MAX: usize = 64;

/// Clocks beyond it (nanoseconds of thirty thousand years) are none: their differences may be infinite.
const CLOCK_MAX: f64 = 1e21;

/// Reads the header, then all rows.
pub(super) fn read<R: Read>(
    lines: &mut Lines<R>,
    options: &ReadOptions,
) -> Result<FrameLog, LogError> {
    let mut table = None;
    let mut has_preface = false;
    let mut unknown: Option<(usize, String)> = None;
    while let Some(line) = lines.next()? {
        match classify(line, options.source) {
            Line::Header(layout) => {
                table = Some(Table::new(layout));
                break;
            }
            Line::Preface => {}
            Line::MachineNames => {
                has_preface = true;
                lines.next()?;
            }
            Line::Unknown(why) => {
                unknown.get_or_insert((lines.number, why));
            }
            // Rows under columns that are no frames; a header of frames may still come.
            Line::Data if unknown.is_some() => {}
            Line::Data => {
                let line = line.to_vec();
                let mut plain =
                    Table::new(headless(&line, has_preface, options.column, options.unit));
                plain.row(&line, lines.number, lines.is_whole);
                table = Some(plain);
                break;
            }
        }
    }
    let Some(mut table) = table else {
        let (line, why) = unknown.unwrap_or((1, "nothing that looks like a frame log".to_owned()));
        return Err(LogError::Unusable {
            line,
            column: 1,
            why,
        });
    };
    while let Some((line, place, is_whole)) = lines.next_row()? {
        table.row(line, place, is_whole);
    }
    Ok(table.finish())
}

/// One swap chain's frames while they are read.
#[derive(Default)]
struct Group {
    key: Vec<u8>,
    frames: Vec<f64>,
    clock: Clock,
    dropped: usize,
    not_shown: usize,
}

/// What is kept of the clock column.
#[derive(Default)]
struct Clock {
    first: Option<(f64, f64)>,
    last: f64,
    steps_back: usize,
    step_back_line: usize,
    longest: f64,
    longest_line: usize,
    longest_frame: f64,
}

impl Clock {
    fn add(&mut self, now: f64, frame: f64, line: usize) {
        if self.first.is_none() {
            self.first = Some((now, frame));
        } else {
            let step = now - self.last;
            if step < 0.0 {
                self.steps_back += 1;
                if self.steps_back == 1 {
                    self.step_back_line = line;
                }
            } else if step > self.longest {
                (self.longest, self.longest_line, self.longest_frame) = (step, line, frame);
            }
        }
        self.last = now;
    }
}

struct Table {
    layout: Layout,
    groups: Vec<Group>,
    /// Places in `groups` by key: a hostile log has a group per row.
    places: HashMap<Vec<u8>, usize>,
    current: usize,
    rejected: Rejections,
    products: Vec<f64>,
    key: Vec<u8>,
    /// Frames of each group when the marker came, and its text.
    markers: Vec<(Vec<usize>, String)>,
    segment: usize,
    has_frame_column: bool,
    ends_with_clock: bool,
}

/// The cells of a row that matter.
#[derive(Default)]
struct Cells<'a> {
    frame: Option<(usize, &'a [u8])>,
    fps: Option<(usize, &'a [u8])>,
    clock: Option<&'a [u8]>,
    dropped: Option<&'a [u8]>,
    count: usize,
}

impl Table {
    fn new(layout: Layout) -> Self {
        let has_frame_column = layout.columns.iter().any(|(_, role)| *role == Role::Frame);
        Self {
            ends_with_clock: layout.columns.last()
                == Some(&(layout.width.wrapping_sub(1), Role::Clock)),
            layout,
            has_frame_column,
            groups: Vec::new(),
            places: HashMap::new(),
            current: 0,
            rejected: Rejections::default(),
            products: Vec::new(),
            key: Vec::new(),
            markers: Vec::new(),
            segment: 0,
        }
    }

    /// Takes one row, or counts why not.
    fn row(&mut self, line: &[u8], place: usize, is_whole: bool) {
        if line.is_empty() || self.is_marker(line) {
            return;
        }
        // A header in the middle starts another log: another device, another session.
        if line.starts_with(b"fps,") && self.layout.kind == "MangoHud" {
            self.segment += 1;
            return;
        }
        let row = self.split(line, is_whole);
        if !is_whole && row.count < self.layout.width {
            self.rejected
                .add(place, row.count, || "the last row is cut off".to_owned());
            return;
        }
        let Some((column, cell)) = row.frame.or(row.fps.filter(|_| !self.has_frame_column)) else {
            let frame_name = &self.layout.frame_name;
            self.rejected.add(place, row.count, || {
                format!("the row ends before {frame_name}")
            });
            return;
        };
        let comma = self.layout.comma;
        let group = self.group();
        let Some(value) = number(cell, comma).filter(|value| super::is_frame(*value)) else {
            self.reject(place, column, cell, group);
            return;
        };
        if let Some((_, fps)) = row.fps.filter(|_| self.wants_product()) {
            let fps = number(fps, comma).filter(|value| super::is_frame(*value));
            self.products.extend(fps.map(|fps| fps * value));
        }
        let clock = row
            .clock
            .and_then(|cell| number(cell, comma))
            .filter(|now| now.abs() <= CLOCK_MAX);
        if let Some(group) = self.groups.get_mut(group) {
            group.frames.push(value);
            group.dropped += usize::from(row.dropped.is_some_and(|cell| cell.trim_ascii() == b"1"));
            if let Some(now) = clock {
                group.clock.add(now, value, place);
            }
        }
    }

    /// Keeps a line of text among the rows as a marker.
    fn is_marker(&mut self, line: &[u8]) -> bool {
        let Some(text) = line.strip_prefix(b"#").or_else(|| line.strip_prefix(b"//")) else {
            return false;
        };
        if self.markers.len() < super::MARKERS_MAX && self.groups.len() <= MARKED_GROUPS_MAX {
            let text = String::from_utf8_lossy(text);
            let text = text.trim().chars().take(200).collect();
            let seen = self.groups.iter().map(|group| group.frames.len()).collect();
            self.markers.push((seen, text));
        }
        true
    }

    fn wants_product(&self) -> bool {
        self.layout.unit == FrameUnit::ByFps && self.products.len() < PRODUCTS_MAX
    }

    /// A frame that was never shown has no display time; anything else is a damaged cell.
    fn reject(&mut self, place: usize, column: usize, cell: &[u8], group: usize) {
        let cell = cell.trim_ascii();
        let is_nothing =
            cell.eq_ignore_ascii_case(b"NA") || number(cell, self.layout.comma) == Some(0.0);
        if self.layout.is_display && is_nothing {
            if let Some(group) = self.groups.get_mut(group) {
                group.not_shown += 1;
            }
            return;
        }
        let name = &self.layout.frame_name;
        self.rejected.add(place, column + 1, || {
            let shown: String = String::from_utf8_lossy(cell).chars().take(40).collect();
            format!("{name} is `{shown}`")
        });
    }

    /// Picks the cells that matter and leaves the group's key in `self.key`.
    fn split<'a>(&mut self, line: &'a [u8], is_whole: bool) -> Cells<'a> {
        let mut row = Cells::default();
        let mut wanted = self.layout.columns.iter().peekable();
        let key = &mut self.key;
        key.clear();
        if self.segment > 0 {
            key.extend_from_slice(format!("log {} of the file", self.segment + 1).as_bytes());
        }
        let is_spaced = self.layout.delimiter == b' ';
        // Cells are counted only where the row may be cut off. A clock in the last column is found from the end.
        let needs_all = self.layout.width > 0 && !is_whole;
        let ends_with_clock = self.ends_with_clock && is_whole;
        let mut take = |column: usize, cell: &'a [u8]| {
            row.count = column + 1;
            while let Some(&&(place, role)) = wanted.peek() {
                if place != column {
                    break;
                }
                wanted.next();
                match role {
                    Role::Frame => row.frame = Some((column, cell)),
                    Role::Fps => row.fps = Some((column, cell)),
                    Role::Clock => row.clock = Some(cell),
                    Role::Dropped => row.dropped = Some(cell),
                    Role::Application | Role::Process | Role::Chain => {
                        if !key.is_empty() {
                            key.push(b' ');
                        }
                        key.extend_from_slice(cell);
                    }
                }
            }
            match wanted.peek() {
                Some((_, Role::Clock)) => !ends_with_clock,
                Some(_) => true,
                None => needs_all,
            }
        };
        if is_spaced {
            let words = line
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty());
            for (column, word) in words.enumerate() {
                if !take(column, word) {
                    break;
                }
            }
        } else {
            cells(line, self.layout.delimiter, take);
        }
        if ends_with_clock && row.clock.is_none() {
            let start = memchr::memrchr(self.layout.delimiter, line).map_or(0, |place| place + 1);
            row.clock = line.get(start..);
        }
        row
    }

    /// The group of the row that was split last.
    fn group(&mut self) -> usize {
        let is_current = |group: &Group| group.key == self.key;
        if self.groups.get(self.current).is_some_and(is_current) {
            return self.current;
        }
        self.current = if let Some(place) = self.places.get(&self.key) {
            *place
        } else {
            let place = self.groups.len();
            self.places.insert(self.key.clone(), place);
            self.groups.push(Group {
                key: self.key.clone(),
                ..Group::default()
            });
            place
        };
        self.current
    }

    /// Turns raw values into milliseconds and picks the group with the most time.
    fn finish(self) -> FrameLog {
        let Self {
            layout,
            groups,
            rejected,
            products,
            markers,
            ..
        } = self;
        let mut notes = layout.notes.clone();
        let unit = match layout.unit {
            FrameUnit::Of(unit) => unit,
            FrameUnit::ByFps => unit_by_fps(&products, &mut notes),
        };
        let mut runs: Vec<FrameRun> = groups
            .into_iter()
            .enumerate()
            .map(|(place, group)| {
                let mut run = group.finish(&layout, unit);
                run.markers = of_group(&markers, place);
                run
            })
            .collect();
        let total = |run: &FrameRun| sum(run.frame_ms.iter().copied());
        runs.sort_by(|x, y| total(y).total_cmp(&total(x)));
        for other in runs
            .iter()
            .skip(1)
            .filter(|run| !run.frame_ms.is_empty())
            .take(8)
        {
            notes.push(format!(
                "left out: {} with {} frames",
                other.name,
                other.frame_ms.len()
            ));
        }
        if runs.len() > 9 {
            notes.push(format!(
                "left out: {} more processes or swap chains",
                runs.len() - 9
            ));
        }
        runs.truncate(1);
        if let Some(run) = runs.first_mut() {
            run.notes.extend(
                notes
                    .iter()
                    .filter(|note| !note.starts_with("left out"))
                    .cloned(),
            );
        }
        notes.retain(|note| note.starts_with("left out"));
        FrameLog {
            kind: layout.kind,
            runs,
            rejected,
            notes,
        }
    }
}

impl Group {
    fn finish(mut self, layout: &Layout, unit: Unit) -> FrameRun {
        let convert = |value: f64| match unit {
            Unit::Millis => value,
            Unit::Micros => value / 1e3,
            Unit::Seconds => value * 1e3,
            Unit::Fps => 1e3 / value,
        };
        if unit != Unit::Millis {
            for frame in &mut self.frames {
                *frame = convert(*frame);
            }
        }
        let mut notes = Vec::new();
        if self.dropped > 0 {
            notes.push(format!(
                "{} frames were dropped (presented, never shown)",
                self.dropped
            ));
        }
        if self.not_shown > 0 {
            notes.push(format!(
                "{} frames were never shown and have no display time",
                self.not_shown
            ));
        }
        let coverage = self.coverage(layout, &convert, &mut notes);
        if super::alternates(&self.frames) {
            notes.push(
                "suspicious: very short presents alternate with long ones (limiter with mailbox, frame generation); \
                 see --display and --merge-short"
                    .to_owned(),
            );
        }
        let name = String::from_utf8_lossy(&self.key).into_owned();
        FrameRun {
            name,
            frame_ms: self.frames,
            coverage,
            notes,
            markers: Vec::new(),
        }
    }

    /// Share of the clock's span that the frames cover, in the clock unit that fits; clock trouble goes to the notes.
    fn coverage(
        &self,
        layout: &Layout,
        convert: &dyn Fn(f64) -> f64,
        notes: &mut Vec<String>,
    ) -> Option<f64> {
        if self.clock.steps_back > 0 {
            notes.push(format!(
                "the clock went back {} times, first at line {}",
                self.clock.steps_back, self.clock.step_back_line
            ));
            return None;
        }
        let (first, first_frame) = self.clock.first?;
        let span = self.clock.last - first;
        if span <= 0.0 || self.frames.len() < 2 {
            return None;
        }
        let frames_ms = sum(self.frames.iter().copied());
        let first_ms = convert(first_frame);
        let share = |unit: f64| frames_ms / (span * unit + first_ms);
        // The largest unit in which the frames do not cover much more than there was.
        let mut units = layout.clock_units.to_vec();
        units.sort_by(f64::total_cmp);
        let unit = units.into_iter().find(|&unit| share(unit) < 2.0)?;
        let gap_ms = self.clock.longest * unit;
        let coverage = share(unit);
        // A pause or suspend: one step far longer than its frame in a log that otherwise has all of them.
        let without_gap =
            frames_ms / (span * unit - gap_ms + first_ms + convert(self.clock.longest_frame));
        if gap_ms > 1_000.0
            && gap_ms > 10.0 * convert(self.clock.longest_frame)
            && without_gap > coverage
        {
            notes.push(format!(
                "a gap of {:.1} s at line {}: a pause or suspend, not a frame",
                gap_ms / 1e3,
                self.clock.longest_line
            ));
            return Some(without_gap);
        }
        Some(coverage)
    }
}

/// The markers as the group at `place` saw them: one that came before its first row lies before frame 0.
fn of_group(markers: &[(Vec<usize>, String)], place: usize) -> Vec<Marker> {
    let marker = |(seen, text): &(Vec<usize>, String)| Marker {
        frame: seen.get(place).copied().unwrap_or(0),
        text: text.clone(),
    };
    markers.iter().map(marker).collect()
}

/// fps times frame time is about 1 000 for milliseconds and 1 000 000 for microseconds.
fn unit_by_fps(products: &[f64], notes: &mut Vec<String>) -> Unit {
    let product = median(products);
    if product > 31_623.0 {
        notes.push("frame times are microseconds (MangoHud up to 0.6.8)".to_owned());
        Unit::Micros
    } else {
        Unit::Millis
    }
}
