//! Backings of a renderer that cannot be changed: when should its list of pieces become one mapping?
//!
//! virglrenderer copies a texture twice when its backing has more than one piece: into a temporary buffer,
//! then into GL. Given one piece it lets GL read the guest's memory at once. So the list is replaced by
//! one piece when that pays:
//!
//! - pieces that follow each other in memory are merged when the list is attached, which costs nothing;
//! - a list that is still longer is watched, and mapped a second time in one range when the savings
//!   missed have reached the price ([`Rent`]);
//! - a mapping that turns out slower than the list was is given back.

use towpath_measure::Nanos;
use towpath_memory::memfd::{HUGE, PAGE};
use towpath_memory::view::{self, View};
use towpath_memory::vma::{self, Kind as Mapped};
use towpath_memory::{Range, page_size};

use super::cost::{self, Kind, Model, Rent};
use super::views::{Budget, Why};

/// What a renderer's temporary copy costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Renderer {
    /// Nanoseconds per byte that one piece saves. 0.02 is below what was measured at every size
    /// (research: 0.023 at 64 KiB, 0.034 at 4 MiB, 0.1 at 16 MiB, where the temporary buffer faults).
    pub per_byte: f64,
}

impl Default for Renderer {
    fn default() -> Self {
        Self { per_byte: 0.02 }
    }
}

impl Renderer {
    /// What one transfer of `bytes` bytes would save.
    #[must_use]
    pub fn saving(&self, bytes: u64) -> Nanos {
        Nanos::from_secs_f64(bytes as f64 * self.per_byte * 1e-9)
    }
}

/// What all mappings of one process take of the budget.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Taken {
    /// Kernel mappings.
    pub mappings: usize,
    /// Bytes of addresses.
    pub bytes: u64,
}

/// What to do about a backing before a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the caller must handle each")]
pub enum Step {
    /// Leave it; the reason.
    Leave(Why),
    /// Map it now ([`Attached::map`]).
    Map,
    /// It is mapped already.
    Mapped,
}

/// The pieces that a renderer was given for one texture.
#[derive(Debug)]
pub struct Attached {
    runs: Vec<Range>,
    bytes: u64,
    rent: Rent,
    price: Nanos,
    view: Option<View>,
    refused: Option<Why>,
    /// Wall time and bytes of transfers through the list, then through the view.
    listed: Paid,
    viewed: Paid,
}

#[derive(Clone, Copy, Debug, Default)]
struct Paid {
    wall: u64,
    bytes: u64,
    calls: u64,
}

impl Paid {
    const fn add(&mut self, bytes: u64, wall: Nanos) {
        self.wall = self.wall.saturating_add(wall.0);
        self.bytes = self.bytes.saturating_add(bytes);
        self.calls += 1;
    }

    fn per_byte(&self) -> f64 {
        self.wall as f64 / (self.bytes.max(1)) as f64
    }
}

impl Attached {
    /// The pieces in order; neighbours are merged.
    pub fn new(pieces: impl Iterator<Item = Range>, model: &Model) -> Self {
        let mut runs: Vec<Range> = Vec::new();
        let mut bytes = 0_u64;
        for piece in pieces.filter(|piece| piece.len > 0) {
            bytes = bytes.saturating_add(piece.len as u64);
            match runs.last_mut() {
                Some(last) if last.address.checked_add(last.len) == Some(piece.address) => {
                    last.len += piece.len;
                }
                _ => runs.push(piece),
            }
        }
        let mapped = cost::Mapped {
            runs: runs.len() as u64,
            pages: bytes.div_ceil(PAGE),
        };
        Self {
            price: model.price(mapped, Kind::Stitched),
            runs,
            bytes,
            rent: Rent::default(),
            view: None,
            refused: None,
            listed: Paid::default(),
            viewed: Paid::default(),
        }
    }

    /// The pieces after merging.
    #[must_use]
    pub fn runs(&self) -> &[Range] {
        &self.runs
    }

    /// Bytes of all pieces.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The mapping, if there is one.
    #[must_use]
    pub fn view(&self) -> Option<Range> {
        let bytes = self.view.as_ref()?.bytes();
        Some(Range {
            address: bytes.as_ptr().addr(),
            len: bytes.len(),
        })
    }

