//! The special functions under the distributions: the incomplete beta function and the normal quantile.
//!
//! `libm` has the error function and the gamma function; what it lacks is here, so that all libraries under the
//! statistics may be linked into any program (`docs/integration.md`, "May I link it?"). Checked against scipy
//! (`tests/vectors/distributions.json`).

use std::f64::consts::{PI, SQRT_2};

/// ln Gamma(x) for positive x.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// P(Z <= x) of the standard normal distribution.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// The x with P(Z <= x) = p; infinite at 0 and 1, NaN outside.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    // The lower tail keeps the digits of small probabilities.
    if p > 0.5 {
        return -lower_quantile(1.0 - p);
    }
    lower_quantile(p)
}

/// For p of at most one half.
fn lower_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    // Abramowitz and Stegun 26.2.23, within 4.5e-4.
    let t = (-2.0 * libm::log(p)).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut x = above / below - t;
    // Halley's step triples the right digits: two would do.
    for _ in 0..3 {
        let miss = (normal_cdf(x) - p) * (2.0 * PI).sqrt() * libm::exp(x * x / 2.0);
        let step = miss / (1.0 + x * miss / 2.0);
        if !step.is_finite() {
            break;
        }
        x -= step;
    }
    x
}

/// The regularised incomplete beta function I_x(a, b); NaN unless a and b are positive and x is in 0..=1.
///
/// By its continued fraction (DLMF 8.17.22), from the side on which it converges; about sqrt(max(a, b)) terms.
pub(crate) fn beta_reg(a: f64, b: f64, x: f64) -> f64 {
    let is_sane = a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite() && (0.0..=1.0).contains(&x);
    if !is_sane {
        return f64::NAN;
    }
    if x <= 0.0 || x >= 1.0 {
        return x;
    }
    let front = libm::exp(a * libm::log(x) + b * libm::log1p(-x) - ln_beta(a, b));
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

/// ln B(a, b).
fn ln_beta(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    // Differences of large logarithms would lose the digits: Student's t has one half here.
    if (small - 0.5).abs() < f64::EPSILON && large > 20.0 {
        return libm::log(PI.sqrt()) - ln_half_step(large);
    }
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// ln(Gamma(a + 1/2) / Gamma(a)) for a above 20, by its asymptotic series; the first term left out is 2e-15.
fn ln_half_step(a: f64) -> f64 {
    let inverse = 1.0 / a;
    let square = inverse * inverse;
    let series = 1.0 / 192.0 + square * (-1.0 / 640.0 + square * (17.0 / 14_336.0));
    0.5 * libm::log(a) + inverse * (-1.0 / 8.0 + square * series)
}

/// The continued fraction of I_x(a, b) by Lentz's method, for x below (a + 1) / (a + b + 2).
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TERMS_MAX: u32 = 100_000;
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for term in 1..TERMS_MAX {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        let change = d * c;
        value *= change;
        if (change - 1.0).abs() < 2.0 * f64::EPSILON {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: f64, want: f64, tolerance: f64) {
        let error = (got - want).abs() / want.abs().max(1e-300);
        assert!(
            error <= tolerance,
            "got {got:e}, want {want:e}, off by {error:e}"
        );
    }

    #[test]
    fn the_incomplete_beta_function_has_its_closed_forms() {
        for x in [1e-9, 0.01, 0.3, 0.5, 0.77, 0.999] {
            close(beta_reg(1.0, 1.0, x), x, 1e-13);
            close(beta_reg(3.0, 1.0, x), x * x * x, 1e-13);
            close(beta_reg(1.0, 4.0, x), 1.0 - libm::pow(1.0 - x, 4.0), 1e-7);
            close(
                beta_reg(0.5, 0.5, x),
                2.0 / PI * libm::asin(x.sqrt()),
                1e-12,
            );
            // Symmetry, on both sides of the turn.
            for (a, b) in [(0.5, 40.0), (7.0, 2.5), (1e3, 0.5), (1e6, 0.5)] {
                let sum = beta_reg(a, b, x) + beta_reg(b, a, 1.0 - x);
                assert!((sum - 1.0).abs() < 1e-11, "{a} {b} {x}: {sum}");
            }
        }
        for (a, b, x) in [
            (0.0, 1.0, 0.5),
            (1.0, -1.0, 0.5),
            (1.0, 1.0, 1.5),
            (f64::NAN, 1.0, 0.5),
        ] {
            assert!(beta_reg(a, b, x).is_nan());
        }
        close(beta_reg(2.0, 3.0, 1.0), 1.0, 0.0);
        assert!(beta_reg(2.0, 3.0, 0.0) <= 0.0);
    }

    #[test]
    fn the_series_meets_the_gamma_function() {
        for a in [20.5, 33.0, 100.0, 1234.5] {
            let direct = ln_gamma(a + 0.5) - ln_gamma(a);
            assert!((ln_half_step(a) - direct).abs() < 1e-11, "{a}");
        }
    }

    #[test]
    fn quantiles_of_the_normal_distribution_from_tables() {
        for (p, want) in [
            (0.975, 1.959_963_984_540_054),
            (0.995, 2.575_829_303_548_901),
            (0.8, 0.841_621_233_572_914_4),
            (1e-10, -6.361_340_902_404_056),
        ] {
            close(normal_quantile(p), want, 1e-13);
        }
        for p in [1e-300, 1e-17, 1e-5, 0.1, 0.4999, 0.5001, 0.9, 0.999_999] {
            close(normal_cdf(normal_quantile(p)), p, 1e-11);
        }
        assert!(normal_quantile(0.5).abs() < 1e-15);
        assert!(normal_quantile(0.0).is_infinite() && normal_quantile(1.0).is_infinite());
        assert!(normal_quantile(1.1).is_nan() && normal_quantile(f64::NAN).is_nan());
    }
}
