//! Rows of a block to frames: which cells matter, what is rejected, which group a row belongs to.

use std::collections::HashMap;

use super::header::{FrameUnit, Layout, Role};
use super::lines::{cells, number};
use super::{MARKERS_MAX, is_frame};
use crate::results::Rejections;

/// So many products of fps and frame time decide the unit.
const PRODUCTS_MAX: usize = 4_096;

/// Clocks beyond it (nanoseconds of thirty thousand years) are none: their differences may be infinite.
const CLOCK_MAX: f64 = 1e21;

/// Markers are kept for so many processes and swap chains at most: each marker has a place in each of them.
const MARKED_GROUPS_MAX: usize = 64;

/// Bytes of a group's key that number the log of the file it belongs to.
const SEGMENT: usize = 8;

/// One swap chain's frames while they are read.
#[derive(Default)]
pub(super) struct Group {
    /// Number of the log within the file (8 bytes), then the cells that name the group.
    key: Vec<u8>,
    pub(super) frames: Vec<f64>,
    pub(super) clock: Clock,
    pub(super) dropped: usize,
    pub(super) not_shown: usize,
}

impl Group {
    /// The group's name for people.
    pub(super) fn name(&self) -> String {
        let (segment, cells) = split_key(&self.key);
        let cells = String::from_utf8_lossy(cells);
        match (segment, cells.as_ref()) {
            (0, cells) => cells.to_owned(),
            (segment, "") => format!("log {} of the file", segment + 1),
            (segment, cells) => format!("log {} of the file {cells}", segment + 1),
        }
    }
}

fn split_key(key: &[u8]) -> (u64, &[u8]) {
    key.split_first_chunk::<SEGMENT>()
        .map_or((0, key), |(segment, cells)| {
            (u64::from_le_bytes(*segment), cells)
        })
}

/// What is kept of the clock column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Clock {
    /// Time, frame and line of the first row.
    pub(super) first: Option<(f64, f64, usize)>,
    pub(super) last: f64,
    pub(super) steps_back: usize,
    pub(super) step_back_line: usize,
    pub(super) longest: f64,
    pub(super) longest_line: usize,
    pub(super) longest_frame: f64,
}

impl Clock {
    fn add(&mut self, now: f64, frame: f64, line: usize) {
        if self.first.is_none() {
            self.first = Some((now, frame, line));
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

    /// Goes on with what `later` has seen, `lines` lines further down.
    fn join(&mut self, later: Self, lines: usize) {
        let Some((now, frame, line)) = later.first else {
            return;
        };
        self.add(now, frame, line + lines);
        if self.steps_back == 0 {
            self.step_back_line = later.step_back_line + lines;
        }
        self.steps_back += later.steps_back;
        if later.longest > self.longest {
            self.longest = later.longest;
            self.longest_line = later.longest_line + lines;
            self.longest_frame = later.longest_frame;
        }
        self.last = later.last;
    }
}

/// What rows gave so far. Lines are counted from 1 within the rows that were given.
pub(super) struct Rows<'a> {
    layout: &'a Layout,
    pub(super) groups: Vec<Group>,
    /// Places in `groups` by key: a hostile log has a group per row.
    places: HashMap<Vec<u8>, usize>,
    current: usize,
    pub(super) rejected: Rejections,
    pub(super) products: Vec<f64>,
    key: Vec<u8>,
    /// Frames of each group when the marker came, and its text.
    pub(super) markers: Vec<(Vec<usize>, String)>,
    segment: u64,
    has_frame_column: bool,
    ends_with_clock: bool,
    wants_products: bool,
    has_quotes: bool,
    lines: usize,
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

impl<'a> Rows<'a> {
    /// No rows yet. Only a log's first rows need to be looked at for their unit.
    pub(super) fn new(layout: &'a Layout, wants_products: bool) -> Self {
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
            key: vec![0; SEGMENT],
            markers: Vec::new(),
            segment: 0,
            wants_products: wants_products && layout.unit == FrameUnit::ByFps,
            has_quotes: false,
            lines: 0,
        }
    }

    /// Takes all lines of `block`; only the file's last line may lack its line feed.
    pub(super) fn block(&mut self, block: &[u8]) {
        self.has_quotes = memchr::memchr(b'"', block).is_some();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', block) {
            self.line(block.get(start..end).unwrap_or_default(), true);
            start = end + 1;
        }
        if let Some(rest) = block.get(start..).filter(|rest| !rest.is_empty()) {
            self.line(rest, false);
        }
    }

    fn line(&mut self, line: &[u8], is_whole: bool) {
        self.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.row(line, self.lines, is_whole);
    }

