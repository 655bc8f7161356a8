//! A judgement as one sentence, for the first line of every report.

use towpath_measure::Verdict;
use towpath_measure::judge::{Judgement, Remark};

use crate::numbers::{p_value, percent};
use crate::result::{MetricJudgement, ResultFile};

/// The sentence on one metric: verdict, size, interval, evidence.
#[must_use]
pub fn verdict(file: &ResultFile, judged: &MetricJudgement) -> String {
    let judgement = &judged.judgement;
    let subject = format!("{}: {}", judged.metric, file.arm(judged.arm).label);
    let claim = match judgement.verdict {
        Verdict::Faster => format!("is better than {}", file.a.label),
        Verdict::Slower => format!("is worse than {}", file.a.label),
        Verdict::Equivalent => {
            format!(
                "and {} are equivalent within {}",
                file.a.label,
                margin(judgement)
            )
        }
        Verdict::Inconclusive => format!("against {} is inconclusive", file.a.label),
    };
    let mut sentence = format!("{subject} {claim}");
    if let Some(change) = judgement.change() {
        sentence.push_str(&format!(": {}", change_text(judgement, change)));
    }
    if let Some(interval) = interval(judgement) {
        sentence.push_str(&format!(" ({interval})"));
    }
    sentence.push_str(&format!(", {}", evidence(judgement)));
    if is_inside_margin(judgement) {
        sentence.push_str(&format!("; inside the margin of {}", margin(judgement)));
    }
    sentence
}

/// What would make it conclusive, if it is not: "about 12 more pairs would settle 1 %".
#[must_use]
pub fn outlook(judgement: &Judgement) -> Option<String> {
    if judgement.verdict != Verdict::Inconclusive {
        return None;
    }
    if judgement.remarks.contains(&Remark::TooFewRuns) {
        return Some("two runs per arm are the least that can be judged".to_owned());
    }
    // The size that matters to the asker; if that is out of reach, or none was named, the size that was seen.
    let seen = judgement.change().map_or(0.01, f64::abs).clamp(0.001, 0.5);
    let margin = judgement.question.margin;
    let is_welch = judgement.method == towpath_measure::judge::Method::Welch;
    let what = if is_welch { "runs per arm" } else { "pairs" };
    let size = |effect: f64| percent(effect).trim_start_matches('+').to_owned();
    let about = |effect: f64| {
        let text = match judgement.more_pairs_for(effect)? {
            // These would do on average, but chance went against them.
            0 => format!("as many {what} again should settle {}", size(effect)),
            more => format!("about {more} more {what} would settle {}", size(effect)),
        };
        Some(text)
    };
    if margin <= 0.0 {
        return about(seen);
    }
    let hopeless = || {
        judgement.spread.filter(|&spread| spread > 0.0)?;
        let hopeless = format!(
            "no realistic number of {what} would settle {}",
            size(margin)
        );
        let instead = Some(seen).filter(|&seen| seen > margin).and_then(about);
        Some(instead.map_or(hopeless.clone(), |instead| format!("{hopeless}; {instead}")))
    };
    about(margin).or_else(hopeless)
}

/// The smallest effect that these runs would have found.
#[must_use]
pub fn detectable(judgement: &Judgement) -> Option<String> {
    let effect = judgement.detectable.filter(|&effect| effect > 0.0)?;
    Some(format!(
        "a true change of {} would have been found with 80 % probability",
        percent(effect).trim_start_matches('+')
    ))
}

fn evidence(judgement: &Judgement) -> String {
    let runs = if judgement.method == towpath_measure::judge::Method::Welch {
        format!("{} + {} runs", judgement.runs_a, judgement.runs_b)
    } else if judgement.runs_a == judgement.runs_b {
        format!("{} pairs", judgement.runs_a)
    } else {
        format!("{} + {} runs", judgement.runs_a, judgement.runs_b)
    };
    if judgement.verdict == Verdict::Equivalent {
        return format!("{runs}, {}", p_text(judgement.p_equivalent_adjusted));
    }
    format!("{runs}, {}", p_text(judgement.p_adjusted))
}

