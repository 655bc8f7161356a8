//! Streams of create, attach, transfer and detach, recorded from a real guest and played again.
//!
//! One event per line, after the line `towpath-texture-trace 1`; numbers are decimal, addresses hexadecimal:
//!
//! ```text
//! create  ID DIMENSION BLOCK_WIDTH BLOCK_HEIGHT BLOCK_BYTES WIDTH HEIGHT DEPTH LAYERS LEVELS
//! attach  ID ADDRESS+BYTES ...
//! upload  ID LEVEL X Y Z WIDTH HEIGHT DEPTH OFFSET STRIDE LAYER_STRIDE
//! download (the same)
//! detach  ID
//! unref   ID
//! ```
//!
//! A trace holds no texels. A player gives it [memory](Layout) in which pieces lie as they lay, neighbours
//! beside each other, and leaves out what the guest did not touch.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::backing::Entry;
use super::plan::{Direction, Region, Request};
use super::shape::{Dimension, Format, Texture};

/// One event.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a player must handle each")]
pub enum Event {
    /// A texture is made.
    Create(u32, Texture),
    /// A list of pieces is attached.
    Attach(u32, Vec<Entry>),
    /// Bytes move.
    Transfer(u32, Request),
    /// The list is taken away.
    Detach(u32),
    /// The texture ends.
    Unref(u32),
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first line is another.
    #[error("not a texture trace of version 1")]
    NotATrace,
    /// A line is not one of the events.
    #[error("line {line} is no event")]
    Line {
        /// Which, from 1.
        line: usize,
    },
}

/// The first line of a trace.
pub const HEADER: &str = "towpath-texture-trace 1";

/// Reads a trace.
///
/// # Errors
///
/// [`Error`], with the line.
pub fn parse(text: &str) -> Result<Vec<Event>, Error> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(Error::NotATrace);
    }
    lines
        .zip(2..)
        .filter(|(text, _)| !text.trim().is_empty())
        .map(|(text, line)| event(text).ok_or(Error::Line { line }))
        .collect()
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(id, texture) => {
                let format = texture.format;
                let (across, down) = (format.block_width(), format.block_height());
                let (bytes, name) = (format.block_bytes(), name(texture.dimension));
                write!(f, "create {id} {name} {across} {down} {bytes}")?;
                let (width, height, depth) = (texture.width, texture.height, texture.depth);
                write!(
                    f,
                    " {width} {height} {depth} {} {}",
                    texture.layers, texture.levels
                )
            }
            Self::Attach(id, entries) => {
                write!(f, "attach {id}")?;
                entries
                    .iter()
                    .try_for_each(|entry| write!(f, " {:x}+{}", entry.address, entry.len))
            }
            Self::Transfer(id, request) => {
                let verb = match request.direction {
                    Direction::Upload => "upload",
                    Direction::Download => "download",
                };
                let r = &request.region;
                write!(f, "{verb} {id} {} {} {} {}", request.level, r.x, r.y, r.z)?;
                write!(
                    f,
                    " {} {} {} {}",
                    r.width, r.height, r.depth, request.offset
                )?;
                write!(f, " {} {}", request.stride, request.layer_stride)
            }
            Self::Detach(id) => write!(f, "detach {id}"),
            Self::Unref(id) => write!(f, "unref {id}"),
        }
    }
}

fn event(text: &str) -> Option<Event> {
    let mut words = text.split_ascii_whitespace();
    let verb = words.next()?;
    let id = words.next()?.parse().ok()?;
    match verb {
        "create" => Some(Event::Create(id, texture(words)?)),
        "attach" => Some(Event::Attach(id, words.map(piece).collect::<Option<_>>()?)),
        "upload" => Some(Event::Transfer(id, request(words, Direction::Upload)?)),
        "download" => Some(Event::Transfer(id, request(words, Direction::Download)?)),
        "detach" if words.next().is_none() => Some(Event::Detach(id)),
        "unref" if words.next().is_none() => Some(Event::Unref(id)),
        _ => None,
    }
}

