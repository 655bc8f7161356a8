//! A result as one HTML file: no script, no network, light and dark, readable at 400 pixels and by a screen reader.

mod charts;
mod svg;

use crate::escape::xml as safe;
use crate::numbers::{p_value, percent, with_unit};
use crate::result::{MetricJudgement, Reading, ResultFile};
use crate::{describe, noise, observe, sentence, terminal};

const STYLE: &str = include_str!("style.css");

/// The whole document: verdict first, then the table, charts, design, every run.
#[must_use]
pub fn render(file: &ResultFile) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        title = safe(&file.title)
    );
    page.push_str(&format!(
        "<p class=\"soft\">{}. {}</p>\n",
        safe(&labels(file)),
        safe(&file.started)
    ));
    page.push_str(&verdict(file));
    page.push_str(&table(file));
    let charts = charts::all(file);
    if !charts.is_empty() {
        page.push_str(&format!(
            "<h2>Pictures</h2>\n<div class=\"charts\">\n{}</div>\n",
            charts.concat()
        ));
    }
    page.push_str(&design(file));
    page.push_str(&runs(file));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// `A is off, B is on`.
fn labels(file: &ResultFile) -> String {
    let each: Vec<String> = file
        .arms()
        .iter()
        .map(|&arm| format!("{arm} is {}", file.arm(arm).label))
        .collect();
    each.join(", ")
}

fn verdict(file: &ResultFile) -> String {
    if let Some(reason) = describe::reason(file) {
        return format!(
            "<p class=\"verdict\"><strong>{}</strong></p>\n",
            safe(&reason)
        );
    }
    let headlines: String = terminal::headlines(file)
        .map(|headline| headline_text(file, headline))
        .collect();
    if headlines.is_empty() {
        return "<p class=\"verdict\">There is nothing to judge.</p>\n".to_owned();
    }
    headlines
}

fn headline_text(file: &ResultFile, headline: &MetricJudgement) -> String {
    let mut text = format!(
        "<p class=\"verdict {}\"><strong>{}</strong>",
        headline.judgement.verdict,
        safe(&sentence::verdict(file, headline))
    );
    for more in [
        sentence::outlook(&headline.judgement),
        sentence::detectable(&headline.judgement),
    ] {
        text.push_str(
            &more
                .map(|more| format!("<br>{}", safe(&more)))
                .unwrap_or_default(),
        );
    }
    text.push_str("</p>\n");
    text
}

/// Every run of every arm, without a test.
fn described(file: &ResultFile) -> String {
    let mut text = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All metrics\"><table><caption>Every run in the order made; nothing is tested</caption><thead><tr><th scope=\"col\">arm</th><th scope=\"col\">every run</th><th scope=\"col\">mean</th></tr></thead>\n".to_owned();
    let arms = file.arms().len();
    for (place, row) in describe::rows(file).iter().enumerate() {
        if place % arms == 0 {
            text.push_str(&format!(
                "<tbody><tr><th scope=\"rowgroup\" colspan=\"3\" class=\"group\">{}</th></tr>\n",
                safe(&row.metric)
            ));
        }
        text.push_str(&format!(
            "<tr><th scope=\"row\" class=\"arm\">{}</th><td class=\"runs\">{}</td><td>{}</td></tr>\n",
            safe(&row.arm),
            safe(&row.runs),
            safe(&row.mean)
        ));
        if place % arms == arms - 1 {
            text.push_str("</tbody>\n");
        }
    }
    text.push_str("</table></div>\n");
    text
}

fn table(file: &ResultFile) -> String {
    if file.design.is_described {
        return described(file);
    }
    let other = if file.c.is_absent() {
        &file.b.label
    } else {
        "other"
    };
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All metrics\"><table><caption>All metrics; p-values are corrected</caption><thead><tr><th scope=\"col\">metric</th><th scope=\"col\">verdict</th><th scope=\"col\">{}</th><th scope=\"col\">{}</th><th scope=\"col\">change</th><th scope=\"col\">interval</th><th scope=\"col\">p</th><th scope=\"col\">raw p</th><th scope=\"col\">would find (80 %)</th></tr></thead><tbody>\n",
        safe(&file.a.label),
        safe(other)
    );
    for judged in &file.judgements {
        text.push_str(&row(file, judged));
    }
    text.push_str("</tbody></table></div>\n");
    text
}

fn row(file: &ResultFile, judged: &MetricJudgement) -> String {
    let judgement = &judged.judgement;
    let unit = file
        .metric(&judged.metric)
        .map_or("", |metric| metric.unit.as_str());
    let show = |value: Option<f64>| {
        value.map_or_else(|| "unavailable".to_owned(), |value| with_unit(value, unit))
    };
    let cells = [
        show(judgement.mean_a),
        show(judgement.mean_b),
        sentence::change(judgement),
        sentence::interval(judgement).unwrap_or_else(|| "unbounded".to_owned()),
        p_value(judgement.p_adjusted),
        p_value(judgement.p),
        judgement
            .detectable
            .map_or_else(|| "-".to_owned(), |effect| percent(effect).replace('+', "")),
    ];
    let cells: String = cells
        .iter()
        .map(|cell| format!("<td>{}</td>", safe(cell)))
        .collect();
    let decides = if judged.is_primary { " (decides)" } else { "" };
    let which = if file.c.is_absent() {
        String::new()
    } else {
        format!(": {}", safe(&file.arm(judged.arm).label))
    };
    let verdict = judgement.verdict;
    format!(
        "<tr><th scope=\"row\">{}{which}{decides}</th><td class=\"word {verdict}\">{verdict}</td>{cells}</tr>\n",
        safe(&judged.metric)
    )
}

