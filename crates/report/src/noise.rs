//! What a comparison of equal arms shows: the smallest differences that this machine lets one find.

use towpath_measure::plan;
use towpath_measure::{Verdict, judge::Judgement};

use crate::numbers::percent;
use crate::result::ResultFile;

/// Numbers of pairs that a person would consider.
const PAIRS: [usize; 4] = [6, 10, 20, 50];

/// The noise floor in sentences, one per judged metric; empty for arms that differ on purpose.
#[must_use]
pub fn lines(file: &ResultFile) -> Vec<String> {
    if !file.design.is_null {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for judged in &file.judgements {
        lines.extend(floor(&judged.metric, &judged.judgement));
        if matches!(judged.judgement.verdict, Verdict::Faster | Verdict::Slower) {
            lines.push(format!(
                "{}: equal arms were told apart, which chance does in {} of such experiments; if it happens again, \
                 something differs between the arms (their state folders, their place in memory)",
                judged.metric,
                plain(judged.judgement.question.level)
            ));
        }
    }
    lines
}

fn floor(metric: &str, judgement: &Judgement) -> Option<String> {
    let spread = judgement.spread?;
    if spread <= 0.0 {
        return Some(format!("noise floor of {metric}: it never varied"));
    }
    let level = judgement.question.level;
    let found: Vec<String> = PAIRS
        .iter()
        .filter_map(|&pairs| {
            let effect = plan::detectable(pairs, spread, level)?;
            Some(format!("{} with {pairs} pairs", plain(effect)))
        })
        .collect();
    let settled = judgement
        .question
        .margin
        .gt(&0.0)
        .then(|| plan::pairs_to_settle(judgement.question.margin, spread, level))
        .flatten()
        .map_or_else(String::new, |pairs| {
            format!(
                "; {pairs} pairs settle {}",
                plain(judgement.question.margin)
            )
        });
    Some(format!(
        "noise floor of {metric}: pairs scatter by {}; found with 80 % probability: {}{settled}",
        plain(spread),
        found.join(", ")
    ))
}

/// Percent without a sign.
fn plain(share: f64) -> String {
    percent(share).trim_start_matches('+').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;
    use crate::terminal;
    use towpath_measure::Arm;

    #[test]
    fn equal_arms_show_what_could_be_found() {
        let mut file = example();
        assert!(lines(&file).is_empty(), "these arms differ on purpose");
        file.design.is_null = true;
        let jitter = [1.0, 1.02, 0.985, 1.01, 0.99, 1.005, 0.995, 1.0];
        for run in &mut file.runs {
            let factor = if run.arm == Arm::B {
                jitter[run.pair]
            } else {
                1.0
            };
            run.read("wall", 2.0 * factor);
            run.read("memory", 1e8);
        }
        file.judge().unwrap();
        let text = lines(&file);
        // The deviation of these log ratios is 1.126 %; the t-test of 20 pairs finds 0.66 of it.
        assert!(
            text[0].starts_with("noise floor of wall: pairs scatter by 1.1")
                && text[0].contains("0.74 % with 20 pairs")
                && text[0].contains("pairs settle 1.00 %"),
            "{text:?}"
        );
        assert_eq!(text[1], "noise floor of memory: it never varied");
        let shown = terminal::render(&file, terminal::Style::default());
        assert!(shown.contains("noise floor of wall"), "{shown}");
    }

    #[test]
    fn equal_arms_that_were_told_apart_are_a_warning() {
        let mut file = example();
        file.design.is_null = true;
        let text = lines(&file).join("\n");
        assert!(text.contains("wall: equal arms were told apart"), "{text}");
    }
}
