//! Runs without a test: every value and the means, for designs that are too small to prove anything.

use std::fmt::Write as _;

use towpath_measure::Arm;
use towpath_measure::plan;
use towpath_measure::sample::mean;

use crate::numbers::significant;
use crate::result::{Metric, Pairing, ResultFile};
use crate::terminal::wrap;

/// One arm's values of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The metric with its unit; empty below the first arm.
    pub metric: String,
    /// The arm's label.
    pub arm: String,
    /// Every run's value in the order made: `8 / 11 / 22`. A run without a value is `-`.
    pub runs: String,
    /// Their mean.
    pub mean: String,
}

/// Why nothing was tested, in one sentence; `None` for a design that tests.
#[must_use]
pub fn reason(file: &ResultFile) -> Option<String> {
    let design = file.design.is_described.then_some(&file.design)?;
    let runs = file.runs.iter().filter(|run| run.arm == Arm::A).count();
    let hopeless = plan::check(runs, 1, design.level).err();
    Some(match hopeless {
        Some(hopeless) if design.pairing == Pairing::Paired => format!(
            "not tested: n too small. {runs} runs per arm can prove nothing at the level {} (the smallest possible \
             p-value is {:.3}; {} pairs are the least): every run and the means are shown, no claim is made",
            design.level, hopeless.smallest_p, hopeless.needed
        ),
        _ => "not tested, as asked: every run and the means are shown, no claim is made".to_owned(),
    })
}

/// The values of all metrics that are not informative only, arm by arm.
#[must_use]
pub fn rows(file: &ResultFile) -> Vec<Row> {
    let shown = file.metrics.iter().filter(|metric| !metric.is_informative);
    let arms = file.arms().iter().enumerate();
    shown
        .flat_map(|metric| {
            arms.clone()
                .map(move |(place, &arm)| row(file, metric, arm, place == 0))
        })
        .collect()
}

fn row(file: &ResultFile, metric: &Metric, arm: Arm, is_first: bool) -> Row {
    let runs = file.runs.iter().filter(|run| run.arm == arm);
    let values: Vec<Option<f64>> = runs.map(|run| run.value(&metric.name)).collect();
    let present: Vec<f64> = values.iter().copied().flatten().collect();
    let cells: Vec<String> = values
        .iter()
        .map(|value| value.map_or_else(|| "-".to_owned(), short))
        .collect();
    let name = match (is_first, metric.unit.as_str()) {
        (false, _) => String::new(),
        (true, "") => metric.name.clone(),
        (true, unit) => format!("{}, {unit}", metric.name),
    };
    Row {
        metric: name,
        arm: file.arm(arm).label.clone(),
        runs: cells.join(" / "),
        mean: if present.is_empty() {
            "unavailable".to_owned()
        } else {
            short(mean(&present))
        },
    }
}

/// Four digits, and whole numbers as such: counts are not `3.000`.
fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e9 {
        return format!("{value:.0}");
    }
    significant(value, 4)
}

/// The table for a terminal: blocks of one metric, long lists of runs broken under themselves.
#[must_use]
pub fn text(file: &ResultFile, width: usize) -> String {
    let rows = rows(file);
    let widest =
        |of: &dyn Fn(&Row) -> usize, most: usize| rows.iter().map(of).max().unwrap_or(0).min(most);
    let metric = widest(&|row| row.metric.chars().count(), 22);
    let arm = widest(&|row| row.arm.chars().count(), 16);
    let indent = " ".repeat(metric + arm + 4);
    let mut text = String::new();
    for row in &rows {
        let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
        let head = format!(
            "{:<metric$}  {:<arm$}  ",
            cut(&row.metric, metric),
            cut(&row.arm, arm)
        );
        let runs = format!("{} (mean {})", row.runs, row.mean);
        let broken = wrap(&runs, width.saturating_sub(indent.len()).max(20), "");
        for (place, line) in broken.lines().enumerate() {
            let before = if place == 0 { &head } else { &indent };
            let _ = writeln!(
                text,
                "{}",
                format!("{before}{}", line.trim_start()).trim_end()
            );
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::judging::FailOn;
    use crate::judging::tests::example;
    use crate::result::Run;
    use crate::terminal;

    /// Three rounds of three arms; the third arm's last run has no value.
    pub(crate) fn described() -> ResultFile {
        let mut file = example();
        file.runs.retain(|run| run.pair < 3);
        file.design.is_described = true;
        "third".clone_into(&mut file.c.label);
        for pair in 0..3 {
            let mut run = Run::new(Arm::C, pair);
            if pair < 2 {
                run.read("wall", 7.0);
            }
            file.runs.push(run);
        }
        file.judge().unwrap();
        file
    }

    #[test]
    fn every_run_is_shown_and_nothing_is_claimed() {
        let file = described();
        assert!(file.judgements.is_empty());
        assert_eq!(file.exit_code(FailOn::Regression), 0);
        assert_eq!(file.exit_code(FailOn::Inconclusive), 3);
        let text = terminal::render(&file, terminal::Style::default());
        assert!(
            text.starts_with("not tested: n too small. 3 runs per arm"),
            "{text}"
        );
        assert!(text.contains("7 / 7 / - (mean 7)"), "{text}");
        assert!(text.contains("2 / 2.008 / 1.994 (mean 2.001)"), "{text}");
        for word in ["better", "worse", "equivalent", "p = "] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 74),
            "{text}"
        );
        let markdown = crate::markdown::render(&file, 100_000);
        assert!(
            markdown.contains("|  | third | 7 / 7 / - | 7 |"),
            "{markdown}"
        );
        let page = crate::html::render(&file);
        assert!(page.contains("not tested: n too small") && page.contains("7 / 7 / -"));
    }

    #[test]
    fn enough_pairs_that_are_only_described_say_so() {
        let mut file = example();
        file.design.is_described = true;
        assert!(reason(&file).unwrap().starts_with("not tested, as asked"));
        file.design.is_described = false;
        assert_eq!(reason(&file), None);
    }
}
