//! From what a run left behind (its exit, its ledgers, its output) to its readings.

use std::collections::BTreeMap;

use towpath_ledger::{HostPath, LedgerFile};
use towpath_report::{Reading, Run};

use super::metric::Metric;

/// Reads the host paths off the ledgers of one run.
pub(super) fn from_ledgers(run: &mut Run, ledgers: &[LedgerFile]) {
    let total = |path: HostPath| {
        let mut total = PathTotal::default();
        for site in ledgers.iter().flat_map(LedgerFile::sites) {
            if site.path == Some(path) {
                total.add(&site);
            }
        }
        total
    };
    let readback = total(HostPath::Readback);
    readback.time(run, "readback-time");
    if readback.calls > 0 {
        run.read("readback-bytes", mib(readback.bytes));
        match readback.cold_bytes {
            Some(cold) => run.read("readback-cold", mib(cold)),
            None => run.cannot_read("readback-cold", "the state of the pages was not known"),
        }
    }
    total(HostPath::Upload).time(run, "upload-time");
    total(HostPath::Cache).time(run, "cache-time");
    total(HostPath::Waits).time(run, "waits-time");
}

/// Devices to or from which at least [`CALIBRATED_BYTES_MIN`] were moved.
pub(super) fn devices(ledgers: &[LedgerFile]) -> Vec<String> {
    let mut bytes = BTreeMap::<String, u64>::new();
    for site in ledgers.iter().flat_map(LedgerFile::sites) {
        let moves = matches!(site.path, Some(HostPath::Readback | HostPath::Upload));
        if moves && !site.device.is_empty() {
            let sum = bytes.entry(site.device).or_default();
            *sum = sum.saturating_add(site.bytes);
        }
    }
    let enough = bytes
        .into_iter()
        .filter(|(_, bytes)| *bytes >= CALIBRATED_BYTES_MIN);
    enough.map(|(device, _)| device).collect()
}

/// 1 MiB: the smallest size that a calibration measures.
const CALIBRATED_BYTES_MIN: u64 = 1 << 20;

/// Reads the program's own metrics off its output; several lines of one run are one value of it.
pub(super) fn from_output(run: &mut Run, metrics: &[Metric], output: &str) {
    for metric in metrics.iter().filter(|metric| metric.pattern.is_some()) {
        let found = metric.found_in(output);
        match found.as_slice() {
            [] => run.cannot_read(metric.name(), "its pattern matched nothing in the output"),
            [one] => run.read(metric.name(), *one),
            _ => {
                run.readings
                    .insert(metric.name().to_owned(), Reading::of_repeats(found));
            }
        }
    }
}

/// What all sites of a host path add up to.
#[derive(Debug)]
struct PathTotal {
    calls: u64,
    bytes: u64,
    wall_ns: u64,
    /// `None` as soon as one site does not know.
    cold_bytes: Option<u64>,
}

impl Default for PathTotal {
    fn default() -> Self {
        Self {
            calls: 0,
            bytes: 0,
            wall_ns: 0,
            cold_bytes: Some(0),
        }
    }
}

impl PathTotal {
    fn add(&mut self, site: &towpath_ledger::Site) {
        self.calls = self.calls.saturating_add(site.calls);
        self.bytes = self.bytes.saturating_add(site.bytes);
        self.wall_ns = self.wall_ns.saturating_add(site.wall.0);
        self.cold_bytes = match (self.cold_bytes, site.cold_unknown_calls) {
            (Some(sum), 0) => Some(sum.saturating_add(site.cold_bytes)),
            _ => None,
        };
    }

    fn time(&self, run: &mut Run, metric: &str) {
        if self.calls > 0 {
            run.read(metric, self.wall_ns as f64 / 1e9);
        } else {
            run.cannot_read(metric, "the program made no such call that towpath saw");
        }
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
