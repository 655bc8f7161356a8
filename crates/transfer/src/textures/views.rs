//! The view cache: which backings have a contiguous mapping, within a budget.
//!
//! A view belongs to one generation of one backing and covers a window of it. When the generation changes
//! the view is dropped before the next use. When the budget is full the view unused for longest goes,
//! unless it was used while the other was copied: views that take turns in too small a budget would each be made for
//! nothing.
//! Every failure is counted by its reason, remembered, and answered with a copy.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use towpath_measure::Nanos;
use towpath_memory::view::{self, FilePiece, View};

use super::backing::{Backing, Span};
use super::cost::{Job, Kind, Mapped, Model, Rent};

/// Bounds of the cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Backings remembered.
    pub entries: usize,
    /// Kernel mappings of all views together.
    pub mappings: usize,
    /// Bytes of addresses of all views together.
    pub bytes: u64,
}

impl Budget {
    /// A quarter of `vm.max_map_count` (the rest of the process maps too), 1024 backings, 4 GiB.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        let limit: usize = text.trim().parse().unwrap_or(65_530);
        Self {
            entries: 1024,
            mappings: limit / 4,
            bytes: 4 << 30,
        }
    }
}

/// Why a transfer was copied though a view was considered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
#[repr(usize)]
pub enum Why {
    /// The savings missed have not reached the view's price.
    NotYet,
    /// The pieces lie in no memory file.
    NoFile,
    /// A border lies inside a page.
    Unaligned,
    /// More mappings or bytes than the budget.
    Budget,
    /// The kernel refused.
    Refused,
    /// The kernel refused to begin an access.
    Sync,
    /// The memory that a view showed is no longer the pieces'.
    Replaced,
    /// Pieces overlap: which bytes are written last depends on who writes, and in which order.
    Overlap,
}

impl Why {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::NotYet,
        Self::NoFile,
        Self::Unaligned,
        Self::Budget,
        Self::Refused,
        Self::Sync,
        Self::Replaced,
        Self::Overlap,
    ];

    /// The reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotYet => "a view has not paid yet",
            Self::NoFile => "not in a memory file",
            Self::Unaligned => "a border inside a page",
            Self::Budget => "over the budget",
            Self::Refused => "refused by the kernel",
            Self::Sync => "no access to the buffer",
            Self::Replaced => "the memory was replaced",
            Self::Overlap => "pieces overlap",
        }
    }
}

/// A window of a backing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Window {
    start: u64,
    end: u64,
}

impl Window {
    const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

#[derive(Debug)]
struct Held {
    view: View,
    window: Window,
    kind: Kind,
    id: u64,
}

#[derive(Debug)]
struct Slot {
    /// The backing.
    id: u64,
    /// Its state when the view was made or first wanted.
    generation: u64,
    wanted: Window,
    rent: Rent,
    /// When `rent` began.
    since: u64,
    failed: Option<Why>,
    held: Option<Held>,
    used: u64,
}

impl Slot {
    fn new(id: u64, generation: u64, used: u64) -> Self {
        Self {
            id,
            generation,
            wanted: Window {
                start: u64::MAX,
                end: 0,
            },
            rent: Rent::default(),
            since: used,
            failed: None,
            held: None,
            used,
        }
    }
}

/// A view to use.
#[derive(Clone, Copy, Debug)]
pub struct Usable<'a> {
    /// The mapping.
    pub view: &'a View,
    /// The backing's offset of its first byte.
    pub offset: u64,
    /// Names it as long as it lives.
    pub id: u64,
    /// How it was made.
    pub kind: Kind,
}

/// What the cache did since it was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Views made.
    pub made: u64,
    /// Views dropped.
    pub dropped: u64,
    /// Copies by reason, in the order of [`Why::ALL`].
    pub copies: [u64; Why::ALL.len()],
}

/// Contiguous mappings of backings.
#[derive(Debug)]
pub struct Views {
    slots: Vec<Slot>,
    /// Where in `slots` a backing's is.
    places: HashMap<u64, usize>,
    budget: Budget,
    device: Option<OwnedFd>,
    mappings: usize,
    bytes: u64,
    tick: u64,
    next_id: u64,
    counts: Counts,
    /// Views given up since the last [`take_dropped`](Self::take_dropped), still mapped: a device may
    /// have an import of them.
    dropped: Vec<(u64, View)>,
}

impl Views {
    /// An empty cache; `device` is `/dev/udmabuf`, if it may be used.
    #[must_use]
    pub fn new(budget: Budget, device: Option<OwnedFd>) -> Self {
        Self {
            slots: Vec::with_capacity(budget.entries),
            places: HashMap::with_capacity(budget.entries),
            budget,
            device,
            mappings: 0,
            bytes: 0,
            tick: 0,
            next_id: 1,
            counts: Counts::default(),
            dropped: Vec::with_capacity(budget.entries),
        }
    }