fn texture<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Texture> {
    let dimension = dimension(words.next()?)?;
    let [across, down, bytes, width, height, depth, layers, levels] = numbers(words)?;
    let texture = Texture {
        dimension,
        format: Format::blocks(narrow(across)?, narrow(down)?, narrow(bytes)?).ok()?,
        width: narrow(width)?,
        height: narrow(height)?,
        depth: narrow(depth)?,
        layers: narrow(layers)?,
        levels: narrow(levels)?,
        samples: 1,
    };
    texture.check().ok()?;
    Some(texture)
}

fn piece(word: &str) -> Option<Entry> {
    let (address, len) = word.split_once('+')?;
    Some(Entry {
        address: u64::from_str_radix(address, 16).ok()?,
        len: len.parse().ok()?,
    })
}

fn request<'a>(words: impl Iterator<Item = &'a str>, direction: Direction) -> Option<Request> {
    let [
        level,
        x,
        y,
        z,
        width,
        height,
        depth,
        offset,
        stride,
        layer_stride,
    ] = numbers(words)?;
    let region = Region {
        x: narrow(x)?,
        y: narrow(y)?,
        z: narrow(z)?,
        width: narrow(width)?,
        height: narrow(height)?,
        depth: narrow(depth)?,
    };
    Some(Request {
        level: narrow(level)?,
        region,
        offset,
        stride,
        layer_stride,
        direction,
    })
}

fn narrow(value: u64) -> Option<u32> {
    u32::try_from(value).ok()
}

fn numbers<'a, const N: usize>(mut words: impl Iterator<Item = &'a str>) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some(numbers)
}

const NAMES: [(Dimension, &str); 9] = [
    (Dimension::Buffer, "buffer"),
    (Dimension::D1, "1d"),
    (Dimension::D1Array, "1d-array"),
    (Dimension::D2, "2d"),
    (Dimension::Rectangle, "rectangle"),
    (Dimension::D2Array, "2d-array"),
    (Dimension::Cube, "cube"),
    (Dimension::CubeArray, "cube-array"),
    (Dimension::D3, "3d"),
];

fn name(dimension: Dimension) -> &'static str {
    let found = NAMES.iter().find(|(known, _)| *known == dimension);
    found.map_or("2d", |(_, name)| name)
}

fn dimension(text: &str) -> Option<Dimension> {
    let found = NAMES.iter().find(|(_, name)| *name == text);
    found.map(|(dimension, _)| *dimension)
}

/// Where the pieces of a trace lie in a player's memory: pages in the guest's order, with what the guest
/// did not touch left out, and a page between runs that were no neighbours.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Start of each run of pages in the guest, and in the player's memory.
    runs: BTreeMap<u64, (u64, u64)>,
    bytes: u64,
}

impl Layout {
    /// The layout of all lists of a trace. Pieces past the end of 64 bits are left out.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let lists = events.iter().filter_map(|event| match event {
            Event::Attach(_, entries) => Some(entries),
            _ => None,
        });
        let mut ranges: Vec<(u64, u64)> = lists
            .flatten()
            .filter(|entry| entry.len > 0)
            .filter_map(|entry| {
                let end = entry.address.checked_add(entry.len)?;
                let end = end.checked_next_multiple_of(PAGE)?;
                Some((entry.address / PAGE * PAGE, end))
            })
            .collect();
        ranges.sort_unstable();
        let mut layout = Self::default();
        let mut current: Option<(u64, u64)> = None;
        for (start, end) in ranges {
            current = match current {
                Some((from, to)) if start <= to => Some((from, to.max(end))),
                Some(done) => {
                    layout.add(done);
                    Some((start, end))
                }
                None => Some((start, end)),
            };
        }
        if let Some(done) = current {
            layout.add(done);
        }
        layout
    }

    /// Bytes of memory that a player needs.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A list in the player's addresses.
    #[must_use]
    pub fn map(&self, entries: &[Entry]) -> Vec<Entry> {
        entries
            .iter()
            .filter_map(|entry| {
                let (start, (end, at)) = self.runs.range(..=entry.address).next_back()?;
                let is_inside = entry.address.checked_add(entry.len)? <= *end;
                is_inside.then(|| Entry {
                    address: at + (entry.address - start),
                    len: entry.len,
                })
            })
            .collect()
    }

    fn add(&mut self, (start, end): (u64, u64)) {
        let len = end - start;
        if let Some(next) = self
            .bytes
            .checked_add(len)
            .and_then(|sum| sum.checked_add(PAGE))
        {
            self.runs.insert(start, (end, self.bytes));
            self.bytes = next;
        }
    }
}

