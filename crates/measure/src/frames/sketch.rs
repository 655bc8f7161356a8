//! A run's frames in the few numbers that a picture needs.

use super::metrics::Ordered;
use crate::convert::floor_count;
use crate::sample::{quantile, sum};

/// Frames in slices of time, and their distribution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketch {
    /// Length of a slice in seconds.
    pub slice_s: f64,
    /// Shortest and longest frame that ended in each slice, in ms. An empty slice repeats the one before.
    pub slices: Vec<(f64, f64)>,
    /// Frame times at rising shares of frames, finer towards the end.
    pub ladder: Vec<(f64, f64)>,
}

/// Shares of frames at which the ladder has a step.
pub(super) fn shares() -> impl Iterator<Item = f64> {
    let body = (0..=98).map(|percent| f64::from(percent) / 100.0);
    let tail = (1..=60).map(|step| 1.0 - 0.02 * libm::pow(10.0, -f64::from(step) / 20.0));
    body.chain(tail).chain([1.0])
}

/// Sketches frames with at most `slices_max` slices; no spike is lost.
#[must_use]
pub fn sketch(frame_ms: &[f64], slices_max: usize) -> Sketch {
    sketch_ordered(frame_ms, &Ordered::of(frame_ms), slices_max)
}

/// As [`sketch`], for frames that were ordered already.
#[must_use]
pub fn sketch_ordered(frame_ms: &[f64], ordered: &Ordered, slices_max: usize) -> Sketch {
    let total = sum(frame_ms.iter().copied());
    if frame_ms.is_empty() || slices_max == 0 {
        return Sketch::default();
    }
    let count = slices_max.min(frame_ms.len());
    let slice_ms = total / count as f64;
    let mut slices: Vec<Option<(f64, f64)>> = vec![None; count];
    let mut now = 0.0;
    for &frame in frame_ms {
        now += frame;
        let place = floor_count(now / slice_ms).min(count - 1);
        if let Some(slice) = slices.get_mut(place) {
            let (low, high) = slice.unwrap_or((frame, frame));
            *slice = Some((low.min(frame), high.max(frame)));
        }
    }
    let first = slices
        .iter()
        .flatten()
        .next()
        .copied()
        .unwrap_or((0.0, 0.0));
    let filled = slices.into_iter().scan(first, |last, slice| {
        *last = slice.unwrap_or(*last);
        Some(*last)
    });
    let slices = filled.collect();
    let ladder = shares()
        .map(|share| (share, quantile(ordered.values(), share)))
        .collect();
    Sketch {
        slice_s: slice_ms / 1e3,
        slices,
        ladder,
    }
}
