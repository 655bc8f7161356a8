//! Pairs of runs: exact sign-flip test for few pairs, paired t-test for many.

use super::{EXACT_PAIRS_MAX, Judgement, Method, Question, Remark, Scale};
use crate::error::{Error, Result};
use crate::plan;
use crate::sample::{check_finite, deviation, mean};
use crate::signflip::{self, SignFlip};
use crate::student::{t_both_tails, t_upper, t_upper_quantile};

/// Judges pairs: `a[i]` and `b[i]` were measured next to each other, in random order.
///
/// On log ratios where all values are positive, else on differences. Up to [`EXACT_PAIRS_MAX`] pairs by the exact
/// sign-flip test, which assumes nothing but the random order (and proves nothing below 6 pairs at 5 %); above
/// by the paired t-test.
///
/// # Errors
///
/// [`Error::NotFinite`], [`Error::Unpaired`], [`Error::Parameter`].
pub fn paired(a: &[f64], b: &[f64], question: &Question) -> Result<Judgement> {
    question.check()?;
    check_finite(a, "A")?;
    check_finite(b, "B")?;
    if a.len() != b.len() {
        return Err(Error::Unpaired {
            a: a.len(),
            b: b.len(),
        });
    }
    let mut judged = Judgement::blank(question, a, b);
    judged.choose_scale(a, b);
    let differences = differences(a, b, judged.scale);
    if !differences.is_empty() {
        judged.estimate = Some(judged.back(mean(&differences)));
    }
    if differences.len() < 2 {
        judged.remarks.push(Remark::TooFewRuns);
        return Ok(judged);
    }
    let deviation = deviation(&differences);
    judged.spread = relative_spread(&judged, deviation);
    let detectable = judged
        .spread
        .and_then(|spread| plan::detectable(a.len(), spread, question.level));
    judged.set_detectable(detectable);
    if differences.iter().all(|&difference| difference == 0.0) {
        same(&mut judged);
    } else if differences.len() <= EXACT_PAIRS_MAX {
        by_sign_flip(&mut judged, &differences)?;
    } else if deviation > 0.0 {
        by_t(&mut judged, &differences, deviation);
    } else {
        never_varied(&mut judged, &differences);
    }
    judged.p_adjusted = judged.p;
    judged.p_equivalent_adjusted = judged.p_equivalent;
    judged.decide();
    Ok(judged)
}

/// Log ratios, or differences.
pub(super) fn differences(a: &[f64], b: &[f64], scale: Scale) -> Vec<f64> {
    let difference = |(a, b): (&f64, &f64)| match scale {
        // Equal values must give exactly 0, which a difference of logs does.
        Scale::Ratio => libm::log(*b) - libm::log(*a),
        Scale::Difference => b - a,
    };
    a.iter().zip(b).map(difference).collect()
}

/// The spread as [`plan`] wants it: logs as they are, differences relative to A.
pub(super) fn relative_spread(judged: &Judgement, deviation: f64) -> Option<f64> {
    match (judged.scale, judged.mean_a) {
        (Scale::Ratio, _) => Some(deviation),
        (Scale::Difference, Some(mean)) if mean != 0.0 => Some(deviation / mean.abs()),
        (Scale::Difference, _) => None,
    }
}

/// Each B equals its A.
fn same(judged: &mut Judgement) {
    let zero = judged.back(0.0);
    judged.low = Some(zero);
    judged.high = Some(zero);
    judged.remarks.push(Remark::Identical);
    judged.method = Method::SignFlip;
    if judged.test_margin() > 0.0 {
        judged.p_equivalent = signflip::smallest_p(judged.runs_a) / 2.0;
    }
}

/// All pairs differ by one and the same amount: only their number is evidence.
fn never_varied(judged: &mut Judgement, differences: &[f64]) {
    let shift = differences.first().copied().unwrap_or(0.0);
    judged.low = Some(judged.back(shift));
    judged.high = judged.low;
    judged.p = signflip::smallest_p(differences.len());
    judged.method = Method::SignFlip;
    judged.remarks.push(Remark::NeverVaried);
    let margin = judged.test_margin();
    if shift.abs() < margin {
        judged.p_equivalent = judged.p / 2.0;
    }
}

fn by_sign_flip(judged: &mut Judgement, differences: &[f64]) -> Result<()> {
    let test = SignFlip::new(differences)?;
    judged.method = Method::SignFlip;
    judged.p = test.p();
    if signflip::smallest_p(differences.len()) > judged.question.level {
        judged.remarks.push(Remark::CannotProve);
    }
    if let Some((low, high)) = test.interval(judged.question.level) {
        judged.low = Some(judged.back(low));
        judged.high = Some(judged.back(high));
    }
    let margin = judged.test_margin();
    if margin > 0.0 {
        judged.p_equivalent = test.p_above(-margin).max(test.p_below(margin));
    }
    Ok(())
}

fn by_t(judged: &mut Judgement, differences: &[f64], deviation: f64) {
    let n = differences.len() as f64;
    let (center, error, df) = (mean(differences), deviation / n.sqrt(), n - 1.0);
    by_t_of(judged, center, error, df, Method::PairedT);
}

