//! What copying and mapping cost, and the rule that chooses.
//!
//! ```text
//! copy              = per_transfer + runs x per_run + bytes / bandwidth
//! copy from a view  = per_transfer + sync x pages   + bytes / bandwidth
//! making a view     = per_view + runs x map_run + pages x map_page      (its end included)
//! fetched by device = per_transfer + sync x pages + FETCH
//! importing a view  = pages x IMPORT_PAGE
//! ```
//!
//! **Rent or buy.** A backing is copied from until what a view would have saved so far reaches the view's
//! price; then the view is made. In hindsight this is never worse than twice the best choice, and a
//! backing used once or a few times never pays for a view at all.

use serde::{Deserialize, Serialize};
use towpath_measure::Nanos;
use towpath_settings::Settings;
use towpath_settings::calibration::{Key, Snapshot, Store, default_folder};

/// The constants of one machine, in nanoseconds; bandwidth in bytes per nanosecond (GB/s).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Model {
    /// A transfer without bytes.
    pub per_transfer: f64,
    /// Finding and starting one run while copying.
    pub per_run: f64,
    /// Bytes per nanosecond of a copy in large runs.
    pub bandwidth: f64,
    /// A stitched view without pieces.
    pub per_view: f64,
    /// Mapping and unmapping one run.
    pub map_run: f64,
    /// Making one page of a stitched view present.
    pub map_page: f64,
    /// A udmabuf view per page, present at its first use.
    pub udmabuf_page: f64,
    /// Begin and end of an access to a udmabuf view, per page.
    pub sync_page: f64,
    /// Copies of this many bytes and more go past the caches, where the reader is a device.
    pub streaming_min: u64,
}

impl Default for Model {
    /// Of the virtual machine this was written on (`research`: 4 KiB runs 1.5 x slower than one run,
    /// mapping 3.7 us per run, 1 us per page). A calibration replaces it.
    fn default() -> Self {
        Self {
            per_transfer: 200.0,
            per_run: 55.0,
            bandwidth: 9.0,
            per_view: 8_000.0,
            map_run: 3_700.0,
            map_page: 1_000.0,
            udmabuf_page: 1_800.0,
            sync_page: 2.0,
            streaming_min: 2 << 20,
        }
    }
}

/// How a view is made.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there are two ways to map")]
pub enum Kind {
    /// One mapping per run.
    Stitched,
    /// One mapping of a dma-buf.
    Udmabuf,
}

/// One transfer as the model sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Job {
    /// Bytes that move.
    pub bytes: u64,
    /// Runs of the backing that the transfer touches.
    pub runs: u64,
    /// Whether a device would fetch the bytes from a view by itself.
    pub by_device: bool,
}

/// What a view must map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mapped {
    /// Runs.
    pub runs: u64,
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Whether a device imports it.
    pub by_device: bool,
}

impl Model {
    /// Copying straight from the runs.
    #[must_use]
    pub fn copy(&self, job: Job) -> Nanos {
        nanos(self.per_transfer + count(job.runs) * self.per_run + self.stream(job.bytes))
    }

    /// Copying from a view that is there, or letting a device fetch from it.
    #[must_use]
    pub fn copy_from_view(&self, job: Job, kind: Kind) -> Nanos {
        let sync = match kind {
            Kind::Stitched => 0.0,
            Kind::Udmabuf => count(job.bytes.div_ceil(PAGE)) * self.sync_page,
        };
        let copy = if job.by_device {
            FETCH
        } else {
            self.per_run + self.stream(job.bytes)
        };
        nanos(self.per_transfer + sync + copy)
    }

    /// Making a view, importing it where a device fetches from it, and ending it.
    #[must_use]
    pub fn price(&self, mapped: Mapped, kind: Kind) -> Nanos {
        let pages = count(mapped.pages);
        let import = if mapped.by_device {
            pages * IMPORT_PAGE
        } else {
            0.0
        };
        let map = match kind {
            Kind::Stitched => count(mapped.runs) * self.map_run + pages * self.map_page,
            Kind::Udmabuf => pages * self.udmabuf_page,
        };
        nanos(self.per_view + map + import)
    }

    /// What a view would save for one transfer: nothing where the runs are large, unless a device fetches the
    /// bytes itself; then all of the copy.
    #[must_use]
    pub fn saving(&self, job: Job, kind: Kind) -> Nanos {
        self.copy(job)
            .saturating_sub(self.copy_from_view(job, kind))
    }

    fn stream(&self, bytes: u64) -> f64 {
        count(bytes) / self.bandwidth.max(1e-3)
    }
}

impl Model {
    /// The model calibrated for this machine: from the frozen snapshot if one is set, else from the store,
    /// else the default.
    #[must_use]
    pub fn stored(settings: &Settings) -> Self {
        let key = Self::key();
        let frozen = settings.calibration.as_deref().map(Snapshot::read);
        let entry = match frozen {
            Some(snapshot) => snapshot.ok().and_then(|all| all.find(&key).cloned()),
            None => default_folder(settings)
                .ok()
                .and_then(|folder| Store::new(folder).load(&key).ok().flatten()),
        };
        let values = entry.and_then(|entry| entry.values::<Self>().ok());
        values.filter(Self::is_sane).unwrap_or_default()
    }

