//! Which kind of log a header belongs to, and where its columns are: always by name, never by place.

use super::{Source, Unit};

/// What a column is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Frame,
    Fps,
    Clock,
    Dropped,
    Application,
    Process,
    Chain,
}

/// Unit of the frame column, or how to find it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FrameUnit {
    /// Known.
    Of(Unit),
    /// MangoHud: integer microseconds up to 0.6.8, milliseconds from 0.6.9; the product with fps tells.
    ByFps,
}

/// A recognised header.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) kind: &'static str,
    pub(super) unit: FrameUnit,
    /// Columns in rising order.
    pub(super) columns: Vec<(usize, Role)>,
    /// Number of columns of the header; 0 without one.
    pub(super) width: usize,
    pub(super) delimiter: u8,
    /// Decimal comma.
    pub(super) comma: bool,
    /// Name of the frame column, for the report.
    pub(super) frame_name: String,
    /// Units that the clock column may have, in ms: the one that fits the frames is taken.
    pub(super) clock_units: &'static [f64],
    /// Whether the frame column is a time between changes of the display, where 0 and NA mean "not shown".
    pub(super) is_display: bool,
    pub(super) notes: Vec<String>,
}

/// What a line is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    /// The header of a log.
    Header(Layout),
    /// Something before the header (MangoHud's machine lines, CapFrameX' comments).
    Preface,
    /// MangoHud's names of machine facts: the next line holds the facts.
    MachineNames,
    /// The first line of MSI Afterburner's log, or its names of columns.
    Afterburner,
    /// The header of Mesa's overlay: columns of the rate and of the period's length.
    Overlay(usize, Option<usize>),
    /// Names of columns, but of no known log.
    Unknown(String),
    /// Numbers.
    Data,
}

/// Looks at a line before a header was found.
pub(super) fn classify(line: &[u8], source: Source) -> Line {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.is_empty() || text.starts_with("//") || text.starts_with("---") || text.starts_with('#')
    {
        return Line::Preface;
    }
    let delimiter = if text.contains(';') {
        ';'
    } else if text.contains(',') {
        ','
    } else {
        '\t'
    };
    let names: Vec<String> = text
        .split(delimiter)
        .map(|name| name.trim().trim_matches('"').to_ascii_lowercase())
        .collect();
    if is_afterburner(&names) {
        return Line::Afterburner;
    }
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    if let (Some(fps), Some(timing)) = (place("fps"), place("frame_timing(us)")) {
        return Line::Overlay(fps, Some(timing));
    }
    if names == ["fps"] {
        return Line::Overlay(0, None);
    }
    if let Some(layout) = layout(&names, delimiter, source) {
        return Line::Header(layout);
    }
    if names.first().is_some_and(|name| name == "os") && names.iter().any(|name| name == "cpu") {
        return Line::MachineNames;
    }
    if names
        .iter()
        .any(|name| matches!(name.as_str(), "0.1% min fps" | "average fps" | "avg fps"))
    {
        return Line::Unknown("a summary, not a log: give the log beside it".to_owned());
    }
    if text
        .split(|letter: char| letter == delimiter || letter.is_whitespace())
        .any(|cell| super::lines::number(cell.as_bytes(), delimiter == ';').is_some())
    {
        return Line::Data;
    }
    if names.len() < 2 {
        return Line::Preface;
    }
    Line::Unknown(format!("columns of no known log: {}", names.join(", ")))
}

/// `0, date, Hardware monitoring log v1.6`, or a copy that begins with the names of columns.
fn is_afterburner(names: &[String]) -> bool {
    let has = |wanted: &[&str]| {
        names
            .iter()
            .skip(2)
            .any(|name| wanted.contains(&name.as_str()))
    };
    match names.first().map(String::as_str) {
        Some("0" | "00") => names
            .get(2)
            .is_some_and(|name| name.starts_with("hardware monitoring log")),
        Some("2" | "02") => has(&["framerate", "frametime"]),
        _ => false,
    }
}

