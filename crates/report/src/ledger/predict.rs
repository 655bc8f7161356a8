//! What a fix would save at a site, from what was seen and what this machine does.

use std::collections::BTreeMap;

use towpath_ledger::{HostPath, Site};
use towpath_measure::Nanos;
use towpath_transfer::policy::{Calibration, Class, Direction, Mechanism, Warmth};

use super::active_calls;
use crate::numbers::with_unit;

/// How fast this machine brings pages in and copies into present ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Seconds to bring one byte's share of a page in.
    pub prefault_s_per_byte: f64,
    /// Seconds to copy one byte into memory that is present: a device does hardly better.
    pub warm_s_per_byte: f64,
}

/// What predictions rest on.
#[derive(Clone, Debug, Default)]
pub struct Basis {
    /// The machine's rates, for devices without a calibration.
    pub rates: Option<Rates>,
    /// Calibrations that hold for this machine, by the device's name.
    pub calibrations: BTreeMap<String, Calibration>,
}

/// What a fix would save at one site.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The time that would be saved; zero where the calibration sees no gain.
    pub saved: Nanos,
    /// By which rule, with its numbers.
    pub rule: String,
}

/// Fewer warm bytes than this say nothing about a site's warm rate.
const WARM_BYTES_MIN: u64 = 1 << 20;

/// What the fix of the site's path would save; `None` if nothing can be said or nothing is to be had.
///
/// The layer's own estimate comes first. Then, for transfers on a calibrated device: the calls' wall time,
/// cut by as much as the best mechanism for their mean size was faster than the driver's own call. Else, for
/// readback: the wall time of the calls into cold memory, less what they would take warm, less what bringing
/// the pages in costs; the warm rate is that of the site's own warm calls where it has some.
#[must_use]
pub fn predict(site: &Site, basis: &Basis) -> Option<Prediction> {
    if active_calls(site) > 0 {
        return None;
    }
    if let Ok(saved @ 1..) = u64::try_from(site.saved.0) {
        return Some(Prediction {
            saved: Nanos(saved),
            rule: "the layer's estimate, call by call".to_owned(),
        });
    }
    let path = site.path?;
    let calibrated = basis.calibrations.get(&site.device);
    let by_calibration = calibrated.and_then(|calibration| from_class(site, path, calibration));
    match path {
        HostPath::Readback => by_calibration.or_else(|| readback(site, basis.rates.as_ref())),
        HostPath::Upload => by_calibration,
        _ => None,
    }
}

fn from_class(site: &Site, path: HostPath, calibration: &Calibration) -> Option<Prediction> {
    let cold_wall = site.wall.saturating_sub(site.warm_wall);
    let (direction, warmth, wall) = match path {
        HostPath::Readback if site.cold_bytes == 0 => return None,
        HostPath::Readback => (Direction::Read, Warmth::Cold, cold_wall),
        _ => (Direction::Write, Warmth::Warm, site.wall),
    };
    let bytes = usize::try_from(site.bytes.checked_div(site.calls)?).ok()?;
    let class = calibration.find(direction, warmth, bytes)?;
    let best = chosen_ns(class);
    let share = 1.0 - best as f64 / class.forward_ns.max(1) as f64;
    let time = |ns: u64| with_unit(ns as f64 / 1e9, "s");
    let size = with_unit(class.bytes as f64, "bytes");
    let rule = match class.choice {
        Mechanism::Forward => format!("calibration at {size}: the driver's own call is best"),
        _ => format!(
            "calibration at {size}: {} instead of {}",
            time(best),
            time(class.forward_ns)
        ),
    };
    let saved = Nanos::from_secs_f64(wall.as_secs_f64() * share);
    Some(Prediction { saved, rule })
}

fn chosen_ns(class: &Class) -> u64 {
    let chosen = class
        .options
        .iter()
        .find(|option| option.mechanism == class.choice);
    chosen.map_or(class.forward_ns, |option| option.ns)
}

fn readback(site: &Site, rates: Option<&Rates>) -> Option<Prediction> {
    if site.cold_bytes == 0 {
        return None;
    }
    let rates = rates?;
    let own_rate = (site.warm_bytes >= WARM_BYTES_MIN)
        .then(|| site.warm_wall.as_secs_f64() / site.warm_bytes as f64);
    let warm_rate = own_rate.unwrap_or(rates.warm_s_per_byte);
    let cold_wall = site.wall.saturating_sub(site.warm_wall).as_secs_f64();
    let cold_calls_bytes = site.bytes.saturating_sub(site.warm_bytes) as f64;
    let warm = cold_calls_bytes * warm_rate;
    let prefault = site.cold_bytes as f64 * rates.prefault_s_per_byte;
    let saved = Nanos::from_secs_f64(cold_wall - warm - prefault);
    let origin = match own_rate {
        Some(_) => "as its own warm calls",
        None => "as a copy in memory",
    };
    let time = |seconds| with_unit(seconds, "s");
    (saved > Nanos::ZERO).then(|| Prediction {
        saved,
        rule: format!(
            "cold {} - warm {} ({origin}) - pages {}",
            time(cold_wall),
            time(warm),
            time(prefault)
        ),
    })
}
