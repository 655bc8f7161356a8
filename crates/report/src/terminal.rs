//! A result for a terminal or a mail: verdict first, then a table of at most the asked width, then a plot.

use std::fmt::Write as _;

use crate::ministat::{self, Options, Set};
use crate::numbers::{p_value, percent, with_unit};
use crate::result::{Design, MetricJudgement, Pairing, ResultFile, Stop};
use crate::{describe, escape, noise, observe, sentence};

/// How a result is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Style {
    /// Most columns.
    pub width: usize,
    /// Whether verdicts are coloured (ANSI).
    pub colour: bool,
}

impl Default for Style {
    /// For a mail: 74 columns, no colour.
    fn default() -> Self {
        Self {
            width: 74,
            colour: false,
        }
    }
}

/// The whole report.
#[must_use]
pub fn render(file: &ResultFile, style: Style) -> String {
    let mut text = String::new();
    if let Some(reason) = describe::reason(file) {
        text.push_str(&wrap(&reason, style.width, ""));
    }
    for headline in headlines(file) {
        text.push_str(&wrap(&sentence::verdict(file, headline), style.width, ""));
        if let Some(outlook) = sentence::outlook(&headline.judgement) {
            text.push_str(&wrap(&outlook, style.width, "  "));
        }
        if let Some(found) = sentence::detectable(&headline.judgement) {
            text.push_str(&wrap(&found, style.width, "  "));
        }
    }
    text.push('\n');
    if file.design.is_described {
        text.push_str(&describe::text(file, style.width));
    } else {
        text.push_str(&table(file, style));
    }
    text.push_str(&dots(file, style));
    text.push('\n');
    text.push_str(&wrap(&design(file), style.width, "  "));
    for &arm in file.arms() {
        for (how, count) in file.failures(arm) {
            let line = format!(
                "{count} run(s) of {} {how}: counted, not averaged",
                file.arm(arm).label
            );
            text.push_str(&wrap(&line, style.width, "  "));
        }
    }
    for line in noise::lines(file) {
        text.push_str(&wrap(&line, style.width, "  "));
    }
    for note in observe::notes(file).iter().chain(&file.notes) {
        text.push_str(&wrap(&format!("note: {note}"), style.width, "  "));
    }
    text
}

/// The judgements that come first: the headline, and with a third arm the same metric's other comparison.
pub(crate) fn headlines(file: &ResultFile) -> impl Iterator<Item = &MetricJudgement> {
    let metric = file.headline().map(|judged| judged.metric.as_str());
    let judged = file.judgements.iter();
    judged.filter(move |judged| Some(judged.metric.as_str()) == metric)
}

/// The values of the headline's metric as ministat draws them.
fn dots(file: &ResultFile, style: Style) -> String {
    let Some(headline) = file.headline() else {
        return String::new();
    };
    let glyphs = ["x", "+", "*"];
    let (mut sets, mut key) = (Vec::new(), String::new());
    for (&arm, glyph) in file.arms().iter().zip(glyphs) {
        let runs = file.runs.iter().filter(|run| run.arm == arm);
        let values: Vec<f64> = runs.filter_map(|run| run.value(&headline.metric)).collect();
        if values.len() < 2 {
            return String::new();
        }
        sets.push(Set::new("", &values));
        let _ = write!(key, "{glyph} {}  ", escape::terminal(&file.arm(arm).label));
    }
    let options = Options {
        width: style.width.clamp(20, 100) - 2,
        ..Options::default()
    };
    format!(
        "\n{}: {key}(bars: mean and one standard deviation)\n{}",
        escape::terminal(&headline.metric),
        ministat::plot(&sets, &options)
    )
}

/// The design in one sentence.
#[must_use]
pub fn design(file: &ResultFile) -> String {
    let Design {
        stop,
        seed,
        primary,
        margin,
        level,
        is_null,
        is_described,
        pairing,
        scale: _,
    } = &file.design;
    let mut text = plan(file, *pairing, *stop);
    if let Some(seed) = seed {
        let _ = write!(
            text,
            ", random order in {} (seed {seed})",
            if file.c.is_absent() {
                "pairs"
            } else {
                "rounds"
            }
        );
    }
    if *is_null {
        text.push_str(", both arms the same on purpose");
    }
    if *is_described {
        return text;
    }
    let _ = write!(text, "; level {level}");
    if *margin > 0.0 {
        let _ = write!(
            text,
            ", margin {}",
            percent(*margin).trim_start_matches('+')
        );
    }
    match primary {
        Some(primary) => {
            let _ = write!(
                text,
                "; {primary} decides, the others are corrected together (Holm)"
            );
        }
        None if file.judgements.len() > 1 => {
            text.push_str("; p-values are corrected together (Holm)");
        }
        None => {}
    }
    text
}

/// How many runs there were to be.
fn plan(file: &ResultFile, pairing: Pairing, stop: Stop) -> String {
    match (pairing, stop) {
        (Pairing::Unpaired, _) => {
            "independent runs, not alternated: a drift of the machine would look like a difference"
                .to_owned()
        }
        (_, Stop::Pairs { pairs }) if file.c.is_absent() => format!("{pairs} pairs planned"),
        (_, Stop::Pairs { pairs }) => format!("{pairs} rounds of three runs planned"),
        (_, Stop::Budget { seconds }) => format!("as many pairs as {seconds} s allow"),
        (_, Stop::UntilProven { pairs_max }) => {
            format!("until proven by the e-process, at most {pairs_max} pairs")
        }
        (_, Stop::Given) => "pairs as given".to_owned(),
    }
}