fn layout(names: &[String], delimiter: char, source: Source) -> Option<Layout> {
    let find = |wanted: &[&str]| {
        wanted
            .iter()
            .find_map(|wanted| names.iter().position(|name| name == wanted))
    };
    let (kind, present) = kind(names)?;
    let display =
        find(&["msbetweendisplaychange", "displayedtime"]).filter(|_| source == Source::Display);
    let frame = display.or_else(|| find(present));
    let fps = find(&["fps"]).filter(|_| kind == "MangoHud");
    let mut columns: Vec<(usize, Role)> = [
        (frame, Role::Frame),
        (fps, Role::Fps),
        (clock(names, kind), Role::Clock),
        (find(&["dropped"]), Role::Dropped),
        (find(&["application"]), Role::Application),
        (find(&["processid"]), Role::Process),
        (find(&["swapchainaddress"]), Role::Chain),
    ]
    .into_iter()
    .filter_map(|(place, role)| Some((place?, role)))
    .collect();
    columns.sort_by_key(|(place, _)| *place);
    let mut notes = Vec::new();
    if source == Source::Display && display.is_none() {
        notes.push("the log has no display times: presents are used".to_owned());
    }
    let repeated = frame.and_then(|place| names.get(place));
    if repeated.is_some_and(|name| names.iter().filter(|other| *other == name).count() > 1) {
        notes.push("the frame column appears twice: the first one is used".to_owned());
    }
    Some(Layout {
        kind,
        unit: match (kind, frame) {
            ("MangoHud", Some(_)) => FrameUnit::ByFps,
            ("MangoHud", None) => FrameUnit::Of(Unit::Fps),
            _ => FrameUnit::Of(Unit::Millis),
        },
        columns,
        width: names.len(),
        delimiter: u8::try_from(delimiter).unwrap_or(b','),
        comma: delimiter == ';',
        frame_name: frame
            .or(fps)
            .and_then(|place| names.get(place))
            .cloned()
            .unwrap_or_default(),
        clock_units: if kind == "MangoHud" {
            &[1e-6, 1e-3]
        } else {
            &[1e3, 1.0, 1e-6]
        },
        is_display: display.is_some(),
        notes,
    })
}

/// The kind of log and the names that its frame column may have.
fn kind(names: &[String]) -> Option<(&'static str, &'static [&'static str])> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let is_presentmon = has("msbetweenpresents") || has("msbetweenappstart");
    let is_presentmon_2 = has("frametime") && (has("cpubusy") || has("swapchainaddress"));
    let is_mangohud = has("fps") && (has("frametime") || has("elapsed"));
    if is_presentmon && (has("render queue depth") || has("gpu0clk(mhz)")) {
        Some(("FrameView", &["msbetweenpresents"]))
    } else if is_presentmon && has("msactualpresent") {
        Some(("CapFrameX for Linux", &["msbetweenpresents"]))
    } else if has("wasbatched") || (is_presentmon && has("motherboard")) {
        Some(("OCAT", &["msbetweenpresents"]))
    } else if is_presentmon && (has("msbetweenappstart") || has("mscpubusy")) {
        Some((
            "PresentMon 2.3.1 or later",
            &["msbetweenpresents", "msbetweenappstart"],
        ))
    } else if is_presentmon {
        Some(("PresentMon 1.x", &["msbetweenpresents"]))
    } else if is_presentmon_2 {
        Some(("PresentMon 2.x", &["frametime"]))
    } else if is_mangohud {
        Some(("MangoHud", &["frametime"]))
    } else if has("frame_ms") {
        Some(("towpath", &["frame_ms"]))
    } else {
        None
    }
}

/// The column that holds when a frame began or ended.
fn clock(names: &[String], kind: &str) -> Option<usize> {
    let wanted: &[&str] = match kind {
        "MangoHud" => &["elapsed"],
        "towpath" => &["time_s"],
        _ => &[
            "timeinseconds",
            "timeinms",
            "cpustarttimeinms",
            "cpustarttime",
        ],
    };
    wanted
        .iter()
        .find_map(|wanted| names.iter().position(|name| name == wanted))
}

/// The layout of a file without a header: one of its columns, or MangoHud's four of old.
pub(super) fn headless(line: &[u8], has_preface: bool, column: usize, unit: Unit) -> Layout {
    let text = String::from_utf8_lossy(line);
    let is_decimal = column <= 1 && is_decimal_comma(text.trim());
    let comma = is_decimal || text.contains(';');
    let delimiter = if comma {
        b';'
    } else if text.contains(',') {
        b','
    } else if text.trim().contains('\t') {
        b'\t'
    } else {
        b' '
    };
    let width = text.trim().split(char::from(delimiter)).count();
    let is_old_mangohud = has_preface && width == 4 && delimiter == b',';
    let columns = if is_old_mangohud {
        vec![(0, Role::Fps), (3, Role::Clock)]
    } else {
        vec![(column.saturating_sub(1), Role::Frame)]
    };
    Layout {
        kind: if is_old_mangohud {
            "MangoHud (without a header)"
        } else {
            super::table::PLAIN
        },
        unit: FrameUnit::Of(if is_old_mangohud { Unit::Fps } else { unit }),
        columns,
        width: 0,
        delimiter,
        comma,
        frame_name: if is_old_mangohud {
            "fps".to_owned()
        } else {
            format!("column {column}")
        },
        clock_units: &[1e-6, 1e-3],
        is_display: false,
        notes: if is_decimal {
            let note = "the comma is read as a decimal point; --column 2 reads what follows it";
            vec![note.to_owned()]
        } else {
            Vec::new()
        },
    }
}

/// `16,634`: one number, as many countries write it, and not two columns.
fn is_decimal_comma(line: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    line.split_once(',')
        .is_some_and(|(whole, part)| is_digits(whole) && is_digits(part))
}
