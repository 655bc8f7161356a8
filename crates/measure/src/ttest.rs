//! The t-tests as textbooks have them, on the values as given.
//!
//! Checked against scipy and statsmodels (`tests/vectors/tests.json`).

use crate::error::{Error, Result};
use crate::sample::{check_finite, mean, variance};
use crate::student::{t_both_tails, t_upper, t_upper_quantile};

/// A t-test: estimate of the difference B - A with its standard error and freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// Mean of B minus mean of A (paired: mean of the differences).
    pub estimate: f64,
    /// Standard error of the estimate.
    pub error: f64,
    /// Degrees of freedom.
    pub df: f64,
}

impl TTest {
    /// The t-statistic; infinite or NaN if nothing varied.
    #[must_use]
    pub fn t(&self) -> f64 {
        self.estimate / self.error
    }

    /// Two-sided p-value of "no difference".
    #[must_use]
    pub fn p(&self) -> f64 {
        t_both_tails(self.t(), self.df)
    }

    /// Interval for the difference at 1 - `level`.
    #[must_use]
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = t_upper_quantile(level / 2.0, self.df) * self.error;
        (self.estimate - half, self.estimate + half)
    }

    /// Two one-sided tests: the p-value of "the difference is not within (`low`, `high`)".
    #[must_use]
    pub fn p_equivalent(&self, low: f64, high: f64) -> f64 {
        let above = t_upper((self.estimate - low) / self.error, self.df);
        let below = t_upper((high - self.estimate) / self.error, self.df);
        above.max(below)
    }
}

/// Welch's test: two independent samples, each with its own variance.
///
/// # Errors
///
/// [`Error::NotFinite`]; [`Error::TooFew`] below two values per sample.
pub fn welch(a: &[f64], b: &[f64]) -> Result<TTest> {
    check(a, b)?;
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let (share_a, share_b) = (variance(a) / n_a, variance(b) / n_b);
    let square = share_a + share_b;
    // Welch and Satterthwaite's formula on shares of 1: fourth powers of the values would leave the range of numbers.
    let (part_a, part_b) = (share_a / square, share_b / square);
    let df = 1.0 / (part_a * part_a / (n_a - 1.0) + part_b * part_b / (n_b - 1.0));
    Ok(TTest {
        estimate: mean(b) - mean(a),
        error: square.sqrt(),
        df,
    })
}

/// Student's test: two independent samples that share one variance.
///
/// # Errors
///
/// As [`welch`].
pub fn pooled(a: &[f64], b: &[f64]) -> Result<TTest> {
    check(a, b)?;
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let df = n_a + n_b - 2.0;
    let error = pooled_deviation(a, b) * (1.0 / n_a + 1.0 / n_b).sqrt();
    Ok(TTest {
        estimate: mean(b) - mean(a),
        error,
        df,
    })
}

/// The deviation that two samples share.
#[must_use]
pub fn pooled_deviation(a: &[f64], b: &[f64]) -> f64 {
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    (((n_a - 1.0) * variance(a) + (n_b - 1.0) * variance(b)) / (n_a + n_b - 2.0)).sqrt()
}

/// The test of paired differences B - A; for ratios hand over logarithms.
///
/// # Errors
///
/// As [`welch`], and [`Error::Unpaired`].
pub fn paired(a: &[f64], b: &[f64]) -> Result<TTest> {
    check(a, b)?;
    if a.len() != b.len() {
        return Err(Error::Unpaired {
            a: a.len(),
            b: b.len(),
        });
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let n = differences.len() as f64;
    Ok(TTest {
        estimate: mean(&differences),
        error: (variance(&differences) / n).sqrt(),
        df: n - 1.0,
    })
}

fn check(a: &[f64], b: &[f64]) -> Result<()> {
    check_finite(a, "A")?;
    check_finite(b, "B")?;
    let have = a.len().min(b.len());
    if have < 2 {
        return Err(Error::TooFew {
            what: "a t-test",
            need: 2,
            have,
        });
    }
    Ok(())
}
