//! What changed while it was measured: slow drift, warm-up, outliers. Marks, never deletes.
//!
//! Checked against scipy (`theilslopes`, `kendalltau`) and `ruptures` (`tests/vectors/drift.json`).

#![expect(
    clippy::indexing_slicing,
    reason = "running totals are one longer than the series they index"
)]

use crate::sample::{mean, median, sorted};
use crate::student::normal_cdf;

/// A steady trend of a series over time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Trend {
    /// Theil and Sen's slope: the median of the slopes of all pairs of points, per unit of time.
    pub slope: f64,
    /// Two-sided p-value of "no trend" (Kendall, normal approximation with ties).
    pub p: f64,
}

/// The trend of `values` over `times`; `None` below four points or if all times are the same.
///
/// # Cost
///
/// Quadratic in the number of points: for runs, not for frames.
#[must_use]
pub fn trend(times: &[f64], values: &[f64]) -> Option<Trend> {
    let points: Vec<(f64, f64)> = times
        .iter()
        .copied()
        .zip(values.iter().copied())
        .filter(|(time, value)| time.is_finite() && value.is_finite())
        .collect();
    if points.len() < 4 {
        return None;
    }
    let (mut slopes, mut score) = (Vec::new(), 0.0_f64);
    for (i, (time, value)) in points.iter().enumerate() {
        for (later, next) in &points[i + 1..] {
            let (dt, dv) = (later - time, next - value);
            if dt != 0.0 {
                slopes.push(dv / dt);
                if dv != 0.0 {
                    score += (dv / dt).signum();
                }
            }
        }
    }
    if slopes.is_empty() {
        return None;
    }
    let times: Vec<f64> = points.iter().map(|(time, _)| *time).collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    Some(Trend {
        slope: median(&slopes),
        p: kendall_p(score, &times, &values),
    })
}

/// p-value of Kendall's score, ties in both series allowed for (as scipy's asymptotic tau-b).
fn kendall_p(score: f64, times: &[f64], values: &[f64]) -> f64 {
    let n = times.len() as f64;
    let (x0, x1, x2) = tie_sums(times);
    let (y0, y1, y2) = tie_sums(values);
    let m = n * (n - 1.0);
    let variance = (m * (2.0 * n + 5.0) - x2 - y2) / 18.0
        + (2.0 * x0 * y0) / m
        + x1 * y1 / (9.0 * m * (n - 2.0));
    if variance <= 0.0 {
        return 1.0;
    }
    (2.0 * normal_cdf(-score.abs() / variance.sqrt())).min(1.0)
}

/// Sums over groups of t equal values: t(t-1)/2, t(t-1)(t-2), t(t-1)(2t+5).
fn tie_sums(values: &[f64]) -> (f64, f64, f64) {
    let ordered = sorted(values);
    let mut sums = (0.0, 0.0, 0.0);
    for tied in ordered.chunk_by(|x, y| x >= y) {
        let t = tied.len() as f64;
        sums.0 += t * (t - 1.0) / 2.0;
        sums.1 += t * (t - 1.0) * (t - 2.0);
        sums.2 += t * (t - 1.0) * (2.0 * t + 5.0);
    }
    sums
}

/// How a series behaves, after Barrett et al. (OOPSLA 2017).
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// One level throughout.
    Flat,
    /// It ends better than it began: the first `steady_from` values are warm-up.
    WarmUp {
        /// Index of the first value of the last level.
        steady_from: usize,
    },
    /// It ends worse than it began: heat, a full disk, a leak.
    SlowDown {
        /// Index of the first value of the last level.
        steady_from: usize,
    },
    /// The last level is too short to be called one.
    NoSteadyState,
}

/// Classifies a series in which low values are better (hand over negated values if high is better).
///
/// Levels are found by [`changepoints`]; a steady state is a last level of at least a quarter of the series.
#[must_use]
pub fn course(values: &[f64]) -> Course {
    let points = changepoints(values);
    let Some(&last) = points.last() else {
        return Course::Flat;
    };
    if (values.len() - last) * 4 < values.len() {
        return Course::NoSteadyState;
    }
    let first = points.first().copied().unwrap_or(last);
    if mean(&values[..first]) > mean(&values[last..]) {
        Course::WarmUp { steady_from: last }
    } else {
        Course::SlowDown { steady_from: last }
    }
}

/// Shortest level that is looked for.
pub const LEVEL_MIN: usize = 3;

/// Where the level of a series changes (PELT, least squares), with the noise estimated from the differences
/// of neighbours and a penalty of 4 s^2 ln n per change, which a flat normal series of 20 to 2 000 values
/// exceeds in about 2 % of cases or less.
///
/// # Cost
///
/// Between linear and quadratic; thin a long series first ([`thin`]).
#[must_use]
pub fn changepoints(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    if n < 2 * LEVEL_MIN || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let steps: Vec<f64> = values
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs())
        .collect();
    // Median of |N(0, 2 s^2)| is 0.6745 * sqrt(2) s. Where most neighbours are equal, the mean step stands in.
    let typical = median(&steps) / 0.953_87;
    let noise = if typical > 0.0 {
        typical
    } else {
        mean(&steps) / std::f64::consts::FRAC_2_SQRT_PI
    };
    if noise <= 0.0 {
        return Vec::new();
    }
    pelt(values, 4.0 * noise * noise * libm::log(n as f64), LEVEL_MIN)
}

