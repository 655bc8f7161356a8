//! What is known about the program's resources, and the replacing of lists.
//!
//! The renderer is not made for several threads, so its users take turns; the guard here only keeps a
//! program that does otherwise from harm: who finds it taken passes the call on untouched.

#![expect(
    unsafe_code,
    reason = "the program's lists and the library's functions"
)]

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use libc::iovec;
use towpath_ledger::{Counter, Outcome};
use towpath_measure::Nanos;
use towpath_memory::Range;
use towpath_settings::Mode;
use towpath_transfer::textures::attached::{Attached, Step, Taken};
use towpath_transfer::textures::trace::Event;
use towpath_transfer::textures::views::Why;
use towpath_transfer::textures::{Dimension, Entry, Format, Plan, Request, Texture};

use crate::real::{CreateArgs, Real};
use crate::state::State;

/// A texture whose list we know.
struct Resource {
    attached: Attached,
    /// The program's own list, which it gets back.
    list: *mut iovec,
    count: c_int,
    /// What the library holds in place of it; empty while it holds the program's.
    ours: Box<[iovec]>,
    texture: Texture,
    /// The last transfer that was checked, and its bytes: most are like the one before.
    last: Option<(Request, u64)>,
    turn: u32,
}

/// Textures by number; those of another kind are absent.
#[derive(Default)]
pub(crate) struct Table {
    /// Created; what is left alone (buffers, formats not known here) is absent.
    textures: Numbered<Texture>,
    resources: Numbered<Resource>,
    taken: Taken,
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

// SAFETY: the cell is reached only by who holds `is_taken`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the program's pointers inside are only handed back to it.
unsafe impl Send for Shared {}

static SHARED: Shared = Shared {
    is_taken: AtomicBool::new(false),
    table: UnsafeCell::new(None),
};

/// How many watched resources share a place; a full count never goes down again.
static WATCHED: [AtomicU8; PLACES] = [const { AtomicU8::new(0) }; PLACES];

/// Resources that are not watched (buffers, one piece) are told apart by one load.
const PLACES: usize = 1 << 16;

/// Whether a resource may be watched; `false` is certain.
#[inline]
pub(crate) fn may_watch(handle: u32) -> bool {
    // Relaxed: attaching and transferring follow each other on the program's own terms.
    place(handle).is_some_and(|count| count.load(Ordering::Relaxed) != 0)
}

fn place(handle: u32) -> Option<&'static AtomicU8> {
    WATCHED.get(usize::try_from(handle).ok()? % PLACES)
}

