//! What a fix would save at a site, from what was seen and what this machine does.

use towpath_ledger::{HostPath, Site};
use towpath_measure::Nanos;

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

/// What a fix would save at one site.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The time that would be saved.
    pub saved: Nanos,
    /// By which rule, with its numbers.
    pub rule: String,
}

/// Fewer warm bytes than this say nothing about a site's warm rate.
const WARM_BYTES_MIN: u64 = 1 << 20;

/// What the fix of the site's path would save; `None` if nothing can be said or nothing is to be had.
///
/// For readback: the wall time of the calls into cold memory, less what they would take warm, less
/// what bringing the pages in costs. The warm rate is that of the site's own warm calls where it has
/// some, else `rates`. For the other paths: the layer's own estimate, if it made one.
#[must_use]
pub fn predict(site: &Site, rates: Option<&Rates>) -> Option<Prediction> {
    if active_calls(site) > 0 {
        return None;
    }
    if let Ok(saved @ 1..) = u64::try_from(site.saved.0) {
        return Some(Prediction {
            saved: Nanos(saved),
            rule: "the layer's estimate, call by call".to_owned(),
        });
    }
    match site.path? {
        HostPath::Readback => readback(site, rates),
        _ => None,
    }
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
