//! The bootstrap, for pictures and for frames within one run; never for a verdict (see [`judge`](crate::judge)).
//!
//! BCa is checked against scipy on scipy's own resamples, block lengths against `arch`
//! (`tests/vectors/bootstrap.json`).

use crate::convert::floor_count;
use crate::error::{Error, Result};
use crate::random::Random;
use crate::sample::{check_finite, mean, quantile, sorted};
use crate::student::{normal_cdf, normal_quantile};

/// Fewest resamples whose 2.5 % and 97.5 % quantiles are steady to about a tenth of the interval's width.
pub const RESAMPLES: usize = 9_999;

/// An interval with what must be said of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// BCa was not defined (constant sample); the percentile interval stands instead.
    pub fell_back: bool,
}

/// Resamples `values` with replacement and sorts the statistic of each resample.
pub fn distribution(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    resamples: usize,
    seed: u64,
) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut draw = vec![0.0; values.len()];
    let statistics: Vec<f64> = (0..resamples)
        .map(|_| {
            for place in &mut draw {
                *place = values
                    .get(random.below(values.len()))
                    .copied()
                    .unwrap_or(f64::NAN);
            }
            statistic(&draw)
        })
        .collect();
    sorted(&statistics)
}

/// The percentile interval of a sorted distribution.
#[must_use]
pub fn percentile(distribution: &[f64], level: f64) -> Interval {
    Interval {
        low: quantile(distribution, level / 2.0),
        high: quantile(distribution, 1.0 - level / 2.0),
        fell_back: false,
    }
}

/// The bias-corrected and accelerated interval (Efron 1987) of a sorted distribution.
///
/// # Errors
///
/// [`Error::NotFinite`]; [`Error::TooFew`] below two values.
pub fn bca(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    distribution: &[f64],
    level: f64,
) -> Result<Interval> {
    check_finite(values, "the values")?;
    if values.len() < 2 {
        return Err(Error::TooFew {
            what: "a BCa interval",
            need: 2,
            have: values.len(),
        });
    }
    let seen = statistic(values);
    let below = distribution.partition_point(|&value| value < seen);
    let at_most = distribution.partition_point(|&value| value <= seen);
    let bias = normal_quantile((below + at_most) as f64 / (2 * distribution.len()) as f64);
    let acceleration = acceleration(values, statistic);
    let place = |tail: f64| {
        let z = bias + normal_quantile(tail);
        normal_cdf(bias + z / (1.0 - acceleration * z))
    };
    let (low, high) = (place(level / 2.0), place(1.0 - level / 2.0));
    if low.is_nan() || high.is_nan() {
        return Ok(Interval {
            fell_back: true,
            ..percentile(distribution, level)
        });
    }
    Ok(Interval {
        low: quantile(distribution, low),
        high: quantile(distribution, high),
        fell_back: false,
    })
}