/// The segmentation with the least sum of squares plus `penalty` per change; levels of at least `shortest`.
#[must_use]
pub fn pelt(values: &[f64], penalty: f64, shortest: usize) -> Vec<usize> {
    let n = values.len();
    let shortest = shortest.max(1);
    let center = mean(values);
    let (mut sums, mut squares) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    for (i, value) in values.iter().enumerate() {
        let value = value - center;
        sums[i + 1] = sums[i] + value;
        squares[i + 1] = squares[i] + value * value;
    }
    let cost = |from: usize, to: usize| {
        let sum: f64 = sums[to] - sums[from];
        squares[to] - squares[from] - sum * sum / (to - from) as f64
    };
    let (mut best, mut last) = (vec![f64::INFINITY; n + 1], vec![0; n + 1]);
    best[0] = -penalty;
    let mut candidates = vec![0];
    for end in shortest..=n {
        for &from in &candidates {
            let total = best[from] + cost(from, end) + penalty;
            if total < best[end] {
                (best[end], last[end]) = (total, from);
            }
        }
        candidates.retain(|&from| best[from] + cost(from, end) <= best[end]);
        let next = end + 1 - shortest;
        if next > 0 && best[next].is_finite() {
            candidates.push(next);
        }
    }
    let mut points = Vec::new();
    let mut end = n;
    while end > 0 && last[end] > 0 {
        end = last[end];
        points.push(end);
    }
    points.reverse();
    points
}

/// Thins a long series to at most `most` medians of neighbouring values.
#[must_use]
pub fn thin(values: &[f64], most: usize) -> Vec<f64> {
    let step = values.len().div_ceil(most.max(1)).max(1);
    values.chunks(step).map(median).collect()
}

/// Values far from the others: index and how many deviations away.
///
/// Modified z-score above 3.5 (Iglewicz and Hoaglin), with the clock's step in mind: the deviation is never
/// taken to be smaller than half the smallest distance between two different values, so that rounding makes
/// no outliers.
#[must_use]
pub fn outliers(values: &[f64]) -> Vec<(usize, f64)> {
    let center = median(values);
    let ordered = sorted(values);
    let step = ordered
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .filter(|&step| step > 0.0)
        .fold(f64::INFINITY, f64::min);
    let distances: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    let deviation = (median(&distances) / 0.6745).max(step / 2.0);
    if deviation.is_nan() || deviation <= 0.0 || deviation.is_infinite() {
        return Vec::new();
    }
    let scores = values.iter().map(|value| (value - center) / deviation);
    scores
        .enumerate()
        .filter(|(_, score)| score.abs() > 3.5)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn values_one_clock_step_apart_are_no_outliers() {
        // hyperfine 580: 999 times 0.5 and once 0.6 on a clock that steps by 0.1.
        let mut values = vec![0.5; 999];
        values.push(0.6);
        assert_eq!(outliers(&values), []);
        values.push(9.0);
        assert_eq!(outliers(&values).len(), 1);
        assert_eq!(outliers(&[1.0; 5]), []);
        assert_eq!(outliers(&[]), []);
    }

    #[test]
    fn warm_up_and_slow_down_are_marked() {
        let mut random = Random::new(5);
        let mut values: Vec<f64> = (0..40).map(|_| 10.0 + 0.1 * random.normal()).collect();
        assert_eq!(course(&values), Course::Flat);
        for value in &mut values[..5] {
            *value += 2.0;
        }
        assert_eq!(course(&values), Course::WarmUp { steady_from: 5 });
        values.reverse();
        assert_eq!(course(&values), Course::NoSteadyState);
        for value in &mut values[20..35] {
            *value += 2.0;
        }
        assert_eq!(course(&values), Course::SlowDown { steady_from: 20 });
    }

    #[test]
    fn flat_noise_is_seldom_called_anything_else() {
        let mut random = Random::new(6);
        for n in [20, 100, 600] {
            let flat = (0..300)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
                    course(&values) == Course::Flat
                })
                .count();
            assert!(flat >= 285, "{n}: {flat} of 300");
        }
    }

    #[test]
    fn a_run_that_gets_slower_by_a_third_of_a_percent_per_call_shows_a_trend() {
        let times: Vec<f64> = (0..20).map(f64::from).collect();
        let values: Vec<f64> = times.iter().map(|time| 1.0 + 0.003 * time).collect();
        let trend = trend(&times, &values).unwrap();
        assert!((trend.slope - 0.003).abs() < 1e-12 && trend.p < 1e-4);
        assert_eq!(super::trend(&times[..3], &values[..3]), None);
    }

    #[test]
    fn thinning_keeps_the_level() {
        let values: Vec<f64> = (0..10_001).map(f64::from).collect();
        let thinned = thin(&values, 100);
        assert!(thinned.len() <= 100 && (thinned[0] - 50.0).abs() < 1.0);
        assert!(thin(&[], 10).is_empty());
    }
}