fn design(file: &ResultFile) -> String {
    let mut lines = vec![terminal::design(file)];
    if !file.command.is_empty() {
        lines.push(format!("command: {}", file.command.join(" ")));
    }
    for &arm in file.arms() {
        let setup = file.arm(arm);
        let mut parts = Vec::new();
        parts.extend(setup.fix.as_ref().map(|fix| format!("fixes {fix}")));
        parts.extend(
            setup
                .environment
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        if !setup.command.is_empty() {
            parts.push(format!("command {}", setup.command.join(" ")));
        }
        if !parts.is_empty() {
            lines.push(format!("{arm} ({}): {}", setup.label, parts.join(", ")));
        }
        for (how, count) in file.failures(arm) {
            lines.push(format!(
                "{count} run(s) of {} {how}: counted, not averaged",
                setup.label
            ));
        }
    }
    let machine = file.machine.summary();
    if !machine.is_empty() {
        lines.push(format!("machine: {machine}"));
    }
    lines.extend(
        file.versions
            .iter()
            .map(|(name, version)| format!("{name}: {version}")),
    );
    for metric in file
        .metrics
        .iter()
        .filter(|metric| !metric.definition.is_empty())
    {
        lines.push(format!("{}: {}", metric.name, metric.definition));
    }
    lines.extend(noise::lines(file));
    let notes = observe::notes(file)
        .into_iter()
        .chain(file.notes.iter().cloned());
    lines.extend(notes.map(|note| format!("note: {note}")));
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>\n", safe(line)))
        .collect();
    format!("<h2>Design, definitions, notes</h2>\n<ul>\n{items}</ul>\n")
}

fn runs(file: &ResultFile) -> String {
    let heads: String = file
        .metrics
        .iter()
        .map(|metric| format!("<th scope=\"col\">{}</th>", safe(&metric.name)))
        .collect();
    let mut text = format!(
        "<h2>Every run</h2>\n<details><summary>{} runs</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Every run\"><table><thead><tr><th scope=\"col\">run</th><th scope=\"col\">arm</th><th scope=\"col\">block</th><th scope=\"col\">pair</th>{heads}<th scope=\"col\">end</th></tr></thead><tbody>\n",
        file.runs.len()
    );
    for (index, run) in file.runs.iter().enumerate() {
        text.push_str(&format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td>",
            index + 1,
            run.arm,
            run.block,
            run.pair
        ));
        for metric in &file.metrics {
            let cell = match run.readings.get(&metric.name) {
                Some(Reading::Value { value, repeats }) if repeats.len() > 1 => {
                    let spread = towpath_measure::sample::deviation(repeats);
                    let shown = with_unit(*value, &metric.unit);
                    format!(
                        "{shown} ({} repeats, deviation {})",
                        repeats.len(),
                        with_unit(spread, &metric.unit)
                    )
                }
                Some(Reading::Value { value, .. }) => with_unit(*value, &metric.unit),
                Some(Reading::Unavailable { unavailable }) => format!("unavailable: {unavailable}"),
                None => String::new(),
            };
            text.push_str(&format!("<td>{}</td>", safe(&cell)));
        }
        let notes: Vec<&str> = run
            .marks
            .iter()
            .chain(&run.notes)
            .map(String::as_str)
            .collect();
        let notes = if notes.is_empty() {
            String::new()
        } else {
            format!(" ({})", notes.join("; "))
        };
        text.push_str(&format!(
            "<td>{}{}</td></tr>\n",
            safe(&run.outcome.text()),
            safe(&notes)
        ));
    }
    text.push_str("</tbody></table></div>\n</details>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;
    use crate::result::FrameLine;

    fn with_frames() -> ResultFile {
        let mut file = example();
        for run in &mut file.runs {
            let slices = (0..200)
                .map(|i| (16.0, if i == 77 { 90.0 } else { 17.5 }))
                .collect();
            let ladder = (0..=100)
                .map(|i| (f64::from(i) / 100.0, 16.0 + f64::from(i) / 50.0))
                .collect();
            run.frames = Some(FrameLine {
                frames: 12_000,
                slice_s: 0.5,
                slices,
                ladder,
            });
            run.disk_reads = vec![(1.0, 0.08), (50.0, 27.7)];
        }
        file
    }

    #[test]
    fn the_page_stands_alone_and_says_the_verdict_first() {
        let page = render(&with_frames());
        for forbidden in ["<script", "http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        let verdict = page.find("class=\"verdict faster\"").unwrap();
        assert!(verdict < page.find("<table").unwrap());
        for id in [
            "order",
            "pairs",
            "changes",
            "frames-A",
            "disk-B",
            "tail",
            "histogram",
        ] {
            assert!(page.contains(&format!("id=\"{id}-t\"")), "{id}");
        }
        let images = page.matches("role=\"img\"").count();
        assert_eq!(images, page.matches("<desc ").count());
        assert_eq!(images, 9);
    }

    #[test]
    fn tags_are_balanced_and_foreign_text_stays_text() {
        let mut file = with_frames();
        "<b onload=x>&".clone_into(&mut file.title);
        "\"><script>".clone_into(&mut file.b.label);
        file.notes.push("</ul><img>".to_owned());
        file.runs[0].notes.push("<i>".to_owned());
        let page = render(&file);
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<i>"));
        for tag in [
            "table", "figure", "svg", "ul", "li", "tr", "td", "th", "p", "details", "main", "div",
        ] {
            let open = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn a_file_without_anything_still_makes_a_page() {
        let page = render(&ResultFile::new(crate::result::SCHEMA_AB, "empty"));
        assert!(page.contains("There is nothing to judge."));
    }
}
