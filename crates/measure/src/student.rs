//! Student's t, central and noncentral, and the normal distribution.
//!
//! Checked against scipy (`tests/vectors/distributions.json`).

use crate::convert::floor_count;
use crate::special::{self, beta_reg, ln_gamma};

/// Standard normal distribution function.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    special::normal_cdf(x)
}

/// Standard normal quantile; infinite at 0 and 1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    special::normal_quantile(p)
}

/// P(T > t) for `df` degrees of freedom (any positive number).
#[must_use]
pub fn t_upper(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    let tail = 0.5 * t_both_tails(t.abs(), df);
    if t >= 0.0 { tail } else { 1.0 - tail }
}

/// P(|T| > |t|): the two-sided p-value.
#[must_use]
pub fn t_both_tails(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    let square = t * t;
    let x = df / (df + square);
    if x >= 1.0 {
        return 1.0;
    }
    // Near t = 0 the complement keeps the digits.
    if x > 0.5 {
        1.0 - beta_reg(0.5, df / 2.0, square / (df + square))
    } else {
        beta_reg(df / 2.0, 0.5, x)
    }
}

/// The t with P(T > t) = `tail`; NaN unless 0 < `tail` < 1.
#[must_use]
pub fn t_upper_quantile(tail: f64, df: f64) -> f64 {
    if !(tail > 0.0 && tail < 1.0) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if (tail - 0.5).abs() < f64::EPSILON {
        return 0.0;
    }
    if tail > 0.5 {
        return -t_upper_quantile(1.0 - tail, df);
    }
    let mut high = 1.0_f64.max(-normal_quantile(tail));
    while t_upper(high, df) > tail && high < 1e150 {
        high *= 2.0;
    }
    bisect_to(4.0 * f64::EPSILON, 0.0, high, |t| t_upper(t, df) - tail)
}

/// P(T <= t) for noncentral t with noncentrality `delta`.
///
/// T = (Z + delta) / S with S^2 = chi^2 / df, integrated over S by Simpson's rule: the integrand is smooth and
/// dies off like a normal density; steps of an eighth of its sharpest feature reach about 1e-8.
#[must_use]
pub fn noncentral_t_cdf(t: f64, df: f64, delta: f64) -> f64 {
    let half = df / 2.0;
    let log_scale = std::f64::consts::LN_2 + half * libm::log(half) - ln_gamma(half);
    let density = |s: f64| {
        if s <= 0.0 {
            // Only df = 1 has a positive density at 0.
            return if df <= 1.0 { libm::exp(log_scale) } else { 0.0 };
        }
        libm::exp(log_scale + (df - 1.0) * libm::log(s) - half * s * s)
    };
    let reach = 12.0 / (2.0 * df).sqrt();
    let (low, high) = ((1.0 - reach).max(0.0), 1.0 + reach);
    let sharpest = (2.0 * df).sqrt().max(t.abs());
    // Cut off at 0 the integrand has an edge, and Simpson's rule only its fourth power.
    let density_of_steps = if low > 0.0 { 4.0 } else { 12.0 };
    let steps = 2 * floor_count((density_of_steps * (high - low) * sharpest).clamp(32.0, 4_096.0));
    let width = (high - low) / steps as f64;
    let total: f64 = (0..=steps)
        .map(|step| {
            let s = low + width * step as f64;
            let weight = match step {
                end if end == 0 || end == steps => 1.0,
                odd if odd % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * density(s) * normal_cdf(t * s - delta)
        })
        .sum();
    (total * width / 3.0).clamp(0.0, 1.0)
}

/// The root of a falling function between `low` and `high`, to a relative `tolerance`.
pub(crate) fn bisect_to(
    tolerance: f64,
    mut low: f64,
    mut high: f64,
    falling: impl Fn(f64) -> f64,
) -> f64 {
    // False position (Illinois) inside a bracket: about ten evaluations, never leaves the bracket.
    let (mut at_low, mut at_high) = (falling(low), falling(high));
    let mut side = 0;
    for _ in 0..200 {
        if (high - low) <= tolerance * high.abs() {
            break;
        }
        let guess = (low * at_high - high * at_low) / (at_high - at_low);
        let middle = if guess > low && guess < high {
            guess
        } else {
            f64::midpoint(low, high)
        };
        let value = falling(middle);
        if value > 0.0 {
            (low, at_low) = (middle, value);
            if side == 1 {
                at_high *= 0.5;
            }
            side = 1;
        } else if value < 0.0 {
            (high, at_high) = (middle, value);
            if side == -1 {
                at_low *= 0.5;
            }
            side = -1;
        } else {
            return middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_values_of_t() {
        // Two-sided 95 % and 99.5 %, from any textbook table.
        for (df, tail, want) in [
            (1.0, 0.025, 12.7062),
            (4.0, 0.025, 2.7764),
            (10.0, 0.0025, 3.5814),
            (30.0, 0.05, 1.6973),
        ] {
            let t = t_upper_quantile(tail, df);
            assert!((t - want).abs() < 1e-4, "{df} {tail}: {t}");
            assert!((t_upper_quantile(1.0 - tail, df) + t).abs() < 1e-9);
        }
        assert!(t_upper_quantile(0.0, 5.0).is_nan());
        assert!((t_upper_quantile(0.5, 5.0)).abs() < 1e-9);
    }

    #[test]
    fn noncentral_t_without_noncentrality_is_t() {
        for df in [1.0, 2.0, 5.0, 30.0, 300.0] {
            for t in [-3.0, -0.5, 0.0, 1.0, 4.0] {
                let error = noncentral_t_cdf(t, df, 0.0) - (1.0 - t_upper(t, df));
                assert!(error.abs() < 1e-8, "{df} {t}: {error}");
            }
        }
    }
}