    /// Opens `/dev/udmabuf` if it is there and may be used.
    #[must_use]
    pub fn open_device() -> Option<OwnedFd> {
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).open("/dev/udmabuf");
        file.ok().map(Into::into)
    }

    /// What happened so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Views held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.held.is_some()).count()
    }

    /// Whether the backing has a view of its present state.
    #[must_use]
    pub fn has_view(&self, backing: &Backing) -> bool {
        let slot = self.index(backing.id()).and_then(|at| self.slots.get(at));
        slot.is_some_and(|slot| {
            slot.held.is_some() && Some(slot.generation) == backing.generation()
        })
    }

    /// What renting has cost for a backing.
    #[must_use]
    pub fn rent(&self, backing: &Backing) -> Option<Rent> {
        let slot = self.index(backing.id()).and_then(|at| self.slots.get(at));
        slot.map(|slot| slot.rent)
    }

    /// A view for a transfer of `job` inside `start..end` of `backing`, or why to copy.
    ///
    /// Makes the view if it is due. `saving` is what the transfer would gain by it; `force` makes it now.
    ///
    /// # Cost
    ///
    /// No loop and no allocation, unless the backing is new here or a view is made.
    ///
    /// # Errors
    ///
    /// The reason, which is counted.
    pub fn find(
        &mut self,
        backing: &Backing,
        range: (u64, u64),
        job: Job,
        model: &Model,
        force: bool,
    ) -> Result<Usable<'_>, Why> {
        let window = Window {
            start: range.0,
            end: range.1,
        };
        match self.decide(backing, window, job, model, force) {
            Ok(index) => self.usable(index),
            Err(why) => Err(self.copied(why)),
        }
    }

    /// Counts a copy for `why`.
    pub fn copied(&mut self, why: Why) -> Why {
        if let Some(count) = self.counts.copies.get_mut(why as usize) {
            *count += 1;
        }
        why
    }

    /// Drops the view of a backing that is detached, and forgets it.
    pub fn detach(&mut self, backing: &Backing) {
        if let Some(index) = self.index(backing.id()) {
            self.remove(index);
        }
    }

    /// Drops every view.
    pub fn clear(&mut self) {
        for index in 0..self.slots.len() {
            self.drop_view(index);
        }
        self.slots.clear();
        self.places.clear();
    }

    /// Hands the identifiers of views given up since the last call to `forget`, and unmaps each after it.
    pub fn take_dropped(&mut self, mut forget: impl FnMut(u64)) {
        for (id, view) in self.dropped.drain(..) {
            forget(id);
            drop(view);
        }
    }

    fn usable(&self, index: usize) -> Result<Usable<'_>, Why> {
        let held = self.slots.get(index).and_then(|slot| slot.held.as_ref());
        let held = held.ok_or(Why::Refused)?;
        Ok(Usable {
            view: &held.view,
            offset: held.window.start,
            id: held.id,
            kind: held.kind,
        })
    }

    fn index(&self, id: u64) -> Option<usize> {
        self.places.get(&id).copied()
    }

    fn remove(&mut self, index: usize) {
        self.drop_view(index);
        let slot = self.slots.swap_remove(index);
        self.places.remove(&slot.id);
        if let Some(moved) = self.slots.get(index) {
            self.places.insert(moved.id, index);
        }
    }

    /// The slot of a backing, made if need be. What was kept of another generation is dropped: a view of pages
    /// that were given back would be stale, and hold them.
    fn slot(&mut self, id: u64, generation: u64) -> usize {
        self.tick += 1;
        if let Some(index) = self.index(id) {
            let is_stale = |slot: &Slot| slot.generation != generation;
            if self.slots.get(index).is_some_and(is_stale) {
                self.drop_view(index);
                if let Some(slot) = self.slots.get_mut(index) {
                    *slot = Slot::new(id, generation, self.tick);
                }
            }
            return index;
        }
        if self.slots.len() >= self.budget.entries {
            // What has no view is the least loss.
            let loss = |slot: &Slot| (slot.held.is_some(), slot.used);
            let oldest = self.slots.iter().enumerate().min_by_key(|(_, s)| loss(s));
            if let Some(index) = oldest.map(|(index, _)| index) {
                self.remove(index);
            }
        }
        self.places.insert(id, self.slots.len());
        self.slots.push(Slot::new(id, generation, self.tick));
        self.slots.len() - 1
    }

    fn decide(
        &mut self,
        backing: &Backing,
        window: Window,
        job: Job,
        model: &Model,
        force: bool,
    ) -> Result<usize, Why> {
        let generation = backing.generation().ok_or(Why::NoFile)?;
        let index = self.slot(backing.id(), generation);
        let tick = self.tick;
        let kind = self.preferred();
        let Some(slot) = self.slots.get_mut(index) else {
            return Err(Why::Refused);
        };
        slot.used = tick;
        slot.rent.by_device = job.by_device;
        if slot
            .held
            .as_ref()
            .is_some_and(|held| held.window.covers(window))
        {
            return Ok(index);
        }
        if let Some(why) = slot.failed {
            return Err(why);
        }
        slot.wanted.start = slot.wanted.start.min(window.start / PAGE * PAGE);
        let end = window.end.next_multiple_of(PAGE).min(backing.len());
        slot.wanted.end = slot.wanted.end.max(end);
        let wanted = slot.wanted;
        let saving = model.saving(job, kind);
        if !force && saving == Nanos::ZERO {
            slot.rent.pay(saving);
            return Err(Why::NotYet);
        }
        let len = wanted.end - wanted.start;
        let mapped = Mapped {
            // Never fewer than the transfer itself touches; the exact count comes when it is due.
            runs: job.runs,
            pages: len.div_ceil(PAGE),
            by_device: job.by_device,
        };
        if !force && !slot.rent.is_due(saving, model.price(mapped, kind)) {
            slot.rent.pay(saving);
            return Err(Why::NotYet);
        }
        let span = backing.span(wanted.start, len);
        let exact = Mapped {
            runs: span.runs as u64,
            ..mapped
        };
        if !force && !slot.rent.is_due(saving, model.price(exact, kind)) {
            slot.rent.pay(saving);
            return Err(Why::NotYet);
        }
        // A view that was used since this backing is rented for is worth as much as the one it would give way to.
        let unused_since = if force { u64::MAX } else { slot.since };
        self.make(index, backing, wanted, span, unused_since)
    }

    /// The cheaper kind where both are possible: udmabuf, if its device is there.
    const fn preferred(&self) -> Kind {
        if self.device.is_some() {
            Kind::Udmabuf
        } else {
            Kind::Stitched
        }
    }

    fn make(
        &mut self,
        index: usize,
        backing: &Backing,
        window: Window,
        span: Span,
        unused_since: u64,
    ) -> Result<usize, Why> {
        let made = if span.in_files {
            self.make_room(index, span.runs, window.end - window.start, unused_since)
                .and_then(|()| self.map(backing, window))
        } else {
            Err(Why::NoFile)
        };
        let id = self.next_id;
        let Some(slot) = self.slots.get_mut(index) else {
            return Err(Why::Refused);
        };
        match made {
            Ok((view, kind)) => {
                self.next_id += 1;
                self.counts.made += 1;
                self.mappings += view.mappings();
                self.bytes += window.end - window.start;
                slot.held = Some(Held {
                    view,
                    window,
                    kind,
                    id,
                });
                Ok(index)
            }
            Err(why) => {
                // A full budget may have room later; anything else stays as it is for this generation.
                if why == Why::Budget {
                    slot.rent = Rent::default();
                    slot.since = self.tick;
                } else {
                    slot.failed = Some(why);
                }
                Err(why)
            }
        }
    }

    /// Drops views, the longest unused first, until another one fits; none that was used at `unused_since` or later.
    fn make_room(
        &mut self,
        index: usize,
        runs: usize,
        bytes: u64,
        unused_since: u64,
    ) -> Result<(), Why> {
        self.drop_view(index);
        if runs > self.budget.mappings || bytes > self.budget.bytes {
            return Err(Why::Budget);
        }
        while self.mappings + runs > self.budget.mappings || self.bytes + bytes > self.budget.bytes
        {
            let held = self
                .slots
                .iter()
                .enumerate()
                .filter(|(_, s)| s.held.is_some() && s.used < unused_since);
            let oldest = held.min_by_key(|(_, slot)| slot.used).map(|(at, _)| at);
            self.drop_view(oldest.ok_or(Why::Budget)?);
        }
        Ok(())
    }

    fn map(&self, backing: &Backing, window: Window) -> Result<(View, Kind), Why> {
        let pieces = file_pieces(backing, window)?;
        if let Some(device) = &self.device
            && let Ok(view) = View::udmabuf(device.as_fd(), &pieces)
        {
            return Ok((view, Kind::Udmabuf));
        }
        match View::stitch(&pieces) {
            Ok(view) => Ok((view, Kind::Stitched)),
            Err(view::Error::Unaligned { .. }) => Err(Why::Unaligned),
            Err(_other) => Err(Why::Refused),
        }
    }

    fn drop_view(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if let Some(held) = slot.held.take() {
            self.counts.dropped += 1;
            self.mappings -= held.view.mappings();
            self.bytes -= held.window.end - held.window.start;
            self.dropped.push((held.id, held.view));
            slot.rent = Rent::default();
            slot.since = self.tick;
        }
    }
}

/// The pieces of a window, all of which lie in files.
fn file_pieces(backing: &Backing, window: Window) -> Result<Vec<FilePiece<'_>>, Why> {
    let mut pieces = Vec::new();
    let mut in_files = true;
    let len = window.end - window.start;
    let fits = backing.cursor().visit(window.start, len, |part| {
        let Some(at) = part.file else {
            in_files = false;
            return;
        };
        pieces.push(FilePiece {
            file: borrow(backing, at.fd),
            offset: at.offset,
            len: part.bytes.len() as u64,
        });
    });
    if fits && in_files {
        Ok(pieces)
    } else {
        Err(Why::NoFile)
    }
}

#[expect(unsafe_code, reason = "a descriptor that the backing keeps open")]
const fn borrow(_backing: &Backing, fd: i32) -> BorrowedFd<'_> {
    // SAFETY: `Memory` promises that the file stays open as long as the memory, which the backing keeps.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

const PAGE: u64 = 4096;
