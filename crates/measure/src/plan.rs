//! What a design can prove, before it is run: power, smallest effect, runs needed, hopeless designs.
//!
//! Effects are ratios minus one (0.01 is 1 %), spreads are standard deviations of log ratios, which for small
//! values are coefficients of variation. All promises are for a probability ([`POWER`]) of 80 % unless said.

use std::cell::RefCell;

use crate::judge::EXACT_PAIRS_MAX;
use crate::signflip::smallest_p;
use crate::student::{bisect_to, noncentral_t_cdf, normal_cdf, normal_quantile, t_upper_quantile};

/// The probability with which a promised effect is found.
pub const POWER: f64 = 0.8;

/// Above so many runs no promise is made: nobody would run them.
pub const RUNS_MAX: usize = 100_000;

/// A design that cannot prove anything, whatever the data.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "{pairs} pairs can prove nothing about {metrics} metric(s): the smallest p-value they can reach is {smallest_p:.2}; \
     at least {needed} pairs are needed"
)]
pub struct Hopeless {
    /// Pairs planned.
    pub pairs: usize,
    /// Metrics that are judged together.
    pub metrics: usize,
    /// The smallest p-value, after Holm's correction, that the best possible data would give.
    pub smallest_p: f64,
    /// The fewest pairs that can prove something.
    pub needed: usize,
}

/// Refuses a paired design that cannot prove anything.
///
/// # Errors
///
/// [`Hopeless`], with the number of pairs that would do.
pub fn check(pairs: usize, metrics: usize, level: f64) -> Result<(), Hopeless> {
    let best = |pairs: usize| (smallest_p(pairs) * metrics.max(1) as f64).min(1.0);
    if best(pairs) <= level {
        return Ok(());
    }
    let needed = (1..200).find(|&more| best(more) <= level).unwrap_or(200);
    Err(Hopeless {
        pairs,
        metrics,
        smallest_p: best(pairs),
        needed,
    })
}

/// Probability that `pairs` pairs show a true ratio of 1 + `effect`, the log ratios of pairs having deviation `spread`.
#[must_use]
pub fn power(pairs: usize, spread: f64, effect: f64, level: f64) -> f64 {
    if pairs < 2 {
        return 0.0;
    }
    let shift = libm::log(1.0 + effect).abs();
    let df = pairs as f64 - 1.0;
    let level = reached_level(pairs, level);
    if is_unanimous(pairs, level) {
        let one_way = libm::pow(normal_cdf(shift / spread), pairs as f64);
        return one_way + libm::pow(normal_cdf(-shift / spread), pairs as f64);
    }
    two_sided_power(df, shift / spread * (pairs as f64).sqrt(), level)
}

/// Probability that two independent arms show a true ratio of 1 + `effect`; `spread` is the deviation of one arm's logs.
#[must_use]
pub fn power_unpaired(runs_a: usize, runs_b: usize, spread: f64, effect: f64, level: f64) -> f64 {
    if runs_a < 2 || runs_b < 2 {
        return 0.0;
    }
    let (a, b) = (runs_a as f64, runs_b as f64);
    let shift = libm::log(1.0 + effect).abs();
    two_sided_power(
        a + b - 2.0,
        shift / spread / (1.0 / a + 1.0 / b).sqrt(),
        level,
    )
}

/// The level that a sign-flip test of few pairs really uses: the largest multiple of its step below `level`.
fn reached_level(pairs: usize, level: f64) -> f64 {
    if pairs > EXACT_PAIRS_MAX {
        return level;
    }
    let step = smallest_p(pairs);
    (level / step + 1e-9).floor() * step
}

/// Whether only pairs that all point one way are proof: the power is then that of so many signs.
fn is_unanimous(pairs: usize, reached_level: f64) -> bool {
    pairs <= EXACT_PAIRS_MAX && reached_level > 0.0 && reached_level < 1.5 * smallest_p(pairs)
}

fn two_sided_power(df: f64, delta: f64, level: f64) -> f64 {
    if level <= 0.0 || delta.is_nan() {
        return 0.0;
    }
    if delta.is_infinite() || delta > 1e3 {
        return 1.0;
    }
    let cut = t_upper_quantile(level / 2.0, df);
    1.0 - noncentral_t_cdf(cut, df, delta) + noncentral_t_cdf(-cut, df, delta)
}

/// Probability that pairs with true ratio 1 are shown to be equivalent within `margin`.
#[must_use]
pub fn power_equivalent(pairs: usize, spread: f64, margin: f64, level: f64) -> f64 {
    if pairs < 2 {
        return 0.0;
    }
    let n = pairs as f64;
    let level = if pairs > EXACT_PAIRS_MAX {
        level
    } else {
        reached_level(pairs, 2.0 * level) / 2.0
    };
    if level <= 0.0 {
        return 0.0;
    }
    let delta = libm::log(1.0 + margin) / spread * n.sqrt();
    let one_side = noncentral_t_cdf(t_upper_quantile(level, n - 1.0), n - 1.0, delta.min(1e3));
    (1.0 - 2.0 * one_side).max(0.0)
}

/// The smallest effect (ratio minus one) that `pairs` pairs find with probability [`POWER`]; `None` if none.
#[must_use]
pub fn detectable(pairs: usize, spread: f64, level: f64) -> Option<f64> {
    if pairs < 2 {
        return None;
    }
    let n = pairs as f64;
    let level = reached_level(pairs, level);
    if is_unanimous(pairs, level) {
        // The n-th root of the power, up to the other tail of at most 2^-n.
        return Some(libm::expm1(
            normal_quantile(libm::pow(POWER, 1.0 / n)) * spread,
        ));
    }
    let delta = noncentrality(n - 1.0, level)?;
    Some(libm::expm1(delta * spread / n.sqrt()))
}

