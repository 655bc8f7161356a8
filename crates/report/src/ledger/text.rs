//! Ledgers for a terminal, at most 80 columns but for long names.

use std::fmt::Write as _;

use towpath_ledger::{Counter, Outcome, Site};
use towpath_measure::Nanos;

use super::{
    Basis, Observed, active_calls, caches, cold_text, path_name, predict, predicted, stack_text,
    waits,
};
use crate::numbers::with_unit;

/// The sites, most wall time first, at most `limit` of them; then the totals.
#[must_use]
pub fn text(observed: &Observed, basis: &Basis, limit: usize) -> String {
    let mut out = String::new();
    if !observed.sites.is_empty() {
        out.push_str(HEAD);
    }
    for site in observed.sites.iter().take(limit) {
        out.push_str(&site_text(site, basis));
    }
    let hidden = observed.sites.len().saturating_sub(limit);
    if hidden > 0 {
        // Writing to a string cannot fail.
        let _written = writeln!(out, "... and {hidden} more sites (--json has all)");
    }
    for (path, saved) in predicted(observed, basis) {
        let saved = with_unit(saved.as_secs_f64(), "s");
        let _written = writeln!(
            out,
            "in all, the {} fix would save about {saved}",
            path.name()
        );
    }
    let lines = caches::lines(observed).into_iter();
    for line in lines.chain(waits::lines(observed)) {
        let _written = writeln!(out, "{line}");
    }
    // The ring of frames tells the same number with its times.
    let counters = observed.counters.iter();
    let is_told = |counter: &Counter| *counter == Counter::Frames || waits::TOLD.contains(counter);
    for (counter, total) in counters.filter(|(counter, _)| !is_told(counter)) {
        let _written = writeln!(out, "{}: {}", counter.name(), grouped(*total));
    }
    let frames = observed.frames_presented();
    if frames > 0 {
        let _written = writeln!(out, "frames presented: {}", grouped(frames));
    }
    out
}

const HEAD: &str =
    "path      call                       calls      bytes      wall    faults   cold\n";

/// One site: a line of numbers, then device, place, what the fix did, and what it would save.
#[must_use]
pub fn site_text(site: &Site, basis: &Basis) -> String {
    let mut out = String::new();
    let cold = cold_text(site);
    let _written = writeln!(
        out,
        "{:<9} {:<24} {:>7} {:>10} {:>9} {:>9} {:>6}",
        path_name(site),
        site.call,
        grouped(site.calls),
        with_unit(site.bytes as f64, "bytes"),
        with_unit(site.wall.as_secs_f64(), "s"),
        grouped(site.faults),
        cold,
    );
    let mut line = |text: &str| {
        let _written = writeln!(out, "          {text}");
    };
    if !site.device.is_empty() {
        line(&format!("on {}", site.device));
    }
    if !site.stack.is_empty() {
        line(&format!("from {}", shortened(&stack_text(site))));
    }
    line(&outcomes(site));
    if active_calls(site) > 0 && site.saved.0 != 0 {
        let saved = Saved(site.saved.0);
        line(&format!("saved about {saved} (estimate)"));
    }
    if let Some(prediction) = predict(site, basis) {
        let fix = path_name(site);
        match prediction.saved {
            Nanos::ZERO => line(&format!("{fix} fix would save nothing:")),
            saved => {
                let saved = with_unit(saved.as_secs_f64(), "s");
                line(&format!("{fix} fix would save about {saved}:"));
            }
        }
        line(&format!("  {}", prediction.rule));
    }
    out
}

/// As many frames as a line takes.
fn shortened(stack: &str) -> String {
    const ROOM: usize = 65;
    let mut line = String::new();
    for (number, frame) in stack.split(" < ").enumerate() {
        let separator = if number == 0 { "" } else { " < " };
        if line.len() + separator.len() + frame.len() > ROOM && number > 0 {
            line.push_str(" ...");
            break;
        }
        line.push_str(separator);
        line.push_str(frame);
    }
    line
}

struct Saved(i64);

impl std::fmt::Display for Saved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let seconds = self.0.unsigned_abs() as f64 / 1e9;
        write!(f, "{sign}{}", with_unit(seconds, "s"))
    }
}

/// What the fix did or why not, most calls first.
fn outcomes(site: &Site) -> String {
    let mut outcomes = site.outcomes.clone();
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.calls));
    let texts = outcomes.iter().map(|outcome| {
        let active = outcome.outcome.is_some_and(Outcome::is_active);
        let mark = if active { "fix active: " } else { "" };
        format!("{mark}{} x {}", outcome.text(), grouped(outcome.calls))
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// `39366` as `39,366`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
