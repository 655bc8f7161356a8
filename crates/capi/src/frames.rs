//! What is said of a run's frame times.

use std::ffi::c_char;

use towpath_measure::frames::metrics::{Metrics, Target, evaluate};
use towpath_measure::judge::Direction;

use crate::boundary::{affordable, guard, one, put, slice, slice_mut};
use crate::status::{tp_status, tp_status as Status};

/// Bytes of a metric's name with its closing 0.
pub const TP_METRIC_NAME: usize = 32;
/// Bytes of a metric's unit with its closing 0.
pub const TP_METRIC_UNIT: usize = 8;
/// Bytes of a metric's definition with its closing 0.
pub const TP_METRIC_DEFINITION: usize = 128;

/// One metric of a run. Owns its texts: nothing to free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tp_metric {
    /// Its name, such as `fps`, `low-1%`, `stutter`.
    pub name: [c_char; TP_METRIC_NAME],
    /// Its unit; empty for counts.
    pub unit: [c_char; TP_METRIC_UNIT],
    /// What exactly it is: names of frame metrics mean different things in different tools.
    pub definition: [c_char; TP_METRIC_DEFINITION],
    /// Not 0: more is better.
    pub higher_is_better: i32,
    /// Not 0: it holds only if every frame is in the data, not a sample of them.
    pub needs_all: i32,
    /// Its value; NaN where the data give none.
    pub value: f64,
}

/// Computes the metrics of `frames` frame times in milliseconds, in the order of the run, against a display of
/// `hertz` (0: 60).
///
/// With `metrics` NULL only their number is stored in `*count`. Else `*count` is the room there is, and gets the
/// number of metrics; TP_ERROR_ROOM: it was too small, nothing was stored. The order is always the same.
/// TP_ERROR_INVALID: no frames, or a frame time that is not a positive number below 1e12.
/// Any thread; allocates a copy of the frames and frees it; nothing is kept.
///
/// # Safety
///
/// `frame_ms` is null or valid for reads of `frames` doubles; `metrics` is null or valid for writes of `*count`
/// values; `count` is null or valid for a read and a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_frames_metrics(
    frame_ms: *const f64,
    frames: usize,
    hertz: f64,
    metrics: *mut tp_metric,
    count: *mut usize,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let frame_ms = unsafe { slice(frame_ms, frames) }?;
        // SAFETY: the caller's promise.
        let room = unsafe { one(count.cast_const()) }?;
        // A sorted copy, and one of what lies above a bound.
        affordable(frames, 4 * size_of::<f64>())?;
        let target = target(hertz)?;
        let is_frame = |frame: &f64| frame.is_finite() && (1e-9..1e12).contains(frame);
        if frame_ms.is_empty() || !frame_ms.iter().all(is_frame) {
            return Err(Status::TP_ERROR_INVALID);
        }
        let found = evaluate(frame_ms, &target);
        // SAFETY: the caller's promise.
        unsafe { put(count, found.len()) }?;
        if metrics.is_null() {
            return Ok(());
        }
        if room < found.len() {
            return Err(Status::TP_ERROR_ROOM);
        }
        // SAFETY: the caller's promise; not more than the room.
        let metrics = unsafe { slice_mut(metrics, found.len()) }?;
        for (to, from) in metrics.iter_mut().zip(&found) {
            *to = metric(from);
        }
        Ok(())
    })
}

fn target(hertz: f64) -> Result<Target, Status> {
    let default = Target::default();
    if hertz == 0.0 {
        return Ok(default);
    }
    if !(1.0..=1e6).contains(&hertz) {
        return Err(Status::TP_ERROR_INVALID);
    }
    Ok(Target { hertz, ..default })
}

fn metric(from: &Metrics) -> tp_metric {
    tp_metric {
        name: text(&from.name),
        unit: text(from.unit),
        definition: text(&from.definition),
        higher_is_better: i32::from(from.better == Direction::Higher),
        needs_all: i32::from(from.needs_all),
        value: from.value,
    }
}

/// `from` with a closing 0; cut where it is too long, which the test below rules out.
fn text<const ROOM: usize>(from: &str) -> [c_char; ROOM] {
    let mut to = [0; ROOM];
    let room = ROOM.saturating_sub(1);
    for (to, byte) in to.iter_mut().take(room).zip(from.bytes()) {
        *to = c_char::from_le_bytes([byte]);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_metric_is_cut() {
        for metric in evaluate(
            &[16.0, 17.0, 40.0],
            &Target {
                hertz: 165.25,
                ..Target::default()
            },
        ) {
            assert!(metric.name.len() < TP_METRIC_NAME, "{}", metric.name);
            assert!(metric.unit.len() < TP_METRIC_UNIT, "{}", metric.unit);
            assert!(
                metric.definition.len() < TP_METRIC_DEFINITION,
                "{}",
                metric.definition
            );
        }
    }
}