/// `p = 0.031`, `p < 0.0001`.
fn p_text(p: f64) -> String {
    let value = p_value(p);
    value
        .strip_prefix('<')
        .map_or_else(|| format!("p = {value}"), |bound| format!("p < {bound}"))
}

/// The change in percent; as the plain difference where A is 0 and percent mean nothing. `-` without an estimate.
#[must_use]
pub fn change(judgement: &Judgement) -> String {
    judgement
        .change()
        .map_or_else(|| "-".to_owned(), |change| change_text(judgement, change))
}

pub(crate) fn change_text(judgement: &Judgement, change: f64) -> String {
    if judgement.scale == towpath_measure::judge::Scale::Difference && judgement.mean_a == Some(0.0)
    {
        let digits = crate::numbers::significant(change, 4);
        return if change > 0.0 {
            format!("+{digits}")
        } else {
            digits
        };
    }
    percent(change)
}

/// `-4.3 % to -2.1 % at 95 %`; open ends are said.
#[must_use]
pub fn interval(judgement: &Judgement) -> Option<String> {
    let (low, high) = judgement.change_interval();
    let end = |value: Option<f64>| {
        value.map_or_else(
            || "unbounded".to_owned(),
            |value| change_text(judgement, value),
        )
    };
    if low.is_none() && high.is_none() {
        return None;
    }
    let level = crate::numbers::significant(100.0 * (1.0 - judgement.question.level), 3);
    let level = level.trim_end_matches('0').trim_end_matches('.');
    Some(format!("{} to {} at {level} %", end(low), end(high)))
}

fn margin(judgement: &Judgement) -> String {
    percent(judgement.question.margin)
        .trim_start_matches('+')
        .to_owned()
}

fn is_inside_margin(judgement: &Judgement) -> bool {
    let is_claim = matches!(judgement.verdict, Verdict::Faster | Verdict::Slower);
    is_claim
        && judgement.question.margin > 0.0
        && judgement.p_equivalent <= judgement.question.level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;

    #[test]
    fn a_sentence_says_verdict_size_interval_and_evidence() {
        let file = example();
        let text = verdict(&file, &file.judgements[0]);
        assert_eq!(
            text,
            "wall: on is better than off: -4.00 % (-4.00 % to -4.00 % at 95 %), 8 pairs, p = 0.016"
        );
        let text = verdict(&file, &file.judgements[1]);
        assert!(
            text.starts_with("memory: on and off are equivalent within 1.00 %"),
            "{text}"
        );
    }

    #[test]
    fn an_inconclusive_result_says_what_would_settle_it() {
        let mut file = example();
        let jitter = [0.03, -0.04, 0.02, -0.01, 0.035, -0.02, 0.01, -0.025];
        for (index, run) in file.runs.iter_mut().enumerate() {
            run.read("wall", 2.0 * (1.0 + jitter[(index * 5 + 3) % 8]));
        }
        file.judge().unwrap();
        let judgement = &file.judgements[0].judgement;
        assert_eq!(judgement.verdict, Verdict::Inconclusive);
        let text = outlook(judgement).unwrap();
        assert!(
            text.starts_with("about ") && text.ends_with(" more pairs would settle 1.00 %"),
            "{text}"
        );
        assert!(detectable(judgement).unwrap().contains("80 %"));
    }

    /// A count that was 0 in A rose by "+12.5 %" of nothing.
    #[test]
    fn a_change_from_zero_is_no_percentage() {
        let mut file = example();
        for run in &mut file.runs {
            let value = if run.arm == towpath_measure::Arm::B && run.pair == 0 {
                1.0
            } else {
                0.0
            };
            run.read("wall", value);
        }
        file.judge().unwrap();
        let judgement = &file.judgements[0].judgement;
        assert_eq!(change(judgement), "+0.1250");
        let shown = crate::terminal::render(&file, crate::terminal::Style::default());
        assert!(
            shown.contains("+0.1250") && !shown.contains("12.5 %"),
            "{shown}"
        );
    }
}
