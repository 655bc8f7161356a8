//! A log with a header, or a plain column: its head line by line, its rows in blocks, then milliseconds.

use std::io::Read;

use super::blocks::{self, Block, Parts};
use super::header::{FrameUnit, Layout, Line, classify, headless};
use super::lines::Lines;
use super::periods;
use super::rows::{Group, Rows};
use super::{FrameLog, FrameRun, LogError, Marker, ReadOptions, Unit};
use crate::sample::{median, sum};

/// The kind of a file without a header.
pub(super) const PLAIN: &str = "plain column";

/// Reads the header, then all rows.
pub(super) fn read<R: Read + Send>(
    mut lines: Lines<R>,
    options: &ReadOptions,
) -> Result<FrameLog, LogError> {
    let (layout, first) = match head(&mut lines, options)? {
        Head::Rows(layout, first) => (layout, first),
        Head::Afterburner(first) => return periods::afterburner(&mut lines, &first),
        Head::Overlay(fps, timing) => return periods::overlay(&mut lines, fps, timing),
    };
    let mut whole = Rows::new(&layout, true);
    // The number of lines that came before the rows.
    let before = lines.number - usize::from(first.is_some());
    let (reader, rest) = lines.into_rest();
    let mut carry = first.unwrap_or_default();
    carry.extend_from_slice(&rest);
    let parser = Parser(&layout);
    blocks::parse(reader, carry, &parser, before, &mut |part, lines| {
        whole.join(part, lines);
    })?;
    Ok(finish(whole, &layout))
}

struct Parser<'a>(&'a Layout);

impl<'a> Parts for Parser<'a> {
    type Part = Rows<'a>;

    fn parse(&self, block: Block<'_>) -> Rows<'a> {
        let mut rows = Rows::new(self.0, block.place == 0);
        rows.block(block.bytes);
        rows
    }
}

/// What stands before the rows.
enum Head {
    /// A header, or none: then with the first row as it stood.
    Rows(Layout, Option<Vec<u8>>),
    /// The first line of MSI Afterburner's log.
    Afterburner(Vec<u8>),
    /// Columns of Mesa's overlay.
    Overlay(usize, Option<usize>),
}

/// Looks for the header.
fn head<R: Read>(lines: &mut Lines<R>, options: &ReadOptions) -> Result<Head, LogError> {
    let mut has_preface = false;
    let mut unknown: Option<(usize, String)> = None;
    while let Some((line, number, is_whole)) = lines.next_row()? {
        match classify(line, options.source) {
            Line::Header(layout) => return Ok(Head::Rows(layout, None)),
            Line::Afterburner => return Ok(Head::Afterburner(line.to_vec())),
            Line::Overlay(fps, timing) => return Ok(Head::Overlay(fps, timing)),
            Line::Preface => {}
            Line::MachineNames => {
                has_preface = true;
                lines.next()?;
            }
            Line::Unknown(why) => {
                unknown.get_or_insert((number, why));
            }
            // Rows under columns that are no frames; a header of frames may still come.
            Line::Data if unknown.is_some() => {}
            Line::Data => {
                let layout = headless(line, has_preface, options.column, options.unit);
                let mut line = line.to_vec();
                if is_whole {
                    line.push(b'\n');
                }
                return Ok(Head::Rows(layout, Some(line)));
            }
        }
    }
    let (line, why) = unknown.unwrap_or((1, "nothing that looks like a frame log".to_owned()));
    Err(LogError::Unusable {
        line,
        column: 1,
        why,
    })
}

/// Turns raw values into milliseconds and picks the group with the most time.
fn finish(rows: Rows<'_>, layout: &Layout) -> FrameLog {
    let Rows {
        groups,
        rejected,
        products,
        markers,
        ..
    } = rows;
    let mut notes = layout.notes.clone();
    let unit = match layout.unit {
        FrameUnit::Of(unit) => unit,
        FrameUnit::ByFps => unit_by_fps(&products, &mut notes),
    };
    let mut runs: Vec<FrameRun> = groups
        .into_iter()
        .enumerate()
        .map(|(place, group)| {
            let mut run = group.finish(layout, unit);
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

impl Group {
    fn finish(mut self, layout: &Layout, unit: Unit) -> FrameRun {
        let convert = |value: f64| match unit {
            Unit::Millis | Unit::PeriodFps => value,
            Unit::Micros => value / 1e3,
            Unit::Seconds => value * 1e3,
            Unit::Fps => 1e3 / value,
        };
        if !matches!(unit, Unit::Millis | Unit::PeriodFps) {
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
        let name = self.name();
        FrameRun {
            name,
            frame_ms: self.frames,
            coverage,
            notes,
            periods: Vec::new(),
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
        let (first, first_frame, _) = self.clock.first?;
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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Rows in blocks on several threads are what they are in one piece: groups, clocks, lines, markers, damage.
    #[test]
    fn blocks_give_what_one_piece_gives() {
        let mut random = crate::random::Random::new(11);
        let names = "Application,ProcessID,Dropped,TimeInSeconds,msBetweenPresents\n";
        let mut rows = String::new();
        let mut now = 0.0;
        for row in 0..90_000_u32 {
            let frame = 16.0 + random.uniform();
            now += frame / 1e3;
            match random.below(4_000) {
                0 => rows.push_str("# a scene\n"),
                1 => writeln!(rows, "game,1,0,{now:.4},x").unwrap(),
                // Only in later blocks, so that their lines must be counted on.
                2 if row > 60_000 => {
                    writeln!(rows, "game,1,0,{:.4},{frame:.4}", now - 5.0).unwrap();
                }
                3 => writeln!(rows, "\"other, quoted\",2,1,{now:.4},{frame:.4}").unwrap(),
                4 => rows.push_str("game,1\n\n"),
                _ => writeln!(rows, "game,{},0,{now:.4},{frame:.4}", 1 + row % 3).unwrap(),
            }
        }
        rows.push_str("game,1,0,1.0,16");
        assert!(rows.len() > 2 << 20, "several blocks");
        let options = ReadOptions::default();
        let mut lines = Lines::new(names.as_bytes());
        let Head::Rows(layout, None) = head(&mut lines, &options).unwrap() else {
            panic!("a header");
        };
        let mut whole = Rows::new(&layout, true);
        let mut one = Rows::new(&layout, true);
        one.block(rows.as_bytes());
        whole.join(one, &mut 1);
        let whole = finish(whole, &layout);
        let text = format!("{names}{rows}");
        let blocks = read(Lines::new(text.as_bytes()), &options).unwrap();
        assert_eq!(blocks, whole);
        assert!(blocks.runs[0].markers.len() > 5 && blocks.rejected.count > 5);
        assert!(
            blocks.runs[0]
                .notes
                .iter()
                .any(|note| note.contains("went back"))
        );
    }
}
