//! Ledgers as one HTML file without script or network.

use std::fmt::Write as _;

use super::{Basis, Observed, caches, cold_text, path_name, predict, stack_text, waits};
use crate::numbers::with_unit;

/// A whole page: `title`, the `lines` above the table, the sites.
#[must_use]
pub fn html(title: &str, lines: &[String], observed: &Observed, basis: &Basis) -> String {
    let mut rows = String::new();
    for site in &observed.sites {
        let outcomes: Vec<String> = site
            .outcomes
            .iter()
            .map(|outcome| format!("{} x {}", outcome.text(), outcome.calls))
            .collect();
        let prediction = predict(site, basis).map_or(String::new(), |prediction| {
            let saved = with_unit(prediction.saved.as_secs_f64(), "s");
            format!("would save about {saved}: {}", prediction.rule)
        });
        let cold = cold_text(site);
        let cells = [
            path_name(site).to_owned(),
            site.call.clone(),
            site.device.clone(),
            stack_text(site),
            site.calls.to_string(),
            with_unit(site.bytes as f64, "bytes"),
            with_unit(site.wall.as_secs_f64(), "s"),
            site.faults.to_string(),
            cold,
            outcomes.join("; "),
            prediction,
        ];
        // Writing to a string cannot fail.
        let _written = writeln!(rows, "<tr>{}</tr>", cells.map(|cell| td(&cell)).concat());
    }
    let lines: String = lines
        .iter()
        .map(|line| format!("<p>{}</p>\n", escaped(line)))
        .collect();
    let mut waits = waits::lines(observed);
    waits.extend(caches::lines(observed));
    let waits = waits.iter().map(|line| line.trim().to_owned());
    let counters = observed.counters.iter();
    let counters = counters.filter(|(counter, _)| !waits::TOLD.contains(counter));
    let counters = counters.map(|(counter, total)| format!("{}: {total}", counter.name()));
    let counters: String = waits
        .chain(counters)
        .map(|line| format!("<li>{}</li>\n", escaped(&line)))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style></head><body><main>\n<h1>{title}</h1>\n{lines}\
         <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Sites\"><table>\n\
         <caption>Sites, most wall time first</caption>\n<thead><tr>{HEAD}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n<ul>\n{counters}</ul>\n</main></body></html>\n",
        title = escaped(title),
    )
}

const HEAD: &str = "<th scope=\"col\">host path</th><th scope=\"col\">call</th>\
    <th scope=\"col\">device</th><th scope=\"col\">from</th><th scope=\"col\">calls</th>\
    <th scope=\"col\">bytes</th><th scope=\"col\">wall</th><th scope=\"col\">faults</th>\
    <th scope=\"col\">cold</th><th scope=\"col\">fix</th><th scope=\"col\">prediction</th>";

const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;\
    margin:0 auto;max-width:72rem;padding:1rem}.wide{overflow-x:auto}\
    table{border-collapse:collapse;font-size:.9rem}\
    th,td{border-bottom:1px solid;padding:.3rem .6rem;text-align:left;vertical-align:top}\
    caption{text-align:left;font-weight:600;padding:.5rem 0}";

fn td(cell: &str) -> String {
    format!("<td>{}</td>", escaped(cell))
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
        out
    })
}