fn watch(handle: u32) {
    if let Some(count) = place(handle) {
        let more = |count: u8| count.checked_add(1);
        // A full count stays full.
        let _full = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

fn unwatch(handle: u32) {
    if let Some(count) = place(handle) {
        let less = |count: u8| (count != u8::MAX && count != 0).then(|| count - 1);
        // As in `watch`.
        let _full = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

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

    /// Whether a list of this resource is known.
    pub(crate) fn knows(&self, handle: u32) -> bool {
        self.resources.contains_key(&handle)
    }

    /// The list to hand to the library in place of the program's: the merged one, if it is shorter.
    ///
    /// # Safety
    ///
    /// `list` holds `count` entries.
    pub(crate) unsafe fn attaching(
        &mut self,
        state: &State,
        handle: u32,
        list: *mut iovec,
        count: c_int,
    ) -> Option<(*mut iovec, c_int)> {
        let len = usize::try_from(count).ok().filter(|len| *len > 0)?;
        if list.is_null() || !self.textures.contains_key(&handle) {
            return None;
        }
        // SAFETY: the caller's promise; the program does not write to its list during this call.
        let entries = unsafe { std::slice::from_raw_parts(list, len) };
        let pieces = entries.iter().map(|entry| Range {
            address: entry.iov_base.addr(),
            len: entry.iov_len,
        });
        state.trace(|| {
            let pieces = pieces.clone().map(|piece| Entry {
                address: piece.address as u64,
                len: piece.len as u64,
            });
            Event::Attach(handle, pieces.collect())
        });
        if len == 1 {
            // A trace holds these too.
            if state.is_traced() {
                watch(handle);
            }
            return None;
        }
        let attached = Attached::new(pieces, &state.model);
        let mut ours: Box<[iovec]> = Box::default();
        if state.mode().is_on() && attached.runs().len() < len {
            ours = attached.runs().iter().copied().map(entry).collect();
        }
        let resource = Resource {
            attached,
            list,
            count,
            ours,
            texture: *self.textures.get(&handle)?,
            last: None,
            turn: 0,
        };
        let handed = resource.held();
        if self.resources.insert(handle, resource).is_none() {
            watch(handle);
        }
        handed
    }

    /// The library refused the list, or the program took it back: whatever we had is ended. Returns the
    /// program's own list.
    pub(crate) fn forget(&mut self, handle: u32) -> Option<(*mut iovec, c_int)> {
        let mut resource = self.resources.remove(&handle)?;
        unwatch(handle);
        resource.attached.unmap(&mut self.taken, None);
        Some((resource.list, resource.count))
    }

    /// The library ended a resource.
    pub(crate) fn ended(&mut self, state: &State, handle: u32) {
        self.forget(handle);
        if self.textures.remove(&handle).is_some() {
            state.trace(|| Event::Unref(handle));
        }
    }

    /// Notes that the program takes a list back.
    pub(crate) fn detached(&mut self, state: &State, handle: u32) -> Option<(*mut iovec, c_int)> {
        if self.textures.contains_key(&handle) {
            state.trace(|| Event::Detach(handle));
        }
        self.forget(handle)
    }

    /// The library ended all resources.
    pub(crate) fn ended_all(&mut self) {
        for handle in self.resources.keys() {
            unwatch(*handle);
        }
        self.resources.clear();
        self.textures.clear();
        self.taken = Taken::default();
    }

    /// Before a transfer of the attached list: replaces it if that is due. `None` for a resource that is
    /// not watched.
    ///
    /// The library checks a transfer's rows in 32 bits. With several pieces a row outside them is copied
    /// short; with one piece GL would read past its end. So the library holds one piece only during
    /// transfers whose every row was checked here.
    pub(crate) fn before(
        &mut self,
        state: &State,
        real: &Real,
        handle: u32,
        request: &Request,
    ) -> Option<Seen> {
        if state.is_traced() && self.textures.contains_key(&handle) {
            state.trace(|| Event::Transfer(handle, *request));
        }
        let resource = self.resources.get_mut(&handle)?;
        let plan = resource.checked(request);
        let bytes = plan.unwrap_or(0);
        resource.turn = resource.turn.wrapping_add(1);
        let mut seen = Seen {
            bytes,
            outcome: Outcome::Observed,
            saving: Nanos::ZERO,
            is_timed: resource.turn.is_multiple_of(TIMED_EVERY),
        };
        let mode = state.mode();
        if plan.is_none() || !mode.is_on() {
            resource.give_back(real, handle, &mut self.taken);
            if mode.is_on() {
                seen.outcome = Outcome::Unsupported;
            }
            return Some(seen);
        }
        if bytes == 0 {
            return Some(seen);
        }
        let is_forced = mode == Mode::Forced;
        seen.outcome = match resource.attached.step(bytes, &state.renderer, is_forced) {
            Step::Mapped => Outcome::ViewUsed,
            Step::Leave(_) if resource.ours.len() == 1 => Outcome::ViewUsed,
            Step::Leave(why) => text(why),
            Step::Map => {
                // The time of this one is not like the others'.
                seen.is_timed = false;
                resource.replace(state, real, handle, &mut self.taken)
            }
        };
        if seen.outcome == Outcome::ViewUsed {
            seen.saving = state.renderer.saving(bytes);
        }
        Some(seen)
    }

    /// Before a use of a resource's pieces that is not understood here: the library gets the program's
    /// list.
    pub(crate) fn keep_away(&mut self, real: &Real, handle: u32) {
        if let Some(resource) = self.resources.get_mut(&handle) {
            resource.give_back(real, handle, &mut self.taken);
        }
    }

    /// After a transfer that took `wall`: gives a mapping back that has turned out slower.
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
        if resource.attached.done(bytes, wall) {
            resource.give_back(real, handle, &mut self.taken);
            if let Some(ledger) = state.ledger() {
                ledger.count(Counter::FixesFailed, 1);
            }
        }
    }
}

impl Resource {
    /// The bytes of a transfer that one piece serves as well as many; `None` for another.
    fn checked(&mut self, request: &Request) -> Option<u64> {
        if let Some((_, bytes)) = self.last.filter(|(last, _)| last == request) {
            return Some(bytes);
        }
        let bytes = checked(&self.texture, request, self.attached.bytes())?.payload();
        self.last = Some((*request, bytes));
        Some(bytes)
    }

    /// What the library holds in place of the program's list.
    fn held(&self) -> Option<(*mut iovec, c_int)> {
        if self.ours.is_empty() {
            return None;
        }
        let count = c_int::try_from(self.ours.len()).ok()?;
        Some((self.ours.as_ptr().cast_mut(), count))
    }

    /// Maps the pieces and hands the library the one mapping.
    fn replace(&mut self, state: &State, real: &Real, handle: u32, taken: &mut Taken) -> Outcome {
        if let Err(why) = self.attached.map(&state.budget, taken) {
            if let Some(ledger) = state.ledger() {
                ledger.count(Counter::FixesFailed, 1);
            }
            return text(why);
        }
        let Some(view) = self.attached.view() else {
            return Outcome::Failed;
        };
        let one: Box<[iovec]> = Box::new([entry(view)]);
        if self.exchange(real, handle, one) {
            return Outcome::ViewUsed;
        }
        self.attached.unmap(taken, Some(Why::Refused));
        Outcome::Failed
    }

    /// Hands the library the program's list again, if it holds one piece of ours, for good.
    fn give_back(&mut self, real: &Real, handle: u32, taken: &mut Taken) {
        if self.ours.len() == 1 && self.exchange(real, handle, Box::default()) {
            self.attached.unmap(taken, Some(Why::Refused));
        }
    }

    /// Has the library hold `next`, or the program's list if that is empty. `false` if it still holds what
    /// it held.
    fn exchange(&mut self, real: &Real, handle: u32, next: Box<[iovec]>) -> bool {
        let (Some(attach), Some(detach), Ok(number)) =
            (real.attach, real.detach, c_int::try_from(handle))
        else {
            return false;
        };
        let was = self.held().unwrap_or((self.list, self.count));
        let mut list = ptr::null_mut();
        let mut count = 0;
        // SAFETY: the resource lives in the library, and the two places are ours.
        unsafe { detach(number, &raw mut list, &raw mut count) };
        let put = |(list, count): (*mut iovec, c_int)| {
            // SAFETY: `list` holds `count` entries, of the program or ours, and stays until detached.
            unsafe { attach(number, list, count) }
        };
        if (list, count) != was {
            // Somebody else's list: put it back and keep away from it.
            if !list.is_null() {
                let _unchanged = put((list, count));
            }
            return false;
        }
        let old = std::mem::replace(&mut self.ours, next);
        let is_taken = put(self.held().unwrap_or((self.list, self.count))) == 0;
        if !is_taken {
            self.ours = old;
            let _restored = put(was);
        }
        is_taken
    }
}

fn entry(run: Range) -> iovec {
    iovec {
        iov_base: ptr::with_exposed_provenance_mut(run.address),
        iov_len: run.len,
    }
}

const fn text(why: Why) -> Outcome {
    match why {
        Why::NotYet => Outcome::TooSmall,
        Why::NoFile => Outcome::Unsupported,
        Why::Budget => Outcome::LowMemory,
        _ => Outcome::Failed,
    }
}

/// The plan of a transfer that one piece serves as well as many: one picture, every row inside, and rows at
/// whole texels, since GL counts in these.
fn checked(texture: &Texture, request: &Request, bytes: u64) -> Option<Plan> {
    let is_picture = request.region.depth <= 1;
    let plan = Plan::new(texture, request, bytes)
        .ok()
        .filter(|_| is_picture)?;
    let is_whole = plan.payload() == 0 || plan.texel_strides().is_some();
    is_whole.then_some(plan)
}

/// The shape of a texture whose transfers are understood here.
fn shape(args: &CreateArgs) -> Option<Texture> {
    let dimension = match args.target {
        TEXTURE_2D => Dimension::D2,
        TEXTURE_CUBE => Dimension::Cube,
        TEXTURE_RECT => Dimension::Rectangle,
        TEXTURE_2D_ARRAY => Dimension::D2Array,
        _ => return None,
    };
    Some(Texture {
        dimension,
        format: format(args.format)?,
        width: args.width,
        height: args.height,
        depth: 1,
        layers: args.array_size.max(1),
        levels: args.last_level.checked_add(1)?,
        samples: args.nr_samples.max(1),
    })
}

/// The common ones of `enum virgl_formats`.
fn format(number: u32) -> Option<Format> {
    let texel = match number {
        // L8, A8, I8; R8.
        9..=11 | 64 => 1,
        // 16 bits packed; L8A8; R8G8.
        5..=7 | 12 | 65 => 2,
        66 => 3,
        // 32 bits in any order; R32; R8G8B8A8; R16G16; sRGB; R8G8B8X8.
        1..=4 | 28 | 67 | 92 | 100 | 101 | 104 | 134 => 4,
        29 | 94 => 8,
        31 => 16,
        _ => return None,
    };
    Some(Format::texel(texel))
}

/// A clock read is a tenth of a small transfer: without a ledger every fourth is timed.
const TIMED_EVERY: u32 = 4;

/// `enum pipe_texture_target`.
const TEXTURE_2D: u32 = 2;
const TEXTURE_CUBE: u32 = 4;
const TEXTURE_RECT: u32 = 5;
const TEXTURE_2D_ARRAY: u32 = 7;
