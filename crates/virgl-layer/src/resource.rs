//! One texture whose list we know, and the exchange of its list.

#![expect(
    unsafe_code,
    reason = "the program's lists and the library's functions"
)]

use std::ffi::c_int;
use std::ptr;

use libc::iovec;
use towpath_ledger::{Counter, Outcome};
use towpath_memory::Range;
use towpath_transfer::textures::attached::{Attached, Side, Survey, Taken};
use towpath_transfer::textures::cost::{self, Rent};
use towpath_transfer::textures::views::Why;
use towpath_transfer::textures::{Request, Texture};

use crate::changes::CHANGES;
use crate::real::Real;
use crate::shape::checked;
use crate::state::State;

/// A texture whose list we know.
pub(crate) struct Resource {
    /// The pieces; read from the list when the first transfer is looked at.
    attached: Option<Attached>,
    /// The program's own list, which it gets back.
    list: *mut iovec,
    count: c_int,
    /// What the library holds in place of it; empty while it holds the program's.
    ours: Box<[iovec]>,
    texture: Texture,
    survey: Survey,
    /// The last transfer that was checked, and its bytes: most are like the one before.
    last: Option<(Request, u64)>,
    /// Whether a transfer was looked at.
    pub(crate) is_looked_at: bool,
}

impl Resource {
    pub(crate) fn new(
        texture: Texture,
        (list, count): (*mut iovec, c_int),
        survey: Survey,
    ) -> Self {
        Self {
            attached: None,
            list,
            count,
            ours: Box::default(),
            texture,
            survey,
            last: None,
            is_looked_at: false,
        }
    }

    /// The pieces, read from the program's list the first time.
    pub(crate) fn pieces(&mut self, state: &State) -> &mut Attached {
        self.attached.get_or_insert_with(|| {
            // SAFETY: the library reads the same list in every transfer until it is detached, and we are told
            // of that.
            let entries = unsafe { entries(self.list, self.count) };
            Attached::new(ranges(entries), &state.model)
        })
    }

    /// Bytes of a texel.
    pub(crate) const fn texel_bytes(&self) -> u64 {
        self.texture.format.block_bytes() as u64
    }

    /// The program's own list.
    pub(crate) const fn theirs(&self) -> (*mut iovec, c_int) {
        (self.list, self.count)
    }

    /// The choice in words; `texels` in `uses` transfers passed without a look.
    pub(crate) fn explain(&self, state: &State, (texels, uses): (u64, u32)) -> String {
        if let Some(attached) = &self.attached {
            return attached.explain();
        }
        let rent = Rent {
            missed: state
                .renderer
                .saving(texels.saturating_mul(self.texel_bytes())),
            uses: u64::from(uses),
            by_device: false,
        };
        let price = self.survey.price(&state.model);
        cost::explain(self.survey.pieces, self.survey.bytes, &rent, price, false)
    }

    /// The bytes of a transfer that one piece serves as well as many; `None` for another.
    pub(crate) fn checked(&mut self, request: &Request) -> Option<u64> {
        if let Some((_, bytes)) = self.last.filter(|(last, _)| last == request) {
            return Some(bytes);
        }
        // The list as it was read, if it was: what is mapped are these pieces.
        let listed = self.attached.as_ref().map(Attached::bytes);
        let present = listed.unwrap_or(self.survey.bytes);
        let bytes = checked(&self.texture, request, present)?.payload();
        self.last = Some((*request, bytes));
        Some(bytes)
    }

    /// Whether the library holds one piece in place of the program's list.
    pub(crate) const fn holds_one(&self) -> bool {
        self.ours.len() == 1
    }

    /// What the library holds in place of the program's list.
    fn held(&self) -> Option<(*mut iovec, c_int)> {
        if self.ours.is_empty() {
            return None;
        }
        let count = c_int::try_from(self.ours.len()).ok()?;
        Some((self.ours.as_ptr().cast_mut(), count))
    }

    /// Makes one range of the pieces; it is on trial unless it is forced.
    pub(crate) fn map(
        &mut self,
        state: &State,
        taken: &mut Taken,
        is_forced: bool,
    ) -> Result<(), Why> {
        let attached = self.pieces(state);
        // Before it is made: what the program changes from now on is not in it.
        if let Some(around) = attached.around() {
            CHANGES.expect(around);
        }
        let made = attached.map(&state.budget, taken, !is_forced);
        if made.is_err()
            && let Some(ledger) = state.ledger()
        {
            ledger.count(Counter::FixesFailed, 1);
        }
        made
    }

    /// Has the library hold what the next transfer wants of the list and the one range.
    pub(crate) fn hold(
        &mut self,
        state: &State,
        real: &Real,
        handle: u32,
        taken: &mut Taken,
    ) -> Outcome {
        let attached = self.pieces(state);
        let (side, view) = (attached.side(), attached.view());
        match (side, view) {
            (Side::One, Some(_)) if self.holds_one() => Outcome::ViewUsed,
            (Side::One, Some(view)) => {
                if self.exchange(real, handle, Box::new([entry(view)])) {
                    return Outcome::ViewUsed;
                }
                self.unmap(taken, Some(Why::Refused));
                Outcome::Failed
            }
            _ => {
                if self.holds_one() {
                    self.exchange(real, handle, Box::default());
                }
                Outcome::TooSmall
            }
        }
    }

    /// Whether the one range may show something else than the pieces, after changes inside `range`.
    pub(crate) fn is_outdated_by(&self, range: Range) -> bool {
        let attached = self.attached.as_ref();
        attached.is_some_and(|attached| attached.is_copied_from(range))
    }

    /// Hands the library the program's list again, for good.
    pub(crate) fn give_back(&mut self, real: &Real, handle: u32, taken: &mut Taken, why: Why) {
        let has_one = self
            .attached
            .as_ref()
            .is_some_and(|attached| attached.view().is_some());
        if has_one && (!self.holds_one() || self.exchange(real, handle, Box::default())) {
            self.unmap(taken, Some(why));
        }
    }

    /// Ends the one range. The library must not hold it any more.
    pub(crate) fn unmap(&mut self, taken: &mut Taken, why: Option<Why>) {
        if let Some(attached) = &mut self.attached {
            attached.unmap(taken, why);
        }
        if *taken == Taken::default() {
            CHANGES.expect_none();
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

/// # Safety
///
/// `list` holds `count` entries that nobody writes to meanwhile.
pub(crate) unsafe fn entries<'a>(list: *const iovec, count: c_int) -> &'a [iovec] {
    match usize::try_from(count) {
        Ok(len) if len > 0 && !list.is_null() && list.is_aligned() => {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(list, len) }
        }
        _ => &[],
    }
}

/// The entries as ranges of addresses.
pub(crate) fn ranges(entries: &[iovec]) -> impl Iterator<Item = Range> + Clone {
    entries.iter().map(|entry| Range {
        address: entry.iov_base.addr(),
        len: entry.iov_len,
    })
}

fn entry(run: Range) -> iovec {
    iovec {
        iov_base: ptr::with_exposed_provenance_mut(run.address),
        iov_len: run.len,
    }
}

/// A reason in the ledger's words.
pub(crate) const fn text(why: Why) -> Outcome {
    match why {
        Why::NotYet => Outcome::TooSmall,
        Why::NoFile | Why::Overlap => Outcome::Unsupported,
        Why::Budget => Outcome::LowMemory,
        _ => Outcome::Failed,
    }
}