/// Skewness of the statistic from leaving one value out at a time.
fn acceleration(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> f64 {
    let mut rest = Vec::with_capacity(values.len());
    let left: Vec<f64> = (0..values.len())
        .map(|out| {
            rest.clear();
            rest.extend(
                values
                    .iter()
                    .enumerate()
                    .filter(|&(i, _)| i != out)
                    .map(|(_, value)| *value),
            );
            statistic(&rest)
        })
        .collect();
    let center = mean(&left);
    let power = |k| {
        left.iter()
            .map(|value| libm::pow(center - value, k))
            .sum::<f64>()
    };
    power(3.0) / (6.0 * libm::pow(power(2.0), 1.5))
}

/// Resamples a series in blocks that wrap around its end, so that what follows what is kept within blocks.
///
/// The sorted means of each resample; `block` from [`block_length`].
///
/// # Cost
///
/// O(length + resamples * length / block): sums of blocks come from running totals.
#[must_use]
pub fn block_means(values: &[f64], block: usize, resamples: usize, seed: u64) -> Vec<f64> {
    let n = values.len();
    if n == 0 {
        return Vec::new();
    }
    let block = block.clamp(1, n);
    // Running totals about the mean over the series and its wrapped continuation.
    let center = mean(values);
    let mut totals = Vec::with_capacity(n + block + 1);
    totals.push(0.0);
    let mut total = 0.0;
    for value in values.iter().chain(values.iter().take(block)) {
        total += value - center;
        totals.push(total);
    }
    let at = |index: usize| totals.get(index).copied().unwrap_or(0.0);
    let mut random = Random::new(seed);
    let means: Vec<f64> = (0..resamples)
        .map(|_| {
            let mut sum = 0.0;
            let mut left = n;
            while left > 0 {
                let (start, length) = (random.below(n), block.min(left));
                sum += at(start + length) - at(start);
                left -= length;
            }
            center + sum / n as f64
        })
        .collect();
    sorted(&means)
}

/// The block length for [`block_means`] after Politis and White (2004, corrected 2009), rounded up; at least 1.
#[must_use]
pub fn block_length(values: &[f64]) -> usize {
    floor_count(optimal_block_length(values).ceil()).clamp(1, values.len().max(1))
}

/// The unrounded optimal length of circular blocks; 1 for a series too short or constant.
#[must_use]
pub fn optimal_block_length(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 10 {
        return 1.0;
    }
    let length = n as f64;
    let kn = 5.max(floor_count(libm::log10(length)));
    let m_max = floor_count(length.sqrt().ceil()) + kn;
    let covariances = autocovariances(values, m_max);
    let at = |lag: usize| covariances.get(lag).copied().unwrap_or(0.0);
    if at(0) <= 0.0 {
        return 1.0;
    }
    // The first lag after which `kn` correlations in a row are small; doubled, as the authors advise.
    let limit = 2.0 * (libm::log10(length) / length).sqrt();
    let correlations = edge_correlations(values, m_max);
    let is_quiet = |first: &usize| {
        let window = correlations.get(*first..first + kn);
        window.is_some_and(|window| window.iter().all(|correlation| correlation.abs() < limit))
    };
    let m = (0..=m_max.saturating_sub(kn))
        .find(is_quiet)
        .map_or(m_max, |first| (2 * first.max(1)).min(m_max));
    let (mut g, mut spectrum) = (0.0, at(0));
    for lag in 1..=m {
        let share = lag as f64 / m as f64;
        let window = if share <= 0.5 {
            1.0
        } else {
            2.0 * (1.0 - share)
        };
        g += 2.0 * window * lag as f64 * at(lag);
        spectrum += 2.0 * window * at(lag);
    }
    let d = 4.0 / 3.0 * spectrum * spectrum;
    if d <= 0.0 {
        return 1.0;
    }
    let longest = (3.0 * length.sqrt()).min(length / 3.0).ceil();
    (libm::cbrt(2.0 * g * g / d) * libm::cbrt(length))
        .min(longest)
        .max(1.0)
}

/// Correlations of lag 0 to `lags` over the values that both ends of a lag leave, as `arch` has them.
fn edge_correlations(values: &[f64], lags: usize) -> Vec<f64> {
    let center = mean(values);
    let centred: Vec<f64> = values.iter().map(|value| value - center).collect();
    let square = |part: &[f64]| part.iter().map(|value| value * value).sum::<f64>();
    (0..=lags)
        .map_while(|lag| {
            let (late, early) = (
                centred.get(lag + 1..)?,
                centred.get(..centred.len() - lag - 1)?,
            );
            let product: f64 = centred
                .iter()
                .zip(centred.iter().skip(lag))
                .map(|(x, y)| x * y)
                .sum();
            Some(product / (square(late) * square(early)).sqrt())
        })
        .collect()
}

fn autocovariances(values: &[f64], lags: usize) -> Vec<f64> {
    let center = mean(values);
    (0..=lags.min(values.len().saturating_sub(1)))
        .map(|lag| {
            let later = values.iter().skip(lag);
            let products = values
                .iter()
                .zip(later)
                .map(|(x, y)| (x - center) * (y - center));
            products.sum::<f64>() / values.len() as f64
        })
        .collect()
}

/// Lag-1 autocorrelation of a series; `None` if it is constant or shorter than three.
#[must_use]
pub fn autocorrelation(values: &[f64]) -> Option<f64> {
    let covariances = autocovariances(values, 1);
    match covariances.as_slice() {
        [variance, next, ..] if *variance > 0.0 && values.len() > 2 => Some(next / variance),
        _ => None,
    }
}

/// How many independent values carry as much about the mean as this series, from the spread of its block means.
#[must_use]
pub fn effective_length(values: &[f64]) -> Option<f64> {
    let rho = autocorrelation(values)?;
    let n = values.len() as f64;
    // An AR(1) series: n (1 - rho) / (1 + rho), at most n.
    Some((n * (1.0 - rho) / (1.0 + rho)).clamp(1.0, n))
}
