//! What is known about the program's resources.
//!
//! The renderer is not made for several threads, so its users take turns; the guard here only keeps a
//! program that does otherwise from harm: who finds it taken passes the call on untouched.

#![expect(unsafe_code, reason = "one table for the process")]

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::iovec;
use towpath_ledger::{Counter, Outcome};
use towpath_measure::Nanos;
use towpath_settings::Mode;
use towpath_transfer::textures::attached::{Judged, Step, Survey, Taken};
use towpath_transfer::textures::trace::Event;
use towpath_transfer::textures::views::Why;
use towpath_transfer::textures::{Entry, Request, Texture};

use crate::changes::CHANGES;
use crate::real::{CreateArgs, Real};
use crate::resource::{Resource, entries, ranges, text};
use crate::shape::shape;
use crate::state::State;
use crate::watch;

/// Textures by number; those of another kind are absent.
#[derive(Default)]
pub(crate) struct Table {
    /// Created; what is left alone (buffers, formats not known here) is absent.
    textures: Numbered<Texture>,
    resources: Numbered<Resource>,
    taken: Taken,
    /// How often one range has paid and lost, by the size of the texture (powers of two).
    paid: Numbered<Score>,
    /// Changes of memory that have been acted upon.
    changes_seen: usize,
}

#[derive(Clone, Copy, Default)]
struct Score {
    won: u32,
    lost: u32,
}

type Numbered<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

/// Spreads the program's numbers: one multiplication.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

struct Shared {
    is_taken: AtomicBool,
    table: UnsafeCell<Option<Table>>,
}

// SAFETY: the table is only reached by the one that has set `is_taken`; the program's lists that it holds
// are read only then.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    is_taken: AtomicBool::new(false),
    table: UnsafeCell::new(None),
};

/// As [`with`], for what must not be left out: waits a moment for somebody else's turn to end.
pub(crate) fn with_patience<T>(mut body: impl FnMut(&mut Table) -> T) -> Option<T> {
    (0..PATIENCE).find_map(|_turn| {
        with(&mut body).or_else(|| {
            std::thread::yield_now();
            None
        })
    })
}

/// Turns of other threads; a turn that never ends (a fork in the middle of it) must not hold us.
const PATIENCE: u32 = 10_000;

/// Runs `body` with the table, unless somebody else is at it.
pub(crate) fn with<T>(body: impl FnOnce(&mut Table) -> T) -> Option<T> {
    // Acquire: pairs with the release in `Guard`.
    let taken = SHARED
        .is_taken
        .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
    taken.ok()?;
    let _guard = Guard;
    // SAFETY: `is_taken` is ours until the guard is dropped, also if `body` panics.
    let table = unsafe { &mut *SHARED.table.get() };
    Some(body(table.get_or_insert_with(Table::default)))
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        // Release: the next holder sees the table as we leave it.
        SHARED.is_taken.store(false, Ordering::Release);
    }
}

/// What to record about a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Bytes that it moves.
    pub(crate) bytes: u64,
    /// What was done, or why nothing.
    pub(crate) outcome: Outcome,
    /// What the fix saves by the model.
    pub(crate) saving: Nanos,
    /// Whether its time is wanted, to see whether a mapping pays.
    pub(crate) is_timed: bool,
}

impl Table {
    /// Notes a resource that the library has made.
    pub(crate) fn created(&mut self, state: &State, args: &CreateArgs) {
        if let Some(texture) = shape(args).filter(|texture| texture.check().is_ok()) {
            state.trace(|| Event::Create(args.handle, texture));
            self.textures.insert(args.handle, texture);
        }
    }

    /// Notes that the library has taken a list for `handle`.
    ///
    /// # Safety
    ///
    /// `list` holds `count` entries until the library is told to let go of them.
    pub(crate) unsafe fn attached(
        &mut self,
        state: &State,
        handle: u32,
        list: *mut iovec,
        count: c_int,
    ) {
        // Whatever the library held before, it holds this list now.
        self.forget(state, handle);
        let texture = self.textures.get(&handle).copied();
        let Some(texture) = texture.filter(|_| handle != 0) else {
            return;
        };
        // SAFETY: the caller's promise; the program does not write to its list during this call.
        let pieces = unsafe { entries(list, count) };
        state.trace(|| {
            let pieces = ranges(pieces).map(|piece| Entry {
                address: piece.address as u64,
                len: piece.len as u64,
            });
            Event::Attach(handle, pieces.collect())
        });
        let must_record = state.is_traced() || state.ledger().is_some();
        // One piece is what the library wants already; a trace holds these too.
        if pieces.len() < 2 && !state.is_traced() {
            return;
        }
        let survey = Survey::of(ranges(pieces));
        let is_due = must_record || state.mode() == Mode::Forced;
        let score = self.score(survey.bytes);
        let is_lost = score.lost >= LOST_LEAST && score.lost / 2 > score.won;
        if is_lost && !is_due {
            return;
        }
        let free = survey.free_bytes(&state.model, &state.renderer);
        let texels = if is_due {
            0
        } else {
            u32::try_from(free / u64::from(texture.format.block_bytes().max(1))).unwrap_or(u32::MAX)
        };
        let resource = Resource::new(texture, (list, count), survey);
        self.resources.insert(handle, resource);
        watch::begin(handle, texels);
    }

    /// The list is gone from the library: whatever we had is ended. Returns the program's own list.
    pub(crate) fn forget(&mut self, state: &State, handle: u32) -> Option<(*mut iovec, c_int)> {
        let mut resource = self.resources.remove(&handle)?;
        state.explain(handle, || {
            resource.explain(state, watch::look_always(handle))
        });
        watch::end(handle);
        resource.unmap(&mut self.taken, None);
        Some(resource.theirs())
    }