    /// The key under which a calibration is stored.
    #[must_use]
    pub fn key() -> Key {
        Key::of_this_machine("textures", "memory", "kernel")
    }

    /// Whether every constant is finite and of the right sign.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        let costs = [
            self.per_transfer,
            self.per_run,
            self.per_view,
            self.map_run,
            self.map_page,
            self.udmabuf_page,
            self.sync_page,
        ];
        let good = |value: &f64| value.is_finite() && *value >= 0.0;
        costs.iter().all(good) && self.bandwidth.is_finite() && self.bandwidth > 0.0
    }
}

/// What renting has cost so far for one backing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rent {
    /// Savings missed.
    pub missed: Nanos,
    /// Transfers that were copied.
    pub uses: u64,
    /// Whether a device would have fetched the bytes of the last one.
    pub by_device: bool,
}

impl Rent {
    /// Whether a view of `price` has become the better choice; to be asked before a transfer that would
    /// miss `saving`.
    #[must_use]
    pub fn is_due(&self, saving: Nanos, price: Nanos) -> bool {
        saving > Nanos::ZERO && self.missed.saturating_add(saving) >= price
    }

    /// Notes a transfer that was copied although a view would have saved `saving`.
    pub fn pay(&mut self, saving: Nanos) {
        self.missed = self.missed.saturating_add(saving);
        self.uses = self.uses.saturating_add(1);
    }
}

/// The choice in words: `64 pieces of 4 KiB, used 11 times, missed 0.9 of 1.2 ms: copy`.
#[must_use]
pub fn explain(pieces: u64, bytes: u64, rent: &Rent, price: Nanos, is_view: bool) -> String {
    let piece_kib = count(bytes) / count(pieces.max(1)) / 1024.0;
    format!(
        "{pieces} pieces of {piece_kib:.0} KiB, used {} times, missed {:.3} of {:.3} ms: {}",
        rent.uses,
        rent.missed.as_millis_f64(),
        price.as_millis_f64(),
        if is_view { "view" } else { "copy" },
    )
}

const PAGE: u64 = 4096;

/// Nanoseconds per page of importing a stitched view: 127 to 205 us per MiB on an NVIDIA H200
/// (`bench/record/h200/2026-12-01-textures-vulkan.json`).
const IMPORT_PAGE: f64 = 600.0;

/// Nanoseconds that a device's fetch from scattered pages takes more than from memory of its own: on an
/// NVIDIA H200 uploads of 64 KiB in 16 pieces were 3 us slower from an import than by a copy of 6.8 us.
const FETCH: f64 = 10_000.0;

fn count(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a negative or huge span saturates, which `as` does"
)]
fn nanos(value: f64) -> Nanos {
    Nanos(value.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_runs_never_pay_for_a_view() {
        let model = Model::default();
        let job = Job {
            bytes: 16 << 20,
            runs: 8,
            by_device: false,
        };
        let mapped = Mapped {
            runs: 8,
            pages: 4096,
            by_device: false,
        };
        let saving = model.saving(job, Kind::Stitched);
        let price = model.price(mapped, Kind::Stitched);
        assert!(price.0 / saving.0.max(1) > 1000, "{saving:?} {price:?}");
    }

    /// Where the device fetches the bytes, a view saves the whole copy, and large runs pay as well.
    #[test]
    fn a_device_that_fetches_saves_the_copy() {
        let model = Model::default();
        for runs in [8, 4096] {
            let job = Job {
                bytes: 16 << 20,
                runs,
                by_device: true,
            };
            let mapped = Mapped {
                runs,
                pages: 4096,
                by_device: true,
            };
            for kind in [Kind::Stitched, Kind::Udmabuf] {
                let saving = model.saving(job, kind);
                let price = model.price(mapped, kind);
                assert!(price.0 < 15 * saving.0, "{runs}: {price:?} {saving:?}");
            }
        }
    }

    /// Uploads of 4 and 64 KiB from an import were proven slower than the copy on an H200.
    #[test]
    fn a_small_copy_is_not_worth_a_fetch_from_scattered_pages() {
        let model = Model::default();
        for (bytes, pays) in [(4 << 10, false), (64 << 10, false), (1 << 20, true)] {
            let job = Job {
                bytes,
                runs: bytes / 4096,
                by_device: true,
            };
            let saving = model.saving(job, Kind::Stitched);
            assert_eq!(saving.0 > 0, pays, "{bytes}: {saving:?}");
        }
    }

    #[test]
    fn renting_ends_when_the_price_is_missed_and_costs_at_most_twice() {
        let (saving, price) = (Nanos(30), Nanos(100));
        let mut rent = Rent::default();
        while !rent.is_due(saving, price) {
            rent.pay(saving);
        }
        assert_eq!(rent.uses, 3, "the fourth would miss more than the price");
        assert!(rent.missed < price);
        assert!(
            !Rent::default().is_due(Nanos::ZERO, Nanos::ZERO),
            "nothing to save"
        );
    }

    #[test]
    fn the_choice_is_explained() {
        let rent = Rent {
            missed: Nanos(1_234_000),
            uses: 11,
            by_device: false,
        };
        let text = explain(64, 64 * 4096, &rent, Nanos(1_200_000), true);
        assert_eq!(
            text,
            "64 pieces of 4 KiB, used 11 times, missed 1.234 of 1.200 ms: view"
        );
    }
}
