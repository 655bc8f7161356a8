//! Backings of a renderer that cannot be changed: when should its list of pieces become one mapping?
//!
//! virglrenderer copies a texture twice when its backing has more than one piece: into a temporary buffer,
//! then into GL. Given one piece it lets GL read the guest's memory at once. So the list is replaced by
//! one piece when that pays:
//!
//! - pieces that follow each other in memory are one range already;
//! - others are mapped a second time in one range when the savings missed have reached the price ([`Rent`]);
//! - at first the list and the one range take turns and are timed; a range that turns out no faster is given
//!   back: where a renderer's threads draw while it copies, the copy may cost nothing.

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
    /// How many bytes must be transferred to save `price`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a negative or huge number saturates, which `as` does"
    )]
    fn bytes_for(self, price: Nanos) -> u64 {
        (price.0 as f64 / self.per_byte.max(1e-6)) as u64
    }

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

/// What a list of pieces is, before anything is kept of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Survey {
    /// Pieces that hold bytes.
    pub pieces: u64,
    /// Runs that are left when neighbours are merged.
    pub runs: u64,
    /// Bytes of all pieces.
    pub bytes: u64,
}

impl Survey {
    /// Looks at every piece once. No allocation.
    #[must_use]
    pub fn of(pieces: impl Iterator<Item = Range>) -> Self {
        let mut survey = Self::default();
        let mut end = None;
        for piece in pieces.filter(|piece| piece.len > 0) {
            survey.pieces += 1;
            survey.runs += u64::from(end != Some(piece.address));
            survey.bytes = survey.bytes.saturating_add(piece.len as u64);
            end = piece.address.checked_add(piece.len);
        }
        survey
    }

    /// What one range in place of the list costs: nothing if the pieces are neighbours.
    #[must_use]
    pub fn price(&self, model: &Model) -> Nanos {
        if self.runs <= 1 {
            return Nanos::ZERO;
        }
        let mapped = cost::Mapped {
            runs: self.runs,
            pages: self.bytes.div_ceil(PAGE),
            by_device: false,
        };
        model.price(mapped, Kind::Stitched)
    }

    /// Bytes that may be transferred before anything must be noted: until then one range cannot have paid.
    #[must_use]
    pub fn free_bytes(&self, model: &Model, renderer: &Renderer) -> u64 {
        let due = renderer.bytes_for(self.price(model));
        let least = self.bytes.saturating_mul(FREE_USES);
        due.saturating_sub(self.bytes).max(least)
    }
}

/// The one range that a renderer gets in place of its list.
#[derive(Debug)]
enum One {
    /// None: it has the list.
    None,
    /// The pieces are neighbours: the range they make.
    Neighbours,
    /// A second mapping, of whole pages of so many bytes.
    Mapped(View, u64),
}

/// The pieces that a renderer was given for one texture.
#[derive(Debug)]
pub struct Attached {
    runs: Vec<Range>,
    survey: Survey,
    rent: Rent,
    price: Nanos,
    one: One,
    refused: Option<Why>,
    trial: Option<Trial>,
}

/// What the renderer is to hold during a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the caller must handle each")]
pub enum Side {
    /// The program's list.
    List,
    /// The one range.
    One,
}

/// The list and the one range take turns, so that what else the machine does meets both: times per byte.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    turn: usize,
    list: [f64; PAIRS],
    one: [f64; PAIRS],
}

impl Trial {
    const fn side(&self) -> Side {
        if self.turn.is_multiple_of(2) {
            Side::List
        } else {
            Side::One
        }
    }

    /// The answer once both had all their turns.
    fn add(&mut self, bytes: u64, wall: Nanos) -> Judged {
        let times = match self.side() {
            Side::List => &mut self.list,
            Side::One => &mut self.one,
        };
        if let Some(place) = times.get_mut(self.turn / 2) {
            *place = wall.0 as f64 / bytes.max(1) as f64;
        }
        self.turn += 1;
        if self.turn < 2 * PAIRS {
            Judged::NotYet
        } else if median(self.one) < median(self.list) {
            Judged::Pays
        } else {
            Judged::Loses
        }
    }
}

