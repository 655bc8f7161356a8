//! Numbers with a unit: spans of host time.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

use crate::convert::floor_u64;

/// A span of host time, or a moment of a clock whose start does not matter, in nanoseconds.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span, about 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// So many microseconds; saturates.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// So many milliseconds; saturates.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// So many seconds; saturates.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// So many seconds, rounded to the nanosecond; 0 for negative numbers and NaN; saturates.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self(floor_u64((secs * 1e9).round()))
    }

    /// This span in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span in milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// From `earlier` to this moment; zero if `earlier` lies after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The sum; saturates.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference; zero if `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Self::saturating_add)
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits and a unit: `17 ns`, `4.40 ms`, `2.32 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&human(self.0))
    }
}

/// A difference of two spans, in nanoseconds; what a fix saved (positive) or cost (negative).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct SignedNanos(pub i64);

impl SignedNanos {
    /// No difference.
    pub const ZERO: Self = Self(0);

    /// `minuend - subtrahend`; saturates.
    #[must_use]
    pub fn difference(minuend: Nanos, subtrahend: Nanos) -> Self {
        let wide = i128::from(minuend.0) - i128::from(subtrahend.0);
        Self(i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX }))
    }

    /// The sum; saturates.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This difference in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for SignedNanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{}", human(self.0.unsigned_abs())))
    }
}

/// A span as people read it.
fn human(nanos: u64) -> String {
    if nanos < 1_000 {
        return format!("{nanos} ns");
    }
    let value = nanos as f64;
    // Limits lie where three digits would round up to the next unit.
    let (scaled, unit) = if value < 999_500.0 {
        (value / 1e3, "us")
    } else if value < 999_500_000.0 {
        (value / 1e6, "ms")
    } else {
        (value / 1e9, "s")
    };
    let digits = if scaled < 9.995 {
        2
    } else {
        usize::from(scaled < 99.95)
    };
    format!("{scaled:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_shows_three_digits_and_its_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (9_996, "10.0 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (4_400_000, "4.40 ms"),
            (999_600_000, "1.00 s"),
            (2_318_000_000, "2.32 s"),
            (99_960_000_000, "100 s"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text, "{nanos}");
        }
        assert_eq!(SignedNanos(-1_500_000).to_string(), "-1.50 ms");
        assert_eq!(SignedNanos(i64::MIN).to_string(), "-9223372037 s");
    }

    #[test]
    fn spans_saturate_instead_of_wrapping() {
        assert_eq!(Nanos(1).since(Nanos(2)), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(1e30), Nanos::MAX);
        assert_eq!(
            SignedNanos::difference(Nanos::MAX, Nanos::ZERO),
            SignedNanos(i64::MAX)
        );
        assert_eq!(SignedNanos::difference(Nanos(1), Nanos(3)), SignedNanos(-2));
    }
}
