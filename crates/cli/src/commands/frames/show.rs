//! Logs without a second side: every metric of every log, with its definition.

use std::fmt::Write as _;
use std::path::PathBuf;

use towpath_report::numbers::with_unit;
use towpath_report::terminal::wrap;
use towpath_report::{Reading, ResultFile};

/// One block per log.
pub(super) fn single(file: &ResultFile, width: usize) -> String {
    let mut text = String::new();
    for run in &file.runs {
        let source = run.source.as_deref().unwrap_or("?");
        let _ = writeln!(text, "{source}");
        for note in file
            .notes
            .iter()
            .filter_map(|note| note.strip_prefix(source)?.strip_prefix(": "))
        {
            text.push_str(&wrap(note, width, "  "));
        }
        for metric in &file.metrics {
            let value = match run.readings.get(&metric.name) {
                Some(Reading::Value { value, .. }) => with_unit(*value, &metric.unit),
                // Why, stands in the notes above.
                Some(Reading::Unavailable { .. }) => "unavailable".to_owned(),
                None => continue,
            };
            let line = format!("{:<20} {value:>12}  {}", metric.name, metric.definition);
            let mut lines = wrap_after(&line, width);
            lines.push('\n');
            text.push_str(&lines);
        }
    }
    text
}

/// Breaks a long line once more words do not fit, continuing under the definition.
fn wrap_after(line: &str, width: usize) -> String {
    const INDENT: usize = 36;
    let mut out = String::new();
    let mut column = 0;
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count() + usize::from(index > 0);
        if column + length + 2 > width && column > INDENT {
            let _ = write!(out, "\n{:INDENT$}", "");
            column = INDENT;
        } else if index > 0 {
            out.push(' ');
        }
        out.push_str(word);
        column += length;
    }
    format!("  {}", out.trim_end())
}

/// What the metrics of a comparison mean.
pub(super) fn definitions(file: &ResultFile, width: usize) -> String {
    let mut text = "\ndefinitions:\n".to_owned();
    for metric in &file.metrics {
        text.push_str(&wrap(
            &format!("{}: {}", metric.name, metric.definition),
            width,
            "  ",
        ));
    }
    text
}

/// The first file's name, and how many more there are.
pub(super) fn label(paths: &[PathBuf]) -> String {
    let first = paths.first().and_then(|path| path.file_name());
    let first = first.map_or_else(
        || "?".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    if paths.len() > 1 {
        format!("{first} and {} more", paths.len() - 1)
    } else {
        first
    }
}