/// The middle: a transfer that was interrupted does not count.
fn median(mut times: [f64; PAIRS]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(PAIRS / 2).copied().unwrap_or(0.0)
}

impl Attached {
    /// The pieces in order; neighbours are merged.
    pub fn new(pieces: impl Iterator<Item = Range> + Clone, model: &Model) -> Self {
        let survey = Survey::of(pieces.clone());
        let mut runs: Vec<Range> = Vec::with_capacity(usize::try_from(survey.runs).unwrap_or(0));
        for piece in pieces.filter(|piece| piece.len > 0) {
            match runs.last_mut() {
                Some(last) if last.address.checked_add(last.len) == Some(piece.address) => {
                    last.len += piece.len;
                }
                _ => runs.push(piece),
            }
        }
        Self {
            price: survey.price(model),
            runs,
            survey,
            rent: Rent::default(),
            one: One::None,
            refused: None,
            trial: None,
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
        self.survey.bytes
    }

    /// The one range in place of the list, if it is in use.
    #[must_use]
    pub fn view(&self) -> Option<Range> {
        match &self.one {
            One::None => None,
            One::Neighbours => self.runs.first().copied(),
            One::Mapped(view, _) => {
                let bytes = view.bytes();
                Some(Range {
                    address: bytes.as_ptr().addr(),
                    len: bytes.len(),
                })
            }
        }
    }

    /// Notes `uses` transfers of `bytes` bytes together that were not looked at one by one.
    pub fn credit(&mut self, bytes: u64, uses: u64, renderer: &Renderer) {
        self.rent.missed = self.rent.missed.saturating_add(renderer.saving(bytes));
        self.rent.uses = self.rent.uses.saturating_add(uses);
    }

    /// What to do before a transfer of `bytes` bytes; `force` maps at the first chance.
    ///
    /// Cost: arithmetic. No allocation, no system call.
    pub fn step(&mut self, bytes: u64, renderer: &Renderer, force: bool) -> Step {
        if !matches!(self.one, One::None) {
            return Step::Mapped;
        }
        if let Some(why) = self.refused {
            return Step::Leave(why);
        }
        let saving = renderer.saving(bytes);
        let is_due = self.rent.is_due(saving, self.price);
        if !self.runs.is_empty() && (force || is_due) {
            return Step::Map;
        }
        self.rent.pay(saving);
        Step::Leave(Why::NotYet)
    }

    /// Makes one range of the pieces: a second mapping, unless they are neighbours. With `on_trial` it and the
    /// list take turns at first, by [`side`](Self::side), until [`done`](Self::done) has judged.
    ///
    /// # Errors
    ///
    /// Why not; it is not tried again, unless the budget was full.
    pub fn map(&mut self, budget: &Budget, taken: &mut Taken, on_trial: bool) -> Result<(), Why> {
        self.trial = on_trial.then(Trial::default);
        if self.runs.len() == 1 {
            self.one = One::Neighbours;
            return Ok(());
        }
        match self.try_map(budget, *taken) {
            Ok((view, unit)) => {
                taken.mappings += self.runs.len();
                taken.bytes += self.bytes();
                self.one = One::Mapped(view, unit);
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

    /// Ends the one range. Nobody may use its addresses any more. `why` keeps it from being made again.
    pub fn unmap(&mut self, taken: &mut Taken, why: Option<Why>) {
        if let One::Mapped(view, _) = std::mem::replace(&mut self.one, One::None) {
            drop(view);
            taken.mappings -= self.runs.len().min(taken.mappings);
            taken.bytes -= self.bytes().min(taken.bytes);
        }
        self.refused = self.refused.or(why);
    }

    /// What the renderer is to hold during the next transfer.
    #[must_use]
    pub const fn side(&self) -> Side {
        match (&self.one, &self.trial) {
            (One::None, _) => Side::List,
            (_, Some(trial)) => trial.side(),
            (_, None) => Side::One,
        }
    }

    /// Whether the time of the next transfer is wanted.
    #[must_use]
    pub const fn is_on_trial(&self) -> bool {
        self.trial.is_some() && !matches!(self.one, One::None)
    }

    /// Ends a trial without an answer, for transfers whose time cannot be seen.
    pub const fn end_trial(&mut self) {
        self.trial = None;
    }

    /// Notes a transfer's time during a trial.
    pub fn done(&mut self, bytes: u64, wall: Nanos) -> Judged {
        let Some(trial) = &mut self.trial else {
            return Judged::NotYet;
        };
        let judged = trial.add(bytes, wall);
        if judged != Judged::NotYet {
            self.trial = None;
        }
        judged
    }

    /// Savings missed and transfers seen.
    #[must_use]
    pub const fn rent(&self) -> Rent {
        self.rent
    }

    /// Why one range is not made, if that is settled.
    #[must_use]
    pub const fn refused(&self) -> Option<Why> {
        self.refused
    }

    /// The choice in words.
    #[must_use]
    pub fn explain(&self) -> String {
        let is_view = !matches!(self.one, One::None);
        let survey = &self.survey;
        let mut text = cost::explain(survey.pieces, survey.bytes, &self.rent, self.price, is_view);
        if let Some(why) = self.refused {
            text.push_str(", ");
            text.push_str(why.text());
        }
        text
    }

    fn try_map(&self, budget: &Budget, taken: Taken) -> Result<(View, u64), Why> {
        let mappings = taken.mappings.saturating_add(self.runs.len());
        let bytes = taken.bytes.saturating_add(self.bytes());
        if mappings > budget.mappings || bytes > budget.bytes {
            return Err(Why::Budget);
        }
        if self.has_overlap() {
            return Err(Why::Overlap);
        }
        let unit = self.page().ok_or(Why::NoFile)?;
        let made = View::alias(&self.runs, unit).map_err(|error| match error {
            view::Error::Unaligned { .. } => Why::Unaligned,
            _ => Why::Refused,
        })?;
        Ok((made, unit))
    }

    /// A range around all pieces and the rest of their pages; `None` without pieces.
    #[must_use]
    pub fn around(&self) -> Option<Range> {
        let around = self.hull()?;
        let page = usize::try_from(HUGE).ok()?;
        Some(Range::between(floor(around.address, page), around.end()))
    }

    /// Whether a second mapping is in use that shows memory of `range`. A length that a program gives may end inside
    /// a page; the kernel means the whole.
    #[must_use]
    pub fn is_copied_from(&self, range: Range) -> bool {
        let One::Mapped(_, unit) = &self.one else {
            return false;
        };
        let page = usize::try_from(*unit).unwrap_or(usize::MAX);
        let is_hit =
            |run: &Range| floor(run.address, page) < range.end() && range.address < run.end();
        self.runs.iter().any(is_hit)
    }

    /// Whether a byte is listed twice. A renderer that downloads into a list writes it in order; into one range it may
    /// write in any.
    fn has_overlap(&self) -> bool {
        let mut runs = self.runs.clone();
        runs.sort_unstable();
        let mut pairs = runs.iter().zip(runs.iter().skip(1));
        pairs.any(|(low, high)| low.end() > high.address)
    }

    fn hull(&self) -> Option<Range> {
        let start = self.runs.iter().map(|run| run.address).min()?;
        let end = self.runs.iter().map(|run| run.end()).max()?;
        Some(Range::between(start, end))
    }

    /// The page size of the pieces, if all are memory that can be mapped a second time.
    fn page(&self) -> Option<u64> {
        // A guest's memory is one mapping or a few: one question answers for all pieces as a rule.
        let whole = vma::kind(self.hull()?);
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

const fn floor(address: usize, page: usize) -> usize {
    address - address % page
}

fn shareable(kind: Mapped) -> Option<u64> {
    match kind {
        Mapped::Memfd | Mapped::FileShared => Some(page_size() as u64),
        Mapped::HugeTlb => Some(HUGE),
        _ => None,
    }
}

/// Whether one range in place of the list pays, by times of transfers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the caller must handle each")]
pub enum Judged {
    /// Too few times yet, or no trial.
    NotYet,
    /// Its median time is below the list's.
    Pays,
    /// It is not: the renderer's copy was hidden behind other work, say.
    Loses,
}

/// Turns of each side in a trial.
const PAIRS: usize = 16;
/// Whole transfers that are never looked at: a texture used that seldom costs nothing.
const FREE_USES: u64 = 16;

#[cfg(test)]
mod tests;
