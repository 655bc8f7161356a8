//! The exact sign-flip test of paired differences, and the interval that inverts it.
//!
//! If the order inside a pair was random and the arms do not differ, each difference is as likely as its
//! negative. Of the 2^n sign patterns those are counted whose sum is at least the one seen. Flipping a set of
//! pairs keeps the sum at least as large for a shift `d` exactly if the mean of that set is at most `d`, so the
//! means of all non-empty sets hold both the p-values for every shift and the interval (Hartigan's typical values).

use crate::convert::floor_count;
use crate::error::{Error, Result};

/// Most pairs that are enumerated: 2^20 sets take about 20 ms and 8 MiB.
pub const PAIRS_MAX: usize = 20;

/// The means of all non-empty sets of differences, in order.
#[derive(Clone, Debug)]
pub struct SignFlip {
    means: Vec<f64>,
    pairs: usize,
    tolerance: f64,
}

impl SignFlip {
    /// Enumerates the sets of `differences`.
    ///
    /// # Cost
    ///
    /// Time and memory grow with 2^n.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`]; [`Error::TooLarge`] above [`PAIRS_MAX`].
    pub fn new(differences: &[f64]) -> Result<Self> {
        // Differences of values at the end of the judged range lie beyond it, which does no harm here: nothing is squared.
        if let Some(index) = differences.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite {
                sample: "the differences".to_owned(),
                index,
                value: differences.get(index).copied().unwrap_or(f64::NAN),
            });
        }
        let pairs = differences.len();
        if pairs > PAIRS_MAX {
            return Err(Error::TooLarge {
                what: "a sign-flip test",
                have: pairs,
                most: PAIRS_MAX,
            });
        }
        // Sums by subset: each new difference doubles the list.
        let mut sets: Vec<(f64, u32)> = vec![(0.0, 0)];
        for &difference in differences {
            let added: Vec<_> = sets
                .iter()
                .map(|&(sum, count)| (sum + difference, count + 1))
                .collect();
            sets.extend(added);
        }
        let mut means: Vec<f64> = sets
            .iter()
            .skip(1)
            .map(|&(sum, count)| sum / f64::from(count))
            .collect();
        means.sort_unstable_by(f64::total_cmp);
        let largest = differences
            .iter()
            .fold(0.0_f64, |most, value| most.max(value.abs()));
        Ok(Self {
            means,
            pairs,
            tolerance: largest * 1e-12,
        })
    }

    fn patterns(&self) -> f64 {
        (self.means.len() + 1) as f64
    }

    /// One-sided p-value against "the shift is at most `shift`"; small if the differences lie above it.
    #[must_use]
    pub fn p_above(&self, shift: f64) -> f64 {
        let at_most = self
            .means
            .partition_point(|&mean| mean <= shift + self.tolerance);
        (at_most + 1) as f64 / self.patterns()
    }

    /// One-sided p-value against "the shift is at least `shift`"; small if the differences lie below it.
    #[must_use]
    pub fn p_below(&self, shift: f64) -> f64 {
        let below = self
            .means
            .partition_point(|&mean| mean < shift - self.tolerance);
        (self.means.len() - below + 1) as f64 / self.patterns()
    }

    /// Two-sided p-value against "the shift is 0".
    #[must_use]
    pub fn p(&self) -> f64 {
        (2.0 * self.p_above(0.0).min(self.p_below(0.0))).min(1.0)
    }

    /// The shifts that a two-sided test at `level` does not reject; `None` if the pairs are too few to bound any.
    #[must_use]
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        // A hair above, so that 0.05 / 2 * 2^n that is whole stays whole.
        let cut = floor_count(level / 2.0 * self.patterns() + 1e-9);
        let low = self.means.get(cut.checked_sub(1)?)?;
        let high = self.means.get(self.means.len().checked_sub(cut)?)?;
        Some((*low, *high))
    }

    /// How many pairs there are.
    #[must_use]
    pub const fn pairs(&self) -> usize {
        self.pairs
    }
}

/// The smallest two-sided p-value that `pairs` pairs can reach: 2 / 2^n.
#[must_use]
pub fn smallest_p(pairs: usize) -> f64 {
    let halvings = i32::try_from(pairs.min(1_000)).unwrap_or(1_000);
    2.0 * libm::ldexp(1.0, -halvings).min(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_pairs_prove_nothing_and_six_do() {
        let five = SignFlip::new(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((five.p() - 0.0625).abs() < 1e-12);
        assert_eq!(five.interval(0.05), None);
        let six = SignFlip::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert!((six.p() - 0.03125).abs() < 1e-12);
        assert_eq!(six.interval(0.05), Some((1.0, 6.0)));
        assert!((smallest_p(6) - 0.03125).abs() < 1e-12);
    }

    #[test]
    fn the_interval_is_what_the_test_does_not_reject() {
        let mut random = crate::random::Random::new(11);
        for n in 6..=10 {
            let differences: Vec<f64> = (0..n).map(|_| random.normal() + 0.5).collect();
            let (low, high) = SignFlip::new(&differences).unwrap().interval(0.05).unwrap();
            let p_at = |shift: f64| {
                let moved: Vec<f64> = differences.iter().map(|value| value - shift).collect();
                SignFlip::new(&moved).unwrap().p()
            };
            let hair = 1e-6;
            assert!(p_at(low - hair) <= 0.05 && p_at(high + hair) <= 0.05, "{n}");
            assert!(p_at(low + hair) > 0.05 && p_at(high - hair) > 0.05, "{n}");
        }
    }

    #[test]
    fn equal_pairs_are_no_evidence() {
        let flat = SignFlip::new(&[0.0; 8]).unwrap();
        assert!((flat.p() - 1.0).abs() < 1e-12);
        assert!(SignFlip::new(&[0.0; 21]).is_err());
        assert!((SignFlip::new(&[]).unwrap().p() - 1.0).abs() < 1e-12);
    }
}
