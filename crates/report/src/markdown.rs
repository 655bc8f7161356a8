//! A result as GitHub's Markdown: for a step summary or a comment, under their size limits.

use crate::escape::markdown as safe;
use crate::numbers::{p_value, with_unit};
use crate::result::{Reading, ResultFile};
use crate::{describe, noise, observe, sentence, terminal};

/// Most characters of a GitHub comment.
pub const COMMENT_MAX: usize = 65_536;
/// Most bytes of a GitHub step summary; more is not shown at all.
pub const STEP_SUMMARY_MAX: usize = 1_024 * 1_024;
/// First line of the text: lets a bot find and update its comment.
pub const MARKER: &str = "<!-- towpath result -->";

/// The report in at most `limit` bytes: raw runs are folded, and left out if they do not fit; so are notes then.
#[must_use]
pub fn render(file: &ResultFile, limit: usize) -> String {
    let head = head(file);
    let table = table(file);
    let notes = notes(file);
    let runs = runs(file);
    let whole = format!("{head}{table}{notes}{runs}");
    if whole.len() <= limit {
        return whole;
    }
    let left_out = "\n(Raw runs are left out here: they do not fit.)\n";
    let without_runs = format!("{head}{table}{notes}{left_out}");
    if without_runs.len() <= limit {
        return without_runs;
    }
    let mut short = format!("{head}{left_out}");
    let mut cut = limit.min(short.len());
    while !short.is_char_boundary(cut) {
        cut -= 1;
    }
    short.truncate(cut);
    short
}

fn head(file: &ResultFile) -> String {
    let mut text = format!("{MARKER}\n### {}\n\n", safe(&file.title));
    if let Some(reason) = describe::reason(file) {
        text.push_str(&format!("**{}**\n\n", safe(&reason)));
    }
    for headline in terminal::headlines(file) {
        text.push_str(&format!(
            "**{}**\n\n",
            safe(&sentence::verdict(file, headline))
        ));
        for more in [
            sentence::outlook(&headline.judgement),
            sentence::detectable(&headline.judgement),
        ] {
            text.push_str(
                &more
                    .map(|more| format!("{}\n\n", safe(&more)))
                    .unwrap_or_default(),
            );
        }
    }
    text
}

fn table(file: &ResultFile) -> String {
    if file.design.is_described {
        return described(file);
    }
    let third = !file.c.is_absent();
    let mut text = format!(
        "| metric | {} | {} | change | interval | p | verdict |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
        safe(&file.a.label),
        safe(if third { "other" } else { &file.b.label })
    );
    for judged in &file.judgements {
        let judgement = &judged.judgement;
        let unit = file
            .metric(&judged.metric)
            .map_or("", |metric| metric.unit.as_str());
        let show = |value: Option<f64>| {
            value.map_or_else(|| "unavailable".to_owned(), |value| with_unit(value, unit))
        };
        text.push_str(&format!(
            "| {}{}{} | {} | {} | {} | {} | {} | {} |\n",
            safe(&judged.metric),
            if third {
                format!(": {}", safe(&file.arm(judged.arm).label))
            } else {
                String::new()
            },
            if judged.is_primary { " (decides)" } else { "" },
            safe(&show(judgement.mean_a)),
            safe(&show(judgement.mean_b)),
            sentence::change(judgement),
            sentence::interval(judgement).unwrap_or_else(|| "unbounded".to_owned()),
            p_value(judgement.p_adjusted),
            judgement.verdict,
        ));
    }
    text
}

/// Every run of every arm, without a test.
fn described(file: &ResultFile) -> String {
    let mut text = "| metric | arm | every run | mean |\n| --- | --- | ---: | ---: |\n".to_owned();
    for row in describe::rows(file) {
        text.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            safe(&row.metric),
            safe(&row.arm),
            row.runs,
            row.mean
        ));
    }
    text
}

fn notes(file: &ResultFile) -> String {
    let mut lines = vec![terminal::design(file), file.machine.summary()];
    for &arm in file.arms() {
        for (how, count) in file.failures(arm) {
            lines.push(format!(
                "{count} run(s) of {} {how}: counted, not averaged",
                file.arm(arm).label
            ));
        }
    }
    for metric in file
        .metrics
        .iter()
        .filter(|metric| !metric.definition.is_empty())
    {
        lines.push(format!("{}: {}", metric.name, metric.definition));
    }
    lines.extend(noise::lines(file));
    lines.extend(observe::notes(file));
    lines.extend(file.notes.iter().cloned());
    let items: String = lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| format!("- {}\n", safe(line)))
        .collect();
    format!("\n<details><summary>Design, definitions, notes</summary>\n\n{items}\n</details>\n")
}

fn runs(file: &ResultFile) -> String {
    let names: Vec<&str> = file
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    let mut text = "\n<details><summary>Every run</summary>\n\n| block | pair | arm |".to_owned();
    for name in &names {
        text.push_str(&format!(" {} |", safe(name)));
    }
    text.push_str(&format!(
        " end |\n{}\n",
        "| --- ".repeat(names.len() + 4) + "|"
    ));
    for run in &file.runs {
        text.push_str(&format!(
            "| {} | {} | {} |",
            run.block,
            run.pair,
            safe(&file.arm(run.arm).label)
        ));
        for metric in &file.metrics {
            let cell = match run.readings.get(&metric.name) {
                Some(Reading::Value { value, .. }) => with_unit(*value, &metric.unit),
                Some(Reading::Unavailable { unavailable }) => format!("unavailable: {unavailable}"),
                None => String::new(),
            };
            text.push_str(&format!(" {} |", safe(&cell)));
        }
        text.push_str(&format!(" {} |\n", safe(&run.outcome.text())));
    }
    text.push_str("\n</details>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;

    #[test]
    fn the_verdict_stands_first_and_nothing_breaks_the_table() {
        let mut file = example();
        "a|b <script>".clone_into(&mut file.a.label);
        file.judge().unwrap();
        let text = render(&file, COMMENT_MAX);
        assert!(text.starts_with(MARKER));
        assert!(!text.contains("<script>") && text.contains("**wall: on is better than"));
        let rows = text.lines().filter(|line| line.starts_with("| wall"));
        assert!(rows.clone().count() == 1 && rows.clone().all(|row| row.matches('|').count() == 8));
    }

    #[test]
    fn a_report_that_is_too_long_loses_runs_first_and_never_its_verdict() {
        let mut file = example();
        let runs = file.runs.clone();
        for block in 1..400 {
            file.runs.extend(runs.iter().cloned().map(|mut run| {
                run.block = block;
                run
            }));
        }
        file.judge().unwrap();
        let text = render(&file, COMMENT_MAX);
        assert!(
            text.len() <= COMMENT_MAX && text.contains("left out") && text.contains("| wall |")
        );
        for limit in [0, 10, 300] {
            assert!(render(&file, limit).len() <= limit);
        }
    }
}
