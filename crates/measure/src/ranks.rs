//! Tests that look at order only, and the estimates that go with them.
//!
//! Checked against scipy (`tests/vectors/ranks.json`); with ties against a full enumeration by scipy's
//! `permutation_test`.

#![expect(
    clippy::indexing_slicing,
    reason = "sums of ranks index tables that were sized by their largest sum"
)]

use crate::error::{Error, Result};
use crate::sample::{check_finite, median};
use crate::student::normal_cdf;

/// Up to so many values in all the distribution of rank sums is counted exactly.
pub const EXACT_VALUES_MAX: usize = 100;

/// A Mann-Whitney test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Number of pairs (a, b) with b above a, ties counting one half.
    pub u: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// Whether `p` is exact; else the normal approximation with ties and continuity correction.
    pub is_exact: bool,
}

/// Mann-Whitney's test of two independent samples; exact with ties up to [`EXACT_VALUES_MAX`] values.
///
/// # Errors
///
/// [`Error::NotFinite`]; [`Error::TooFew`] if a sample is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Result<MannWhitney> {
    check_finite(a, "A")?;
    check_finite(b, "B")?;
    let have = a.len().min(b.len());
    if have == 0 {
        return Err(Error::TooFew {
            what: "a Mann-Whitney test",
            need: 1,
            have,
        });
    }
    let both: Vec<f64> = a.iter().chain(b).copied().collect();
    let doubled = doubled_ranks(&both);
    let sum_b: usize = doubled.iter().skip(a.len()).sum();
    let n_b = b.len();
    let u = (sum_b as f64 - (n_b * (n_b + 1)) as f64) / 2.0;
    let is_exact = both.len() <= EXACT_VALUES_MAX;
    let p = if is_exact {
        exact_p(&doubled, n_b, sum_b)
    } else {
        approximate_p(&doubled, a.len(), n_b, u)
    };
    Ok(MannWhitney { u, p, is_exact })
}

/// Twice the mid-ranks, which are whole numbers.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&x, &y| values[x].total_cmp(&values[y]));
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let first = values[order[start]];
        let mut end = start;
        // total_cmp puts -0 before 0; they are equal all the same.
        while end < order.len() && values[order[end]] <= first {
            end += 1;
        }
        for &place in &order[start..end] {
            ranks[place] = start + 1 + end;
        }
        start = end;
    }
    ranks
}

/// Counts the ways to deal `n_b` of the ranks with each sum.
fn exact_p(doubled: &[usize], n_b: usize, sum_b: usize) -> f64 {
    let total: usize = doubled.iter().sum();
    let mut ways = vec![vec![0.0_f64; total + 1]; n_b + 1];
    ways[0][0] = 1.0;
    let mut reach = 0;
    for (taken, &rank) in doubled.iter().enumerate() {
        reach += rank;
        for count in (1..=n_b.min(taken + 1)).rev() {
            for sum in (rank..=reach).rev() {
                ways[count][sum] += ways[count - 1][sum - rank];
            }
        }
    }
    let all: f64 = ways[n_b].iter().sum();
    let at_most: f64 = ways[n_b].iter().take(sum_b + 1).sum();
    let at_least: f64 = ways[n_b].iter().skip(sum_b).sum();
    (2.0 * at_most.min(at_least) / all).min(1.0)
}

fn approximate_p(doubled: &[usize], n_a: usize, n_b: usize, u: f64) -> f64 {
    let (a, b) = (n_a as f64, n_b as f64);
    let n = a + b;
    let mut sorted = doubled.to_vec();
    sorted.sort_unstable();
    let ties: f64 = sorted
        .chunk_by(PartialEq::eq)
        .map(|tied| {
            let t = tied.len() as f64;
            t * t * t - t
        })
        .sum();
    let variance = a * b / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - a * b / 2.0).abs() - 0.5).max(0.0);
    (2.0 * normal_cdf(-distance / variance.sqrt())).min(1.0)
}

/// The exact sign test: two-sided p-value of `above` against `below` (ties left out).
#[must_use]
pub fn sign_test(above: usize, below: usize) -> f64 {
    let n = above + below;
    let few = above.min(below);
    let mut log_choices = 0.0_f64;
    let mut tail = 0.0_f64;
    for k in 0..=few {
        if k > 0 {
            log_choices += libm::log((n - k + 1) as f64 / k as f64);
        }
        tail += libm::exp(log_choices - n as f64 * std::f64::consts::LN_2);
    }
    (2.0 * tail).min(1.0)
}

/// Hodges and Lehmann's shift: the median of all differences b - a. Robust against outliers in either sample.
///
/// # Cost
///
/// Memory and time for |a| times |b| values.
///
/// # Errors
///
/// As [`mann_whitney`].
pub fn hodges_lehmann(a: &[f64], b: &[f64]) -> Result<f64> {
    check_finite(a, "A")?;
    check_finite(b, "B")?;
    let have = a.len().min(b.len());
    if have == 0 {
        return Err(Error::TooFew {
            what: "a shift",
            need: 1,
            have,
        });
    }
    let differences: Vec<f64> = a
        .iter()
        .flat_map(|a| b.iter().map(move |b| b - a))
        .collect();
    Ok(median(&differences))
}

/// Hodges and Lehmann's centre of one sample: the median of all means of two (each value with itself included).
///
/// # Errors
///
/// As [`mann_whitney`].
pub fn pseudo_median(values: &[f64]) -> Result<f64> {
    check_finite(values, "the values")?;
    if values.is_empty() {
        return Err(Error::TooFew {
            what: "a centre",
            need: 1,
            have: 0,
        });
    }
    let walsh: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(i, x)| values[i..].iter().map(move |y| f64::midpoint(*x, *y)))
        .collect();
    Ok(median(&walsh))
}
