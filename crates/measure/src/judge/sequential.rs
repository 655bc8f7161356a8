//! Looking after every pair without paying for it: the sign e-process.
//!
//! If the arms do not differ and the order in each pair is random, "B is below A" is a fair coin. Betting on the coin with
//! a uniform prior over its bias grows a stake E = 2^n B(s + 1, n - s + 1), which exceeds 1 / level with
//! probability at most `level`, however often one looks (Ville). Eight unanimous pairs suffice at 5 %.

use super::paired::{differences, relative_spread};
use super::{Judgement, Method, Question, Remark};
use crate::error::{Error, Result};
use crate::sample::{check_finite, deviation, median};
use crate::special::ln_gamma;

/// The stake of the sign e-process after some pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SignProcess {
    below: usize,
    above: usize,
    log_stake_max: f64,
}

impl SignProcess {
    /// Adds a pair; equal arms carry no sign and change nothing.
    pub fn push(&mut self, difference: f64) {
        if difference < 0.0 {
            self.below += 1;
        } else if difference > 0.0 {
            self.above += 1;
        }
        self.log_stake_max = self.log_stake_max.max(log_stake(self.below, self.above));
    }

    /// The p-value that holds at every look: 1 over the highest stake so far.
    #[must_use]
    pub fn p(&self) -> f64 {
        libm::exp(-self.log_stake_max).min(1.0)
    }

    /// The stake now.
    #[must_use]
    pub fn stake(&self) -> f64 {
        libm::exp(log_stake(self.below, self.above))
    }
}

/// ln(2^n B(s + 1, n - s + 1)) = n ln 2 - ln(n + 1)! + ln s! + ln (n - s)!.
fn log_stake(below: usize, above: usize) -> f64 {
    let factorial = |n: usize| ln_gamma(n as f64 + 1.0);
    let pairs = below + above;
    let evidence = factorial(below) + factorial(above) - factorial(pairs + 1);
    // A stake on nothing is exactly 1.
    if pairs == 0 {
        0.0
    } else {
        pairs as f64 * std::f64::consts::LN_2 + evidence
    }
}

/// Judges pairs in the order in which they came, so that one may stop as soon as the verdict is not
/// [`Inconclusive`](super::Verdict::Inconclusive).
///
/// The estimate is the median ratio (or difference), the interval the confidence sequence for it: all medians that
/// the e-process has not ruled out at any pair so far.
///
/// # Cost
///
/// O(n^2) moves of one number for n pairs: 200 pairs take about 50 us.
///
/// # Errors
///
/// As [`paired`](super::paired).
pub fn sequential(a: &[f64], b: &[f64], question: &Question) -> Result<Judgement> {
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
    if differences.len() < 2 {
        judged.estimate = differences.first().map(|&value| judged.back(value));
        judged.remarks.push(Remark::TooFewRuns);
        return Ok(judged);
    }
    judged.method = Method::SignProcess;
    judged.estimate = Some(judged.back(median(&differences)));
    judged.spread = relative_spread(&judged, deviation(&differences));
    let mut process = SignProcess::default();
    for &difference in &differences {
        process.push(difference);
    }
    judged.p = process.p();
    let (low, high) = confidence_sequence(&differences, question.level);
    judged.low = low.map(|value| judged.back(value));
    judged.high = high.map(|value| judged.back(value));
    let margin = judged.test_margin();
    if margin > 0.0 {
        let (above, below) = (
            shifted_p(&differences, -margin),
            shifted_p(&differences, margin),
        );
        judged.p_equivalent = one_sided(&above, true).max(one_sided(&below, false));
    }
    judged.p_adjusted = judged.p;
    judged.p_equivalent_adjusted = judged.p_equivalent;
    judged.decide();
    Ok(judged)
}

/// The e-process of the differences against a shift, with where it stood when its stake was highest.
fn shifted_p(differences: &[f64], shift: f64) -> Vec<(f64, bool)> {
    let mut process = SignProcess::default();
    differences
        .iter()
        .map(|&difference| {
            process.push(difference - shift);
            (process.stake(), process.above > process.below)
        })
        .collect()
}

/// The p-value of the wanted side; a two-sided stake is valid for one side as well.
fn one_sided(looks: &[(f64, bool)], wants_above: bool) -> f64 {
    let best = looks
        .iter()
        .filter(|&&(_, is_above)| is_above == wants_above)
        .fold(1.0_f64, |best, &(stake, _)| best.max(stake));
    1.0 / best
}

/// The medians not ruled out at any look: after each pair those between two order statistics.
fn confidence_sequence(differences: &[f64], level: f64) -> (Option<f64>, Option<f64>) {
    let limit = -libm::log(level);
    let (mut low, mut high): (Option<f64>, Option<f64>) = (None, None);
    let mut ordered: Vec<f64> = Vec::with_capacity(differences.len());
    // How many values on one side still rule a median out, plus one; it never falls as pairs are added.
    let mut outside = 0;
    for &difference in differences {
        let place = ordered.partition_point(|&value| value < difference);
        ordered.insert(place, difference);
        let pairs = ordered.len();
        while outside <= pairs / 2 && log_stake(outside, pairs - outside) >= limit {
            outside += 1;
        }
        let Some(few) = outside.checked_sub(1) else {
            continue;
        };
        let (below, above) = (ordered.get(few), ordered.get(pairs - 1 - few));
        low = low.into_iter().chain(below.copied()).reduce(f64::max);
        high = high.into_iter().chain(above.copied()).reduce(f64::min);
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn eight_unanimous_pairs_are_proof_and_seven_are_not() {
        let a = [1.0; 8];
        let b = [0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97];
        let question = Question::lower_is_better();
        assert_eq!(
            sequential(&a[..7], &b[..7], &question).unwrap().verdict,
            Verdict::Inconclusive
        );
        let judged = sequential(&a, &b, &question).unwrap();
        assert_eq!(judged.verdict, Verdict::Faster);
        // 2^8 / 9.
        assert!((judged.p - 9.0 / 256.0).abs() < 1e-12);
        assert!(
            (judged.high.unwrap() - 0.97).abs() < 1e-9 && (judged.low.unwrap() - 0.9).abs() < 1e-9
        );
    }

    #[test]
    fn a_proof_once_had_is_not_lost_by_looking_on() {
        let mut process = SignProcess::default();
        for _ in 0..8 {
            process.push(-1.0);
        }
        let proven = process.p();
        for _ in 0..8 {
            process.push(1.0);
        }
        assert!(process.stake() < 20.0 && (process.p() - proven).abs() < 1e-15);
        process.push(0.0);
        assert_eq!(process.below + process.above, 16, "a tie is no pair");
    }

    #[test]
    fn equivalence_is_found_too() {
        let a = [1.0; 12];
        let b: Vec<f64> = (0..12)
            .map(|i| 1.0 + 0.0005 * f64::from(i % 5 - 2))
            .collect();
        let judged = sequential(&a, &b, &Question::lower_is_better().with_margin(0.01)).unwrap();
        assert_eq!(judged.verdict, Verdict::Equivalent);
        assert!(judged.p_equivalent <= 0.05);
    }
}
