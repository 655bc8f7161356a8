//! Ledgers as JSON, part of `towpath.run/1`.

use serde_json::{Value, json};
use towpath_ledger::Site;

use super::{Basis, Observed, path_name, predict, predicted, waits};

/// The sum of a run's ledgers. Times are in nanoseconds.
#[must_use]
pub fn json(observed: &Observed, basis: &Basis) -> Value {
    let sites: Vec<Value> = observed
        .sites
        .iter()
        .map(|site| site_json(site, basis))
        .collect();
    let counters: serde_json::Map<String, Value> = observed
        .counters
        .iter()
        .map(|(counter, total)| (counter.name().to_owned(), json!(total)))
        .collect();
    let writers: Vec<Value> = observed
        .writers
        .iter()
        .map(|(program, pid, library)| json!({"program": program, "pid": pid, "library": library}))
        .collect();
    json!({
        "writers": writers,
        "frames_presented": observed.frames,
        "counters": counters,
        "waits": waits::json(observed),
        "rates": basis.rates.map(|rates| json!({
            "prefault_s_per_byte": rates.prefault_s_per_byte,
            "warm_s_per_byte": rates.warm_s_per_byte,
        })),
        "calibrated_devices": basis.calibrations.keys().collect::<Vec<_>>(),
        "predicted_saved_ns": predicted(observed, basis)
            .into_iter()
            .map(|(path, saved)| (path.name().to_owned(), json!(saved.0)))
            .collect::<serde_json::Map<String, Value>>(),
        "sites": sites,
    })
}

fn site_json(site: &Site, basis: &Basis) -> Value {
    let outcomes: Vec<Value> = site
        .outcomes
        .iter()
        .map(|outcome| json!({"outcome": outcome.text(), "calls": outcome.calls}))
        .collect();
    let stack: Vec<Value> = site
        .stack
        .iter()
        .map(|frame| json!({"module": frame.module, "offset": frame.offset}))
        .collect();
    let prediction = predict(site, basis)
        .map(|prediction| json!({"saved_ns": prediction.saved.0, "rule": prediction.rule}));
    json!({
        "hash": format!("{:016x}", site.hash),
        "path": path_name(site),
        "call": site.call,
        "device": site.device,
        "stack": stack,
        "is_overflow": site.is_overflow,
        "calls": site.calls,
        "bytes": site.bytes,
        "wall_ns": site.wall.0,
        "longest_ns": site.longest.0,
        "faults": site.faults,
        "cold_bytes": site.cold_bytes,
        "cold_unknown_calls": site.cold_unknown_calls,
        "warm_bytes": site.warm_bytes,
        "warm_wall_ns": site.warm_wall.0,
        "saved_ns": site.saved.0,
        "outcomes": outcomes,
        "wall_log2_ns": site.walls.0,
        "prediction": prediction,
    })
}