/// Fills in what a t-statistic with its own error and freedom says.
pub(super) fn by_t_of(judged: &mut Judgement, center: f64, error: f64, df: f64, method: Method) {
    judged.method = method;
    judged.p = t_both_tails(center / error, df);
    let half = t_upper_quantile(judged.question.level / 2.0, df) * error;
    judged.low = Some(judged.back(center - half));
    judged.high = Some(judged.back(center + half));
    let margin = judged.test_margin();
    if margin > 0.0 {
        let above = t_upper((center + margin) / error, df);
        let below = t_upper((margin - center) / error, df);
        judged.p_equivalent = above.max(below);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Direction, Verdict, holm};
    use super::*;

    const OFF: [f64; 6] = [10.1, 10.3, 9.9, 10.2, 10.0, 10.4];

    fn scaled(by: &[f64]) -> Vec<f64> {
        OFF.iter().zip(by).map(|(off, by)| off * by).collect()
    }

    #[test]
    fn six_unanimous_pairs_prove_a_direction_and_five_do_not() {
        let on = scaled(&[0.9, 0.91, 0.89, 0.9, 0.92, 0.9]);
        let question = Question::lower_is_better();
        let judged = paired(&OFF, &on, &question).unwrap();
        assert_eq!(judged.verdict, Verdict::Faster);
        assert!((judged.p - 0.03125).abs() < 1e-12);
        let (low, high) = judged.change_interval();
        assert!((low.unwrap() + 0.11).abs() < 1e-9 && (high.unwrap() + 0.08).abs() < 1e-9);
        let other = paired(&OFF, &on, &Question::higher_is_better()).unwrap();
        assert_eq!(other.verdict, Verdict::Slower);
        assert_eq!(other.question.direction, Direction::Higher);
        let five = paired(&OFF[..5], &on[..5], &question).unwrap();
        assert_eq!(five.verdict, Verdict::Inconclusive);
        assert_eq!((five.low, five.remarks), (None, vec![Remark::CannotProve]));
    }

    #[test]
    fn equivalence_needs_a_margin_and_the_interval_inside_it() {
        let on = scaled(&[1.001, 0.999, 1.002, 0.998, 1.001, 0.9985]);
        let without = paired(&OFF, &on, &Question::lower_is_better()).unwrap();
        assert_eq!(without.verdict, Verdict::Inconclusive);
        let within = paired(&OFF, &on, &Question::lower_is_better().with_margin(0.01)).unwrap();
        assert_eq!(within.verdict, Verdict::Equivalent);
        let narrow = paired(&OFF, &on, &Question::lower_is_better().with_margin(0.001)).unwrap();
        assert_eq!(narrow.verdict, Verdict::Inconclusive);
        assert!(narrow.more_pairs_for(0.001).unwrap() > 0);
    }

    #[test]
    fn a_difference_inside_the_margin_is_no_regression() {
        let on = scaled(&[1.02, 1.03, 1.02, 1.025, 1.03, 1.02]);
        for (margin, is_regression) in [(0.0, true), (0.01, true), (0.05, false)] {
            let judged =
                paired(&OFF, &on, &Question::lower_is_better().with_margin(margin)).unwrap();
            assert_eq!(judged.verdict, Verdict::Slower);
            assert_eq!(judged.is_regression(), is_regression, "{margin}");
        }
    }

    #[test]
    fn values_that_do_not_vary_never_give_nan() {
        let question = Question::lower_is_better().with_margin(0.01);
        let equal = paired(&[2.0; 30], &[2.0; 30], &question).unwrap();
        assert_eq!(
            (equal.verdict, equal.p.to_bits()),
            (Verdict::Equivalent, 1.0_f64.to_bits())
        );
        assert_eq!(equal.remarks, [Remark::Identical]);
        let moved = paired(&[2.0; 30], &[3.0; 30], &question).unwrap();
        assert_eq!(moved.verdict, Verdict::Slower);
        assert!(moved.p > 0.0 && moved.remarks.contains(&Remark::NeverVaried));
        let zeros = paired(&[0.0; 8], &[0.0; 8], &question).unwrap();
        assert_eq!(
            zeros.verdict,
            Verdict::Inconclusive,
            "no margin can be a share of 0"
        );
    }

    #[test]
    fn zeros_are_judged_by_differences() {
        let a = [267.0, 274.0, 324.0, 280.0, 300.0, 290.0];
        let b = [3.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let judged = paired(&a, &b, &Question::lower_is_better()).unwrap();
        assert_eq!(
            (judged.scale, judged.verdict),
            (Scale::Difference, Verdict::Faster)
        );
        assert!(judged.remarks.contains(&Remark::NotPositive));
        assert!(judged.change().unwrap() < -0.98);
    }

    #[test]
    fn bad_input_is_refused_before_it_is_ordered() {
        let question = Question::lower_is_better();
        assert!(matches!(
            paired(&[1.0], &[f64::NAN], &question),
            Err(Error::NotFinite { .. })
        ));
        assert!(matches!(
            paired(&[1.0], &[], &question),
            Err(Error::Unpaired { .. })
        ));
        assert!(paired(&[1.0], &[2.0], &question.with_level(0.0)).is_err());
        assert_eq!(paired(&[], &[], &question).unwrap().estimate, None);
        assert_eq!(
            paired(&[1.0], &[2.0], &question).unwrap().verdict,
            Verdict::Inconclusive
        );
    }

    #[test]
    fn holm_takes_verdicts_back() {
        let on = scaled(&[0.9, 0.91, 0.89, 0.9, 0.92, 0.9]);
        let one = paired(&OFF, &on, &Question::lower_is_better()).unwrap();
        let mut two = vec![one.clone(), one];
        holm(&mut two);
        assert!(
            two.iter()
                .all(|judged| judged.verdict == Verdict::Inconclusive)
        );
        assert!((two[0].p_adjusted - 0.0625).abs() < 1e-12);
    }
}