    /// What to do before a transfer of `bytes` bytes; `force` maps at the first chance.
    ///
    /// Cost: arithmetic. No allocation, no system call.
    pub fn step(&mut self, bytes: u64, renderer: &Renderer, force: bool) -> Step {
        if self.view.is_some() {
            return Step::Mapped;
        }
        if let Some(why) = self.refused {
            return Step::Leave(why);
        }
        let saving = renderer.saving(bytes);
        if self.runs.len() > 1 && (force || self.rent.is_due(saving, self.price)) {
            return Step::Map;
        }
        self.rent.pay(saving);
        Step::Leave(Why::NotYet)
    }

    /// Maps the pieces a second time in one range.
    ///
    /// # Errors
    ///
    /// Why not; it is not tried again, unless the budget was full.
    pub fn map(&mut self, budget: &Budget, taken: &mut Taken) -> Result<(), Why> {
        match self.try_map(budget, *taken) {
            Ok(view) => {
                taken.mappings += self.runs.len();
                taken.bytes += self.bytes;
                self.view = Some(view);
                Ok(())
            }
            Err(why) => {
                if why == Why::Budget {
                    self.rent = Rent::default();
                } else {
                    self.refused = Some(why);
                }
                Err(why)
            }
        }
    }

    /// Ends the mapping. Nobody may use its addresses any more. `why` keeps it from being made again.
    pub fn unmap(&mut self, taken: &mut Taken, why: Option<Why>) {
        if self.view.take().is_some() {
            taken.mappings -= self.runs.len().min(taken.mappings);
            taken.bytes -= self.bytes.min(taken.bytes);
        }
        self.refused = self.refused.or(why);
    }

    /// Notes a transfer; says whether the mapping has turned out slower and must be given back.
    pub fn done(&mut self, bytes: u64, wall: Nanos) -> bool {
        if self.view.is_none() {
            self.listed.add(bytes, wall);
            return false;
        }
        // The first use of a mapping fills translation caches; it is no sample.
        self.viewed.add(bytes, wall);
        if self.viewed.calls == 1 {
            self.viewed = Paid {
                calls: 1,
                ..Paid::default()
            };
            return false;
        }
        let is_judged = self.viewed.calls.is_multiple_of(JUDGE_EVERY);
        let lost = self.listed.calls >= JUDGE_EVERY
            && self.viewed.per_byte() > self.listed.per_byte() * LOSS;
        is_judged && lost
    }

    /// Savings missed and transfers seen.
    #[must_use]
    pub const fn rent(&self) -> Rent {
        self.rent
    }

    /// The choice in words.
    #[must_use]
    pub fn explain(&self) -> String {
        let runs = self.runs.len() as u64;
        cost::explain(
            runs,
            self.bytes,
            &self.rent,
            self.price,
            self.view.is_some(),
        )
    }

    fn try_map(&self, budget: &Budget, taken: Taken) -> Result<View, Why> {
        let mappings = taken.mappings.saturating_add(self.runs.len());
        let bytes = taken.bytes.saturating_add(self.bytes);
        if mappings > budget.mappings || bytes > budget.bytes {
            return Err(Why::Budget);
        }
        let unit = self.page().ok_or(Why::NoFile)?;
        View::alias(&self.runs, unit).map_err(|error| match error {
            view::Error::Unaligned { .. } => Why::Unaligned,
            _ => Why::Refused,
        })
    }

    /// The page size of the pieces, if all are memory that can be mapped a second time.
    fn page(&self) -> Option<u64> {
        let start = self.runs.iter().map(|run| run.address).min()?;
        let end = self
            .runs
            .iter()
            .map(|run| run.address.saturating_add(run.len))
            .max()?;
        // A guest's memory is one mapping or a few: one question answers for all pieces as a rule.
        let whole = vma::kind(Range {
            address: start,
            len: end - start,
        });
        if let Some(unit) = shareable(whole) {
            return Some(unit);
        }
        let mut unit = 0;
        for run in &self.runs {
            let of_run = shareable(vma::kind(*run))?;
            if unit != 0 && unit != of_run {
                return None;
            }
            unit = of_run;
        }
        Some(unit)
    }
}