    /// Takes one row, or counts why not.
    fn row(&mut self, line: &[u8], place: usize, is_whole: bool) {
        let Some(&first) = line.first() else {
            return;
        };
        if matches!(first, b'#' | b'/') && self.is_marker(line) {
            return;
        }
        // A header in the middle starts another log: another device, another session.
        if first == b'f' && line.starts_with(b"fps,") && self.layout.kind == "MangoHud" {
            self.segment += 1;
            self.key.clear();
            self.key.extend_from_slice(&self.segment.to_le_bytes());
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
        let Some(value) = number(cell, comma).filter(|value| is_frame(*value)) else {
            self.reject(place, column, cell, group);
            return;
        };
        if self.wants_products
            && let Some((_, fps)) = row.fps
        {
            let fps = number(fps, comma).filter(|value| is_frame(*value));
            self.products.extend(fps.map(|fps| fps * value));
            self.wants_products = self.products.len() < PRODUCTS_MAX;
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
        if self.markers.len() < MARKERS_MAX && self.groups.len() <= MARKED_GROUPS_MAX {
            let text = String::from_utf8_lossy(text);
            let text = text.trim().chars().take(200).collect();
            let seen = self.groups.iter().map(|group| group.frames.len()).collect();
            self.markers.push((seen, text));
        }
        true
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
    fn split<'b>(&mut self, line: &'b [u8], is_whole: bool) -> Cells<'b> {
        self.key.truncate(SEGMENT);
        let is_spaced = self.layout.delimiter == b' ';
        let is_quoted = self.has_quotes && memchr::memchr(b'"', line).is_some();
        let mut row = if is_spaced || is_quoted || !is_whole {
            self.split_any(line, is_spaced, is_whole)
        } else {
            self.split_plain(line)
        };
        if self.ends_with_clock && is_whole && row.clock.is_none() {
            let start = memchr::memrchr(self.layout.delimiter, line).map_or(0, |place| place + 1);
            row.clock = line.get(start..);
        }
        row
    }

    /// The fast way: no quotes, one byte between cells, nothing looked at beyond the last wanted cell.
    fn split_plain<'b>(&mut self, line: &'b [u8]) -> Cells<'b> {
        let mut row = Cells::default();
        let mut ends = memchr::memchr_iter(self.layout.delimiter, line);
        let (mut from, mut column) = (0, 0);
        for &(place, role) in &self.layout.columns {
            if role == Role::Clock && self.ends_with_clock {
                break;
            }
            let end = loop {
                let end = ends.next();
                if column == place {
                    break end.unwrap_or(line.len());
                }
                let Some(end) = end else {
                    row.count = column + 1;
                    return row;
                };
                column += 1;
                from = end + 1;
            };
            let cell = line.get(from..end).unwrap_or_default();
            row.take(role, column, cell, &mut self.key);
            if end == line.len() {
                break;
            }
            column += 1;
            from = end + 1;
        }
        row
    }

    /// Quotes, white space between cells, or a last row whose cells must be counted.
    fn split_any<'b>(&mut self, line: &'b [u8], is_spaced: bool, is_whole: bool) -> Cells<'b> {
        let mut row = Cells::default();
        let mut wanted = self.layout.columns.iter().peekable();
        let key = &mut self.key;
        // Cells are counted only where the row may be cut off. A clock in the last column is found from the end.
        let needs_all = self.layout.width > 0 && !is_whole;
        let ends_with_clock = self.ends_with_clock && is_whole;
        let mut take = |column: usize, cell: &'b [u8]| {
            row.count = column + 1;
            while let Some(&&(place, role)) = wanted.peek() {
                if place != column {
                    break;
                }
                wanted.next();
                row.take(role, column, cell, key);
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
        row
    }

    /// The group of the row that was split last.
    fn group(&mut self) -> usize {
        let is_current = |group: &Group| group.key == self.key;
        if self.groups.get(self.current).is_some_and(is_current) {
            return self.current;
        }
        let key = std::mem::take(&mut self.key);
        self.current = self.place(&key);
        self.key = key;
        self.current
    }

    fn place(&mut self, key: &[u8]) -> usize {
        if let Some(place) = self.places.get(key) {
            return *place;
        }
        let place = self.groups.len();
        self.places.insert(key.to_vec(), place);
        self.groups.push(Group {
            key: key.to_vec(),
            ..Group::default()
        });
        place
    }

    /// Goes on with what later rows of the same file gave; `lines` lines of the file came before those.
    pub(super) fn join(&mut self, later: Self, lines: &mut usize) {
        self.rejected.join(later.rejected, *lines);
        let room = PRODUCTS_MAX.saturating_sub(self.products.len());
        self.products.extend(later.products.iter().take(room));
        let mut before = Vec::new();
        if !later.markers.is_empty() {
            before.extend(self.groups.iter().map(|group| group.frames.len()));
        }
        let mut places = Vec::with_capacity(later.groups.len());
        for mut group in later.groups {
            let (segment, cells) = split_key(&group.key);
            let segment = segment.saturating_add(self.segment);
            let mut key = segment.to_le_bytes().to_vec();
            key.extend_from_slice(cells);
            let place = self.place(&key);
            places.push(place);
            if let Some(known) = self.groups.get_mut(place) {
                if known.frames.is_empty() {
                    std::mem::swap(&mut known.frames, &mut group.frames);
                } else {
                    known.frames.extend_from_slice(&group.frames);
                }
                known.clock.join(group.clock, *lines);
                known.dropped += group.dropped;
                known.not_shown += group.not_shown;
            }
        }
        for (seen, text) in later.markers {
            if self.markers.len() >= MARKERS_MAX || self.groups.len() > MARKED_GROUPS_MAX {
                break;
            }
            let mut all = before.clone();
            all.resize(self.groups.len(), 0);
            for (place, frames) in places.iter().zip(seen) {
                if let Some(count) = all.get_mut(*place) {
                    *count += frames;
                }
            }
            self.markers.push((all, text));
        }
        self.segment = self.segment.saturating_add(later.segment);
        *lines += later.lines;
    }
}

impl<'a> Cells<'a> {
    fn take(&mut self, role: Role, column: usize, cell: &'a [u8], key: &mut Vec<u8>) {
        self.count = column + 1;
        match role {
            Role::Frame => self.frame = Some((column, cell)),
            Role::Fps => self.fps = Some((column, cell)),
            Role::Clock => self.clock = Some(cell),
            Role::Dropped => self.dropped = Some(cell),
            Role::Application | Role::Process | Role::Chain => {
                if key.len() > SEGMENT {
                    key.push(b' ');
                }
                key.extend_from_slice(cell);
            }
        }
    }
}