    /// The library ended a resource.
    pub(crate) fn ended(&mut self, state: &State, handle: u32) {
        self.forget(state, handle);
        if self.textures.remove(&handle).is_some() {
            state.trace(|| Event::Unref(handle));
        }
    }

    /// Notes that the program takes a list back.
    pub(crate) fn detached(&mut self, state: &State, handle: u32) -> Option<(*mut iovec, c_int)> {
        if self.textures.contains_key(&handle) {
            state.trace(|| Event::Detach(handle));
        }
        self.forget(state, handle)
    }

    /// The library ended all resources.
    pub(crate) fn ended_all(&mut self) {
        watch::end_all();
        self.resources.clear();
        self.textures.clear();
        self.taken = Taken::default();
        CHANGES.expect_none();
    }

    /// Before a transfer of the attached list: replaces it if that is due. `None` for a resource that is
    /// not watched.
    ///
    /// The library checks a transfer's rows in 32 bits. With several pieces a row outside them is copied
    /// short; with one piece GL would read past its end. So the library holds one piece only during
    /// transfers whose every row was checked here. `can_time`: its end will be seen.
    pub(crate) fn before(
        &mut self,
        state: &State,
        real: &Real,
        (handle, request): (u32, &Request),
        can_time: bool,
    ) -> Option<Seen> {
        if state.is_traced() && self.textures.contains_key(&handle) {
            state.trace(|| Event::Transfer(handle, *request));
        }
        self.let_go_of_changed(real);
        let resource = self.resources.get_mut(&handle)?;
        if !resource.is_looked_at {
            let (texels, uses) = watch::look_always(handle);
            let bytes = texels.saturating_mul(resource.texel_bytes());
            let pieces = resource.pieces(state);
            pieces.credit(bytes, u64::from(uses), &state.renderer);
        }
        resource.is_looked_at = true;
        // An empty box too: with several pieces the library refuses some that it takes with one.
        let plan = resource.checked(request).filter(|bytes| *bytes > 0);
        let bytes = plan.unwrap_or(0);
        let mut seen = Seen {
            bytes,
            outcome: Outcome::Observed,
            saving: Nanos::ZERO,
            is_timed: false,
        };
        let mode = state.mode();
        if plan.is_none() || !mode.is_on() {
            resource.give_back(real, handle, &mut self.taken, Why::Refused);
            if mode.is_on() {
                seen.outcome = Outcome::Unsupported;
            }
            return Some(seen);
        }
        let is_forced = mode == Mode::Forced;
        let step = resource
            .pieces(state)
            .step(bytes, &state.renderer, is_forced);
        let answer = match step {
            Step::Leave(why) => Err(why),
            Step::Mapped => Ok(()),
            Step::Map => resource.map(state, &mut self.taken, is_forced),
        };
        seen.outcome = if let Err(why) = answer {
            text(why)
        } else {
            if can_time {
                seen.is_timed = resource.pieces(state).is_on_trial();
            } else {
                resource.pieces(state).end_trial();
            }
            resource.hold(state, real, handle, &mut self.taken)
        };
        if seen.outcome == Outcome::ViewUsed {
            seen.saving = state.renderer.saving(bytes);
        }
        let is_settled = !resource.holds_one() && resource.pieces(state).refused().is_some();
        if is_settled && state.ledger().is_none() && !state.is_traced() {
            // Nothing will be done about it any more.
            watch::rest(handle);
        }
        Some(seen)
    }

    /// Before a use of a resource's pieces that is not understood here: the library gets the program's
    /// list.
    pub(crate) fn keep_away(&mut self, real: &Real, handle: u32) {
        if let Some(resource) = self.resources.get_mut(&handle) {
            resource.give_back(real, handle, &mut self.taken, Why::Refused);
        }
    }

    /// Gives lists back where the program has changed the memory behind a view.
    fn let_go_of_changed(&mut self, real: &Real) {
        let Some(range) = CHANGES.since(&mut self.changes_seen) else {
            return;
        };
        for (handle, resource) in &mut self.resources {
            if resource.is_outdated_by(range) {
                resource.give_back(real, *handle, &mut self.taken, Why::Replaced);
            }
        }
    }

    /// After a transfer that took `wall`: gives a mapping back that has turned out no faster.
    pub(crate) fn after(
        &mut self,
        state: &State,
        real: &Real,
        handle: u32,
        bytes: u64,
        wall: Nanos,
    ) {
        let Some(resource) = self.resources.get_mut(&handle) else {
            return;
        };
        let pieces = resource.pieces(state);
        let size = pieces.bytes();
        match pieces.done(bytes, wall) {
            Judged::NotYet => {}
            Judged::Pays => {
                let score = self.score(size);
                score.won = score.won.saturating_add(1);
            }
            Judged::Loses => {
                resource.give_back(real, handle, &mut self.taken, Why::Refused);
                let score = self.score(size);
                score.lost = score.lost.saturating_add(1);
                if let Some(ledger) = state.ledger() {
                    ledger.count(Counter::FixesFailed, 1);
                }
            }
        }
    }

    fn score(&mut self, bytes: u64) -> &mut Score {
        self.paid.entry(bytes.max(1).ilog2()).or_default()
    }
}

/// One range is no longer tried at a size at which it was lost so often, and more than twice as often as won.
const LOST_LEAST: u32 = 4;

#[cfg(test)]
mod tests;