/// The table of all metrics.
fn table(file: &ResultFile, style: Style) -> String {
    let mut rows = vec![[
        "metric".to_owned(),
        short(&file.a.label),
        short(&file.b.label),
        "change".to_owned(),
        "interval".to_owned(),
        "p".to_owned(),
        "verdict".to_owned(),
    ]];
    let third = !file.c.is_absent();
    if third && let Some(head) = rows.first_mut() {
        "other".clone_into(&mut head[2]);
    }
    for metric in &file.metrics {
        let mut judged = file
            .judgements
            .iter()
            .filter(|judged| judged.metric == metric.name)
            .peekable();
        if judged.peek().is_some() {
            for judged in judged {
                let mut row = row(judged, &metric.unit);
                if third {
                    row[0].push_str(&format!(" {}", judged.arm));
                }
                rows.push(row);
            }
        } else {
            let values = file.values(&metric.name);
            let show = |values: &[f64]| {
                if values.is_empty() {
                    return "unavailable".to_owned();
                }
                with_unit(towpath_measure::sample::mean(values), &metric.unit)
            };
            let none = String::new;
            rows.push([
                metric.name.clone(),
                show(&values.a),
                show(&values.b),
                none(),
                none(),
                none(),
                "(shown only)".to_owned(),
            ]);
        }
    }
    lay_out(&rows, style)
}

/// A label for the head of a column; the sentence above has all of it.
fn short(label: &str) -> String {
    label.chars().take(12).collect()
}

fn row(judged: &MetricJudgement, unit: &str) -> [String; 7] {
    let judgement = &judged.judgement;
    let show = |value: Option<f64>| {
        value.map_or_else(|| "unavailable".to_owned(), |value| with_unit(value, unit))
    };
    let change = sentence::change(judgement);
    let end = |value: Option<f64>| {
        let text = value.map(|value| sentence::change_text(judgement, value));
        text.map_or_else(|| "..".to_owned(), |text| text.replace(" %", ""))
    };
    let (low, high) = judgement.change_interval();
    let interval = if low.is_none() && high.is_none() {
        "unbounded".to_owned()
    } else {
        format!("{} {}", end(low), end(high))
    };
    let star = if judged.is_primary { "*" } else { "" };
    [
        format!("{}{star}", judged.metric),
        show(judgement.mean_a),
        show(judgement.mean_b),
        change,
        interval,
        p_value(judgement.p_adjusted),
        judgement.verdict.name().to_owned(),
    ]
}

/// Lays rows out in columns: the first and last to the left, the others to the right. Where they do not fit into the
/// width, intervals are left out, then the first column is cut.
fn lay_out(rows: &[[String; 7]], style: Style) -> String {
    let mut columns: Vec<usize> = (0..7).collect();
    let width_of = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let total = |columns: &[usize]| {
        columns
            .iter()
            .map(|&column| width_of(column) + 2)
            .sum::<usize>()
    };
    for dropped in [4, 5] {
        if total(&columns) > style.width {
            columns.retain(|&column| column != dropped);
        }
    }
    let excess = total(&columns).saturating_sub(style.width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for &column in &columns {
            let cell = row.get(column).map_or("", String::as_str);
            let cell = &escape::terminal(cell);
            let mut width = width_of(column);
            if column == 0 {
                width = width.saturating_sub(excess).max(8);
                let cut: String = cell.chars().take(width).collect();
                let _ = write!(line, "{cut:<width$}");
            } else if column == 6 {
                let _ = write!(line, "  {}", paint(cell, style));
            } else {
                let _ = write!(line, "  {cell:>width$}");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn paint(verdict: &str, style: Style) -> String {
    let code = match verdict {
        "faster" => "32",
        "slower" => "31",
        "equivalent" => "36",
        _ => return verdict.to_owned(),
    };
    if style.colour {
        format!("\x1b[{code}m{verdict}\x1b[0m")
    } else {
        verdict.to_owned()
    }
}

/// Breaks a text into lines of at most `width`, each after `indent`.
#[must_use]
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut line = String::from(indent);
    for word in text.split_whitespace() {
        let is_fresh = line.trim().is_empty();
        if !is_fresh && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(&line);
            out.push('\n');
            line = format!("{indent}  ");
        } else if !is_fresh {
            line.push(' ');
        }
        line.push_str(&escape::terminal(word));
    }
    out.push_str(&line);
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;

    #[test]
    fn what_others_named_moves_no_cursor() {
        for style in [
            Style::default(),
            Style {
                width: 60,
                colour: true,
            },
        ] {
            let mut file = example();
            let plain = render(&file, style).lines().count();
            file.a.label = "\u{1b}[2J\nx\r".to_owned();
            file.b.label = "\u{202e}b\u{7}".to_owned();
            file.notes.push("\u{1b}]0;title\u{7}".to_owned());
            let text = render(&file, style)
                .replace("\u{1b}[3", "")
                .replace("\u{1b}[0m", "");
            let bad = |letter: char| letter != '\n' && letter.is_control() || letter == '\u{202e}';
            assert!(!text.contains(bad), "{text:?}");
            assert!(text.lines().count() <= plain + 1, "{text}");
        }
    }

    #[test]
    fn the_report_fits_into_a_mail() {
        let mut file = example();
        file.metrics[0].definition = "x".repeat(200);
        let text = render(&file, Style::default());
        assert!(
            text.lines().all(|line| line.chars().count() <= 74),
            "{text}"
        );
        assert!(text.is_ascii());
        assert!(
            text.contains("wall") && text.contains("equivalent") && text.contains("seed 42"),
            "{text}"
        );
    }

    #[test]
    fn colour_only_where_asked_for() {
        let file = example();
        assert!(!render(&file, Style::default()).contains('\x1b'));
        assert!(
            render(
                &file,
                Style {
                    width: 100,
                    colour: true
                }
            )
            .contains("\x1b[32mfaster")
        );
    }
}