fn shareable(kind: Mapped) -> Option<u64> {
    match kind {
        Mapped::Memfd | Mapped::FileShared => Some(page_size() as u64),
        Mapped::HugeTlb => Some(HUGE),
        _ => None,
    }
}

/// Transfers between two looks at whether a mapping pays.
const JUDGE_EVERY: u64 = 32;

/// A mapping is given back beyond this: above the noise of 32 transfers, below a loss that counts.
const LOSS: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::super::ram::Ram;
    use super::*;

    fn budget() -> Budget {
        Budget {
            entries: 8,
            mappings: 100,
            bytes: 1 << 30,
        }
    }

    fn scattered(ram: &Ram, pages: usize) -> Attached {
        let base = ram.bytes().as_ptr().addr();
        let pieces = (0..pages).map(|page| Range {
            address: base + page * 2 * 4096,
            len: 4096,
        });
        Attached::new(pieces, &Model::default())
    }

    #[test]
    fn a_list_is_mapped_once_it_has_paid_and_shows_the_same_bytes() {
        let ram = Ram::new(64 * 4096).unwrap();
        let mut attached = scattered(&ram, 16);
        let mut taken = Taken::default();
        let mut uses = 0;
        while attached.step(65_536, &Renderer::default(), false) != Step::Map {
            uses += 1;
        }
        assert!((40..200).contains(&uses), "{uses} transfers before it pays");
        attached.map(&budget(), &mut taken).unwrap();
        assert_eq!(taken.mappings, 16);
        ram.bytes().get(2 * 4096, 1).unwrap().fill(9);
        let view = attached.view.as_ref().unwrap().bytes();
        assert_eq!(view.get(4096, 1).unwrap().to_vec(), [9]);
        assert_eq!(attached.step(1, &Renderer::default(), false), Step::Mapped);
        attached.unmap(&mut taken, None);
        assert_eq!(taken, Taken::default());
    }

    #[test]
    fn neighbours_need_no_mapping() {
        let ram = Ram::new(4 * 4096).unwrap();
        let base = ram.bytes().as_ptr().addr();
        let pieces = (0..4).map(|page| Range {
            address: base + page * 4096,
            len: 4096,
        });
        let mut attached = Attached::new(pieces, &Model::default());
        assert_eq!(attached.runs().len(), 1);
        let step = attached.step(1 << 40, &Renderer::default(), true);
        assert_eq!(step, Step::Leave(Why::NotYet));
    }

    #[test]
    fn private_memory_and_a_full_budget_are_left_alone() {
        let heap = vec![0_u8; 64 * 4096];
        let base = heap.as_ptr().addr().next_multiple_of(4096);
        let pieces = [0, 2, 4].map(|page| Range {
            address: base + page * 4096,
            len: 4096,
        });
        let mut attached = Attached::new(pieces.into_iter(), &Model::default());
        let answer = attached.map(&budget(), &mut Taken::default());
        assert_eq!(answer, Err(Why::NoFile));
        let step = attached.step(1 << 30, &Renderer::default(), true);
        assert_eq!(step, Step::Leave(Why::NoFile), "not tried again");

        let ram = Ram::new(64 * 4096).unwrap();
        let mut attached = scattered(&ram, 16);
        let mut taken = Taken {
            mappings: 90,
            bytes: 0,
        };
        assert_eq!(attached.map(&budget(), &mut taken), Err(Why::Budget));
        assert_eq!(taken.mappings, 90);
    }

    #[test]
    fn a_mapping_that_loses_is_given_back() {
        let ram = Ram::new(64 * 4096).unwrap();
        let mut attached = scattered(&ram, 4);
        for _call in 0..40 {
            assert!(!attached.done(1000, Nanos(1000)));
        }
        attached.map(&budget(), &mut Taken::default()).unwrap();
        let given_back = (0..64).any(|_call| attached.done(1000, Nanos(1200)));
        assert!(given_back);
    }
}