/// As [`detectable`], for two independent arms.
#[must_use]
pub fn detectable_unpaired(runs_a: usize, runs_b: usize, spread: f64, level: f64) -> Option<f64> {
    if runs_a < 2 || runs_b < 2 {
        return None;
    }
    let (a, b) = (runs_a as f64, runs_b as f64);
    let delta = noncentrality(a + b - 2.0, level)?;
    Some(libm::expm1(delta * spread * (1.0 / a + 1.0 / b).sqrt()))
}

thread_local! {
    /// Noncentralities found so far, by freedom and level: all metrics of a session ask for the same one.
    static KNOWN: RefCell<Vec<(f64, f64, Option<f64>)>> = const { RefCell::new(Vec::new()) };
}

/// The noncentrality at which a two-sided t-test has the power [`POWER`].
fn noncentrality(df: f64, level: f64) -> Option<f64> {
    KNOWN.with_borrow_mut(|known| {
        let is_it = |&&(at_df, at_level, _): &&(f64, f64, Option<f64>)| {
            at_df.total_cmp(&df).is_eq() && at_level.total_cmp(&level).is_eq()
        };
        if let Some(&(_, _, found)) = known.iter().find(is_it) {
            return found;
        }
        let found = find_noncentrality(df, level);
        if known.len() >= 64 {
            known.clear();
        }
        known.push((df, level, found));
        found
    })
}

fn find_noncentrality(df: f64, level: f64) -> Option<f64> {
    if level <= 0.0 {
        return None;
    }
    let mut high = 4.0;
    while two_sided_power(df, high, level) < POWER {
        high *= 2.0;
        if high > 1e3 {
            return None;
        }
    }
    Some(bisect_to(1e-7, 0.0, high, |delta| {
        POWER - two_sided_power(df, delta, level)
    }))
}

/// The fewest pairs that show a true ratio of 1 + `effect` with probability [`POWER`]; `None` above [`RUNS_MAX`].
#[must_use]
pub fn pairs_for(effect: f64, spread: f64, level: f64) -> Option<usize> {
    fewest(|pairs| power(pairs, spread, effect, level))
}

/// As [`pairs_for`] for runs per arm of an unpaired comparison.
#[must_use]
pub fn runs_for(effect: f64, spread: f64, level: f64) -> Option<usize> {
    fewest(|runs| power_unpaired(runs, runs, spread, effect, level))
}

/// The fewest pairs that settle whether there is a difference of `effect`: they show it with probability [`POWER`]
/// if it is there, and equivalence within it if there is none. `None` above [`RUNS_MAX`].
#[must_use]
pub fn pairs_to_settle(effect: f64, spread: f64, level: f64) -> Option<usize> {
    fewest(|pairs| {
        power(pairs, spread, effect, level).min(power_equivalent(pairs, spread, effect, level))
    })
}

/// As [`pairs_to_settle`], for runs per arm of an unpaired comparison.
#[must_use]
pub fn runs_to_settle(effect: f64, spread: f64, level: f64) -> Option<usize> {
    fewest(|runs| {
        let different = power_unpaired(runs, runs, spread, effect, level);
        let df = 2.0 * runs as f64 - 2.0;
        let delta = libm::log1p(effect) / spread * (runs as f64 / 2.0).sqrt();
        let one_side = noncentral_t_cdf(t_upper_quantile(level, df), df, delta.min(1e3));
        let equivalent = 1.0 - 2.0 * one_side;
        different.min(equivalent)
    })
}

/// Fewest runs from 2 that reach [`POWER`], by doubling and halving; power may dip among few pairs, so the
/// neighbourhood below the answer is looked at again.
fn fewest(power: impl Fn(usize) -> f64) -> Option<usize> {
    if let Some(few) = (2..=EXACT_PAIRS_MAX + 1).find(|&runs| power(runs) >= POWER) {
        return Some(few);
    }
    let (mut low, mut high) = (EXACT_PAIRS_MAX + 1, 2 * EXACT_PAIRS_MAX);
    while power(high) < POWER {
        low = high;
        high *= 2;
        if high > RUNS_MAX {
            return None;
        }
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if power(middle) < POWER {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_that_can_prove_nothing_are_refused() {
        assert!(check(6, 1, 0.05).is_ok());
        let refused = check(5, 1, 0.05).unwrap_err();
        assert_eq!(refused.needed, 6);
        // Eight metrics prove nothing below nine pairs (recipes, trap 3).
        assert_eq!(check(8, 8, 0.05).unwrap_err().needed, 9);
        assert!(check(9, 8, 0.05).is_ok());
        assert_eq!(check(0, 0, 0.05).unwrap_err().needed, 6);
    }

    #[test]
    fn runs_per_arm_are_those_of_the_research_table() {
        for (variation, want) in [(0.01, 17), (0.02, 64), (0.03, 143), (0.05, 394)] {
            // The table is for the difference of logs that 1 % makes.
            let runs = runs_for(0.01, variation, 0.05).unwrap();
            assert!(
                runs.abs_diff(want) <= 1 + want / 50,
                "{variation}: {runs}, table {want}"
            );
        }
    }

    #[test]
    fn the_detectable_effect_is_found_with_the_promised_power() {
        for pairs in [6, 8, 12, 13, 20, 60] {
            let effect = detectable(pairs, 0.02, 0.05).unwrap();
            assert!(
                (power(pairs, 0.02, effect, 0.05) - POWER).abs() < 0.001,
                "{pairs}"
            );
        }
        assert_eq!(detectable(5, 0.02, 0.05), None);
        assert_eq!(pairs_for(1e-9, 1.0, 0.05), None);
    }
}
