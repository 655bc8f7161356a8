//! Independent runs: Welch's t-test.

use super::paired::{by_t_of, relative_spread};
use super::{Judgement, Method, Question, Remark, Scale};
use crate::error::Result;
use crate::plan;
use crate::sample::{check_finite, mean};
use crate::ttest;

/// Judges independent runs of two arms by Welch's t-test, on logarithms for ratios.
///
/// If the runs were not alternated, a drift of the machine looks like a difference; say so beside the verdict.
///
/// # Errors
///
/// [`Error::NotFinite`](crate::Error::NotFinite), [`Error::Parameter`](crate::Error::Parameter).
pub fn unpaired(a: &[f64], b: &[f64], question: &Question) -> Result<Judgement> {
    question.check()?;
    check_finite(a, "A")?;
    check_finite(b, "B")?;
    let mut judged = Judgement::blank(question, a, b);
    judged.choose_scale(a, b);
    let on_scale = |values: &[f64]| -> Vec<f64> {
        match judged.scale {
            Scale::Ratio => values.iter().map(|value| libm::log(*value)).collect(),
            Scale::Difference => values.to_vec(),
        }
    };
    let (a, b) = (on_scale(a), on_scale(b));
    let center = mean(&b) - mean(&a);
    if !a.is_empty() && !b.is_empty() {
        judged.estimate = Some(judged.back(center));
    }
    if a.len() < 2 || b.len() < 2 {
        judged.remarks.push(Remark::TooFewRuns);
        return Ok(judged);
    }
    let welch = ttest::welch(&a, &b)?;
    judged.spread = relative_spread(&judged, ttest::pooled_deviation(&a, &b));
    let detectable = judged
        .spread
        .and_then(|spread| plan::detectable_unpaired(a.len(), b.len(), spread, question.level));
    judged.set_detectable(detectable);
    if welch.error > 0.0 {
        by_t_of(&mut judged, center, welch.error, welch.df, Method::Welch);
    } else {
        never_varied(&mut judged, center);
    }
    judged.p_adjusted = judged.p;
    judged.p_equivalent_adjusted = judged.p_equivalent;
    judged.decide();
    Ok(judged)
}

/// Neither arm varied: of the ways to deal the values out to the arms, this one is the most extreme.
fn never_varied(judged: &mut Judgement, center: f64) {
    judged.low = Some(judged.back(center));
    judged.high = judged.low;
    let is_same = center == 0.0;
    judged.remarks.push(if is_same {
        Remark::Identical
    } else {
        Remark::NeverVaried
    });
    let p = smallest_permutation_p(judged.runs_a, judged.runs_b);
    if !is_same {
        judged.p = p;
    }
    if center.abs() < judged.test_margin() {
        judged.p_equivalent = p / 2.0;
    }
}

/// The smallest two-sided p-value of a permutation test: 2 / C(a + b, a).
#[must_use]
pub fn smallest_permutation_p(runs_a: usize, runs_b: usize) -> f64 {
    let deals: f64 = (1..=runs_a)
        .map(|k| (runs_b + k) as f64 / k as f64)
        .product();
    (2.0 / deals).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, holm};
    use super::*;

    /// The table of seed 000, before and after.
    const SEED_000: [(&str, [f64; 3], [f64; 3], f64); 6] = [
        (
            "reads over 10 ms",
            [267.0, 274.0, 324.0],
            [3.0, 0.0, 0.0],
            0.0038,
        ),
        (
            "worst read",
            [150.0, 118.0, 153.0],
            [68.0, 7.0, 6.0],
            0.0155,
        ),
        ("over 33.4 ms", [8.0, 11.0, 22.0], [3.0, 2.0, 1.0], 0.109),
        ("over 25 ms", [36.0, 41.0, 49.0], [27.0, 18.0, 24.0], 0.0184),
        (
            "late",
            [883.0, 992.0, 1260.0],
            [709.0, 581.0, 608.0],
            0.0538,
        ),
        ("1 % low", [32.7, 28.9, 25.8], [33.3, 37.8, 37.0], 0.0536),
    ];

    #[test]
    fn seed_000_gives_the_welch_and_holm_values_of_the_research_note() {
        let question = Question::lower_is_better().with_scale(Scale::Difference);
        let mut judged: Vec<Judgement> = SEED_000
            .iter()
            .map(|(name, a, b, want)| {
                let judged = unpaired(a, b, &question).unwrap();
                let unit = if *want > 0.1 { 1e-3 } else { 1e-4 };
                assert!((judged.p - want).abs() < unit / 2.0, "{name}: {}", judged.p);
                judged
            })
            .collect();
        holm(&mut judged);
        assert!(
            (judged[0].p_adjusted - 0.023).abs() < 5e-4,
            "{}",
            judged[0].p_adjusted
        );
        let proven = judged
            .iter()
            .filter(|judged| judged.verdict != Verdict::Inconclusive)
            .count();
        assert_eq!(proven, 1, "only the reads survive");
    }

    #[test]
    fn the_smallest_p_of_ranks_is_known_before() {
        for (n, want) in [(3, 0.1), (4, 2.0 / 70.0), (5, 2.0 / 252.0)] {
            assert!((smallest_permutation_p(n, n) - want).abs() < 1e-12);
        }
    }

    /// Welch's degrees of freedom went through fourth powers of the values: NaN beyond 1e77 and below 1e-81.
    #[test]
    fn p_values_are_probabilities_at_any_magnitude() {
        let question = Question::lower_is_better()
            .with_margin(0.01)
            .with_scale(Scale::Difference);
        let want = unpaired(&[1.0, 2.0, 4.0], &[3.0, 7.0, 5.0], &question).unwrap();
        for size in [1e-100, 1e-90, 1e-50, 1e50, 1e80, 1e149] {
            let scaled = |values: [f64; 3]| values.map(|value| value * size);
            let (a, b) = (scaled([1.0, 2.0, 4.0]), scaled([3.0, 7.0, 5.0]));
            let judged = unpaired(&a, &b, &question).unwrap();
            assert!((judged.p - want.p).abs() < 1e-9, "{size:e}: {}", judged.p);
        }
        let edge = [1e150, -1e150, 1e-308, 0.0, 3.0, -2.0];
        for a in edge {
            for b in edge {
                let arms = ([a, b, 1.0], [b, a, a]);
                for judged in [
                    unpaired(&arms.0, &arms.1, &question).unwrap(),
                    super::super::paired(&arms.0, &arms.1, &question).unwrap(),
                    super::super::sequential(&arms.0, &arms.1, &question).unwrap(),
                ] {
                    for p in [judged.p, judged.p_equivalent] {
                        assert!((0.0..=1.0).contains(&p), "{arms:?}: {p}");
                    }
                }
            }
        }
        assert!(unpaired(&[1e151, 1.0], &[1.0, 2.0], &question).is_err());
    }

    #[test]
    fn constant_arms_never_give_nan() {
        let question = Question::lower_is_better().with_margin(0.01);
        let moved = unpaired(&[1.0; 5], &[2.0; 5], &question).unwrap();
        assert_eq!(
            (moved.verdict, moved.remarks.as_slice()),
            (Verdict::Slower, &[Remark::NeverVaried][..])
        );
        let same = unpaired(&[1.0; 5], &[1.0; 5], &question).unwrap();
        assert_eq!(same.verdict, Verdict::Equivalent);
        assert_eq!(
            unpaired(&[1.0], &[2.0, 3.0], &question)
                .unwrap()
                .p
                .to_bits(),
            1.0_f64.to_bits()
        );
        assert_eq!(unpaired(&[], &[], &question).unwrap().estimate, None);
    }
}
