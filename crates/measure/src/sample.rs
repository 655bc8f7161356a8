//! One sample of numbers: checks, exact sums, order statistics.

use crate::convert::floor_count;
use crate::error::{Error, Result};

/// The largest magnitude that can be judged: squares of larger values leave the range of numbers.
pub const MAGNITUDE_MAX: f64 = 1e150;

/// Whether a value is finite and at most [`MAGNITUDE_MAX`] in magnitude.
#[must_use]
pub fn can_be_judged(value: f64) -> bool {
    value.abs() <= MAGNITUDE_MAX
}

/// Refuses NaN, infinities and values beyond [`MAGNITUDE_MAX`], naming the first one.
///
/// # Errors
///
/// [`Error::NotFinite`], [`Error::BeyondRange`] with `name` as the sample's name.
pub fn check_finite(values: &[f64], name: &str) -> Result<()> {
    let refused = values.iter().enumerate();
    let Some((index, &value)) = refused
        .into_iter()
        .find(|(_, value)| !can_be_judged(**value))
    else {
        return Ok(());
    };
    let sample = name.to_owned();
    Err(if value.is_finite() {
        Error::BeyondRange {
            sample,
            index,
            value,
        }
    } else {
        Error::NotFinite {
            sample,
            index,
            value,
        }
    })
}

/// The sum with Neumaier's compensation: exact to a few units in the last place for any order.
#[must_use]
pub fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    sum + lost
}

/// The arithmetic mean; NaN for an empty sample.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    sum(values.iter().copied()) / values.len() as f64
}

/// The geometric mean of positive values; NaN for an empty sample.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logs = values.iter().map(|value| libm::log(*value));
    libm::exp(sum(logs) / values.len() as f64)
}

/// The sample variance (n - 1), in two passes with the correction for the mean's rounding; NaN below 2 values.
#[must_use]
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let mean = mean(values);
    let squares = sum(values.iter().map(|value| (value - mean) * (value - mean)));
    let residue = sum(values.iter().map(|value| value - mean));
    let n = values.len() as f64;
    ((squares - residue * residue / n) / (n - 1.0)).max(0.0)
}

/// The sample standard deviation; NaN below 2 values.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    variance(values).sqrt()
}

/// Puts each of the places `wanted` (rising) right, as sorting would, and the values between them on their sides.
///
/// # Cost
///
/// About n log2 of the number of places, in place; two threads where there are enough values.
pub fn select(values: &mut [f64], wanted: &[usize]) {
    /// Below it, one thread: starting another costs some ten thousand comparisons.
    const PARALLEL_MIN: usize = 1 << 18;
    let middle = wanted.len() / 2;
    let Some(&place) = wanted.get(middle).filter(|place| **place < values.len()) else {
        if let Some(wanted) = wanted.get(..middle).filter(|wanted| !wanted.is_empty()) {
            select(values, wanted);
        }
        return;
    };
    let (below, _, above) = values.select_nth_unstable_by(place, f64::total_cmp);
    let (left, right) = wanted.split_at(middle);
    let right: Vec<usize> = right
        .iter()
        .filter(|other| **other > place)
        .map(|other| other - place - 1)
        .collect();
    if below.len().min(above.len()) < PARALLEL_MIN {
        select(below, left);
        select(above, &right);
        return;
    }
    let is_started = std::thread::scope(|scope| {
        let other = std::thread::Builder::new();
        let started = other.spawn_scoped(scope, || select(above, &right));
        select(below, left);
        started.is_ok()
    });
    if !is_started {
        select(above, &right);
    }
}

/// Both answers; on two threads if `is_long` and another thread is to be had.
pub(crate) fn both<A: Send, B>(
    is_long: bool,
    first: impl Fn() -> A + Sync,
    second: impl FnOnce() -> B,
) -> (A, B) {
    if !is_long {
        return (first(), second());
    }
    std::thread::scope(|scope| {
        let started = std::thread::Builder::new().spawn_scoped(scope, &first);
        let second = second();
        let answer = started.ok().and_then(|thread| thread.join().ok());
        (answer.unwrap_or_else(&first), second)
    })
}

/// The values in order (`total_cmp`).
#[must_use]
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The quantile `q` of sorted values by linear interpolation (numpy's default, type 7); NaN if empty.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = floor_count(place).min(last);
    let at = |index: usize| sorted.get(index.min(last)).copied().unwrap_or(f64::NAN);
    let share = place - below as f64;
    let (low, high) = (at(below), at(below + 1));
    if share <= 0.0 {
        low
    } else {
        low + (high - low) * share
    }
}

/// The median (mean of the middle two); NaN if empty.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// What a table shows of one sample.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// How many values.
    pub n: usize,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The middle (mean of two).
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation; 0 for a single value.
    pub deviation: f64,
}

impl Summary {
    /// Summarises `values`; `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`].
    pub fn of(values: &[f64], name: &str) -> Result<Option<Self>> {
        check_finite(values, name)?;
        let sorted = sorted(values);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Ok(None);
        };
        let deviation = if values.len() < 2 {
            0.0
        } else {
            deviation(values)
        };
        Ok(Some(Self {
            n: values.len(),
            min,
            max,
            median: quantile(&sorted, 0.5),
            mean: mean(values),
            deviation,
        }))
    }

    /// Standard deviation over mean; `None` where the mean is 0.
    #[must_use]
    pub fn variation(&self) -> Option<f64> {
        (self.mean != 0.0).then(|| self.deviation / self.mean.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_offset_does_not_eat_the_variance() {
        // Debian's ministat prints 14.7 and -nan for these (research note, section 1).
        let noise: Vec<f64> = {
            let mut random = crate::random::Random::new(3);
            (0..200).map(|_| random.normal()).collect()
        };
        for offset in [1e9, 1e12] {
            let moved: Vec<f64> = noise.iter().map(|value| value + offset).collect();
            let back: Vec<f64> = moved.iter().map(|value| value - offset).collect();
            let error = (deviation(&moved) - deviation(&back)).abs() / deviation(&back);
            assert!(error < 1e-6, "{offset}: {error}");
        }
    }

    #[test]
    fn the_sum_keeps_what_a_plain_sum_loses() {
        assert!((sum([1e100, 1.0, -1e100]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        let values = [1.0, 2.0, 3.0, 4.0];
        for (q, want) in [(0.0, 1.0), (0.1, 1.3), (0.5, 2.5), (0.95, 3.85), (1.0, 4.0)] {
            assert!((quantile(&values, q) - want).abs() < 1e-12, "{q}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_first_value_that_is_not_finite_is_named() {
        let error = Summary::of(&[1.0, f64::NAN], "off").unwrap_err();
        assert_eq!(
            error.to_string(),
            "value 2 of off is NaN, not a finite number"
        );
        assert_eq!(Summary::of(&[], "x"), Ok(None));
    }
}