/// What a trace holds, counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// Textures made.
    pub textures: usize,
    /// Transfers.
    pub transfers: usize,
    /// Most transfers through one list.
    pub reuse_max: usize,
}

/// Counts what a trace holds.
#[must_use]
pub fn summary(events: &[Event]) -> Summary {
    let mut uses: HashMap<u32, usize> = HashMap::new();
    let mut summary = Summary::default();
    for event in events {
        match event {
            Event::Create(..) => summary.textures += 1,
            Event::Attach(id, _) => {
                uses.insert(*id, 0);
            }
            Event::Transfer(id, _) => {
                summary.transfers += 1;
                let count = uses.entry(*id).or_insert(0);
                *count += 1;
                summary.reuse_max = summary.reuse_max.max(*count);
            }
            Event::Detach(_) | Event::Unref(_) => {}
        }
    }
    summary
}

const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<Event> {
        let texture = Texture::picture(Format::RGBA8, 64, 32);
        let entries = [(0x7f00_0000, 4096), (0x7f00_1000, 100), (0x1000, 5000)]
            .map(|(address, len)| Entry { address, len });
        let mut request = Request::picture(64, 32, Direction::Download);
        request.stride = 300;
        vec![
            Event::Create(7, texture),
            Event::Attach(7, entries.to_vec()),
            Event::Transfer(7, request),
            Event::Detach(7),
            Event::Unref(7),
        ]
    }

    fn text(events: &[Event]) -> String {
        let lines = events.iter().map(ToString::to_string);
        std::iter::once(HEADER.to_owned())
            .chain(lines)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn what_was_written_is_read() {
        let events = example();
        assert_eq!(parse(&text(&events)).unwrap(), events);
        let seen = summary(&events);
        assert_eq!((seen.textures, seen.transfers, seen.reuse_max), (1, 1, 1));
    }

    #[test]
    fn pieces_lie_as_they_lay() {
        let events = example();
        let layout = Layout::of(&events);
        let Event::Attach(_, entries) = &events[1] else {
            panic!("an attach");
        };
        let mapped = layout.map(entries);
        assert_eq!(mapped.len(), 3);
        assert_eq!(mapped[0].address + 4096, mapped[1].address, "neighbours");
        assert!(
            mapped
                .iter()
                .all(|entry| entry.address + entry.len <= layout.bytes())
        );
        assert_eq!(layout.bytes(), (2 + 1 + 2 + 1) * 4096);
    }

    #[test]
    fn cut_flipped_and_hostile_traces_are_errors_at_worst() {
        let good = text(&example());
        for len in 0..good.len() {
            let _answer = parse(&good[..len]);
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok(events) = parse(&text)
            {
                let _layout = Layout::of(&events);
            }
        }
        for bad in [
            "attach 1 fffffffffffffff0+100",
            "create 1 2d 1 1 4 0 0 1 1 1",
            "create 1 2d 0 0 0 1 1 1 1 1",
            "upload 1 0 0 0 0 1 1 1 99999999999999999999 0 0",
            "detach 1 2",
            "frobnicate 1",
        ] {
            let events = parse(&format!("{HEADER}\n{bad}"));
            match events {
                Ok(events) => assert_eq!(Layout::of(&events).bytes(), 0, "{bad}"),
                Err(error) => assert!(matches!(error, Error::Line { line: 2 }), "{bad}"),
            }
        }
    }
}
