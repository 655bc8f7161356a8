//! The few conversions between counts and floating point, in one place with their limits.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "each function bounds its argument first; that is what this module is for"
)]

/// Largest count that a `f64` still tells from its neighbours.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The whole part of `value` as a count: 0 for negative numbers and NaN, at most 2^53.
pub(crate) fn floor_count(value: f64) -> usize {
    value.clamp(0.0, EXACT_MAX) as usize
}

/// The whole part of `value` as nanoseconds or bytes: 0 for negative numbers and NaN.
pub(crate) fn floor_u64(value: f64) -> u64 {
    value.max(0.0) as u64
}
