//! What ledgers say, summed over processes: sites, totals, and what each fix would save.

use std::collections::BTreeMap;

use towpath_ledger::{Buckets, Counter, Histogram, HostPath, LedgerFile, Outcome, Site};
use towpath_measure::Nanos;

mod caches;
mod html;
mod json;
mod predict;
mod text;
mod waits;

pub use html::html;
pub use json::json;
pub use predict::{Basis, Prediction, Rates, predict};
pub use text::{site_text, text};

/// The ledgers of one run, summed.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Sites, the most wall time first.
    pub sites: Vec<Site>,
    /// Named totals that are not 0.
    pub counters: BTreeMap<Counter, u64>,
    /// Named histograms that are not empty.
    pub histograms: BTreeMap<Histogram, Buckets>,
    /// Frames presented, over all processes.
    pub frames: u64,
    /// The processes and libraries that wrote: program, process id, library.
    pub writers: Vec<(String, u32, String)>,
}

impl Observed {
    /// Sums `ledgers`; a site that several processes have is one.
    #[must_use]
    pub fn sum(ledgers: &[LedgerFile]) -> Self {
        let mut sites: BTreeMap<u64, Site> = BTreeMap::new();
        let mut observed = Self::default();
        for ledger in ledgers {
            let writer = (ledger.program(), ledger.pid(), ledger.library());
            observed.writers.push(writer);
            observed.frames = observed.frames.saturating_add(ledger.frames().presented);
            for (counter, total) in ledger.counters() {
                let sum = observed.counters.entry(counter).or_default();
                *sum = sum.saturating_add(total);
            }
            for (histogram, more) in ledger.histograms() {
                add_buckets(observed.histograms.entry(histogram).or_default(), &more);
            }
            for site in ledger.sites() {
                sites
                    .entry(site.hash)
                    .and_modify(|sum| add(sum, &site))
                    .or_insert(site);
            }
        }
        observed.sites = sites.into_values().collect();
        observed
            .sites
            .sort_by_key(|site| std::cmp::Reverse(site.wall));
        observed
    }

    /// Sums over the sites of `path`.
    #[must_use]
    pub fn path(&self, path: HostPath) -> PathSum {
        let sites = self.sites.iter().filter(|site| site.path == Some(path));
        sites.fold(PathSum::default(), |sum, site| PathSum {
            calls: sum.calls.saturating_add(site.calls),
            bytes: sum.bytes.saturating_add(site.bytes),
            cold_bytes: sum.cold_bytes.saturating_add(site.cold_bytes),
            faults: sum.faults.saturating_add(site.faults),
            wall: sum.wall.saturating_add(site.wall),
        })
    }

    /// Frames presented, by their ring or by their counter.
    pub(crate) fn frames_presented(&self) -> u64 {
        let counted = self.counters.get(&Counter::Frames).copied();
        self.frames.max(counted.unwrap_or(0))
    }

    /// Whether nothing was recorded at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.counters.is_empty() && self.frames == 0
    }
}

/// What one host path cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PathSum {
    /// Calls.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes into absent pages.
    pub cold_bytes: u64,
    /// Minor faults.
    pub faults: u64,
    /// Wall time as the program saw it.
    pub wall: Nanos,
}

fn add_buckets(sum: &mut Buckets, more: &Buckets) {
    if sum.0.len() < more.0.len() {
        sum.0.resize(more.0.len(), 0);
    }
    for (to, n) in sum.0.iter_mut().zip(&more.0) {
        *to = to.saturating_add(*n);
    }
}

/// Adds the counts of one process's site to those of another's.
fn add(sum: &mut Site, more: &Site) {
    let plus = |to: &mut u64, n: u64| *to = to.saturating_add(n);
    plus(&mut sum.calls, more.calls);
    plus(&mut sum.bytes, more.bytes);
    plus(&mut sum.faults, more.faults);
    plus(&mut sum.cold_bytes, more.cold_bytes);
    plus(&mut sum.cold_unknown_calls, more.cold_unknown_calls);
    plus(&mut sum.warm_bytes, more.warm_bytes);
    sum.wall += more.wall;
    sum.warm_wall += more.warm_wall;
    sum.saved.0 = sum.saved.0.saturating_add(more.saved.0);
    sum.longest = sum.longest.max(more.longest);
    for outcome in &more.outcomes {
        match sum
            .outcomes
            .iter_mut()
            .find(|known| known.number == outcome.number)
        {
            Some(known) => plus(&mut known.calls, outcome.calls),
            None => sum.outcomes.push(*outcome),
        }
    }
    for (to, n) in sum.walls.0.iter_mut().zip(&more.walls.0) {
        plus(to, *n);
    }
}

/// Calls of the site in which a fix did its work.
pub(crate) fn active_calls(site: &Site) -> u64 {
    let active = site
        .outcomes
        .iter()
        .filter(|o| o.outcome.is_some_and(Outcome::is_active));
    active.fold(0, |sum, outcome| sum.saturating_add(outcome.calls))
}

/// The share of a site's bytes that was cold, or `None` where not one call's state is known.
pub(crate) fn cold_share(site: &Site) -> Option<f64> {
    let is_unknown = site.cold_unknown_calls >= site.calls;
    (!is_unknown && site.bytes > 0).then(|| site.cold_bytes as f64 / site.bytes as f64)
}

/// Cold bytes are those of a destination in memory: only readbacks have them.
pub(crate) fn cold_text(site: &Site) -> String {
    match site.path {
        Some(HostPath::Readback) | None => {
            cold_share(site).map_or("?".to_owned(), |share| format!("{:.0} %", share * 100.0))
        }
        Some(_) => "-".to_owned(),
    }
}

/// What each fix would save over all sites, where that is anything.
#[must_use]
pub fn predicted(observed: &Observed, basis: &Basis) -> Vec<(HostPath, Nanos)> {
    let sum = |path: &HostPath| {
        let sites = observed
            .sites
            .iter()
            .filter(|site| site.path == Some(*path));
        let saved = sites.filter_map(|site| predict(site, basis));
        (
            *path,
            saved.map(|prediction| prediction.saved).sum::<Nanos>(),
        )
    };
    let sums = HostPath::ALL.iter().map(sum);
    sums.filter(|(_, saved)| *saved > Nanos::ZERO).collect()
}

/// The site's host path in words.
pub(crate) fn path_name(site: &Site) -> &'static str {
    site.path.map_or("?", HostPath::name)
}

/// `darktable+0x1f2` of each frame, innermost first, folders left out.
pub(crate) fn stack_text(site: &Site) -> String {
    let frames = site.stack.iter().map(|frame| {
        let name = frame.module.rsplit('/').next().unwrap_or("?");
        format!("{name}+{:#x}", frame.offset)
    });
    frames.collect::<Vec<_>>().join(" < ")
}
