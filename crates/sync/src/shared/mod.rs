//! Sync objects between processes.
//!
//! Objects live in a sealed memory file; [`Shared`] makes such files as it needs them. A descriptor
//! of the file, made for one object, is all that another process needs. Waits sleep in
//! `futex_waitv`. Everything read from the shared memory is bounded: a peer that scribbles over it can
//! make answers wrong, not this process unsound. A process that is killed leaves the state before or
//! after its last change, its locks are taken over, its fences end as failed, and waits for what it
//! promised ([`Object::promise`]) end with [`Error::SignallerDead`].

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::local::ring::Ring;
use crate::payload::{Payload, Standing};
use crate::prim::Lock;
use crate::provider::{Entry, Notice, Progress, Provider, WaitFor, Waited};
use crate::time::Deadline;

mod arena;
mod bridge;
mod fences;
mod hangup;
mod layout;
mod peers;
mod state;
mod wait;

use arena::Arena;
use bridge::{Bridge, Then, Watched};
use fences::{FenceRef, NONE, Reap, SUCCESS, State};
use layout::{OBJECTS, ObjectSlot};
use peers::Peers;

/// Makes objects that processes share.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    arenas: Lock<Vec<Arc<Arena>>>,
    peers: Arc<Peers>,
    bridge: Arc<Bridge>,
}

/// A shared object. A clone is the same object.
#[derive(Clone, Debug)]
pub struct Object(pub(crate) Arc<Held>);

/// A use of an object slot; the slot is given back with the last one, unless it was exported. A child that inherits
/// the use gives nothing back: the parent still has it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) arena: Arc<Arena>,
    pub(crate) index: usize,
    id: u64,
    /// Name of the process that has the use.
    user: u64,
}

/// A fence in shared memory. A clone is the same fence.
#[derive(Clone, Debug)]
pub struct Fence {
    /// `None` is a fence that is done.
    place: Option<(Arc<Arena>, u64)>,
}

/// The right to end a shared fence; dropped unused, it ends with `ENOENT`.
#[derive(Debug)]
pub struct Signaller {
    arena: Arc<Arena>,
    id: u64,
}

impl Signaller {
    /// Ends the fence. Cost: a system call if somebody sleeps on it.
    pub fn signal(self) {
        self.arena.end_fence(self.id, SUCCESS);
    }
}

impl Drop for Signaller {
    fn drop(&mut self) {
        // Does nothing to a fence that ended.
        self.arena.end_fence(self.id, -libc::ENOENT);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(slot) = self.arena.object(self.index) else {
            return;
        };
        if self.user != peers::own() {
            return;
        }
        if slot.is_exported.load(Ordering::Acquire) == 0 {
            let free = (self.id & !1).wrapping_add(2);
            let _freed =
                slot.id
                    .compare_exchange(self.id, free, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

impl Object {
    /// The slot, if it still is this object's.
    pub(crate) fn slot(&self) -> Result<(&Arena, &ObjectSlot)> {
        let held = &self.0;
        let slot = held.arena.object(held.index);
        let slot = slot.filter(|slot| slot.id.load(Ordering::Acquire) == held.id);
        slot.map(|slot| (&*held.arena, slot)).ok_or(Error::Damaged {
            what: "an object that is gone",
        })
    }

    /// Whether a point is known to be done. Cost: two loads.
    pub(crate) fn is_known_reached(&self, point: u64) -> Result<bool> {
        let (_, slot) = self.slot()?;
        // Acquire: pairs with the release in `publish`.
        Ok(if point == 0 {
            slot.is_signaled.load(Ordering::Acquire) != 0
        } else {
            slot.reached.load(Ordering::Acquire) >= point
        })
    }

    /// Declares that this process signals the object. When every process that declared this is gone,
    /// waits for points without a fence end with [`Error::SignallerDead`].
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if as many processes as there is room for (8) are alive and declared it.
    pub fn promise(&self) -> Result<()> {
        let (arena, slot) = self.slot()?;
        let own = peers::own();
        for place in &slot.signallers {
            let there = place.load(Ordering::Acquire);
            if there == own {
                return Ok(());
            }
            let is_free = there == 0 || !arena.peers.is_alive(there);
            if is_free
                && place
                    .compare_exchange(there, own, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                // Who sleeps already watches this process from now on.
                slot.sequence.fetch_add(1, Ordering::SeqCst);
                arena.wake(&slot.sequence, &slot.waiters);
                return Ok(());
            }
        }
        Err(Error::Full { what: "signaller" })
    }

    /// Whether a point has no fence and nobody is left who would bring one.
    pub(crate) fn is_lost(&self, point: u64) -> Result<bool> {
        let (arena, slot) = self.slot()?;
        let standing = arena.look(slot, |payload| payload.standing(point))?;
        Ok(matches!(standing, Standing::Absent) && self.is_forsaken(Reap::Look)?)
    }

    /// Whether some process promised to signal and all that did are gone.
    pub(crate) fn is_forsaken(&self, reap: Reap) -> Result<bool> {
        let (arena, slot) = self.slot()?;
        let mut promised = false;
        for place in &slot.signallers {
            let there = place.load(Ordering::Acquire);
            if there != 0 {
                promised = true;
                // One that is watched is enough: when it goes, the next one is looked at.
                let is_alive = match reap {
                    Reap::No => true,
                    Reap::Look => arena.peers.is_alive(there),
                    Reap::Watch => arena.peers.watch(there, arena),
                };
                if is_alive {
                    return Ok(false);
                }
            }
        }
        Ok(promised)
    }
}

impl Shared {
    /// A provider without objects.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn create_in(arena: &Arc<Arena>, signaled: bool) -> Result<Option<Object>> {
        for index in 0..OBJECTS {
            let Some(slot) = arena.object(index) else {
                break;
            };
            let id = slot.id.load(Ordering::Acquire);
            if id & 1 != 0
                || slot
                    .id
                    .compare_exchange(id, id | 1, Ordering::AcqRel, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            slot.is_exported.store(0, Ordering::Relaxed);
            for place in &slot.signallers {
                place.store(0, Ordering::Relaxed);
            }
            let object = Object(Arc::new(Held {
                arena: Arc::clone(arena),
                index,
                id: id | 1,
                user: peers::own(),
            }));
            arena.change(slot, |payload| {
                *payload = if signaled {
                    Payload::Signaled
                } else {
                    Payload::Empty
                };
                Ok(())
            })?;
            return Ok(Some(object));
        }
        Ok(None)
    }

    /// One more arena, to which new fences go.
    fn fresh_arena(&self) -> Result<Arc<Arena>> {
        let fresh = Arena::create(Arc::clone(&self.inner.peers))?.counted();
        self.inner.arenas.lock().push(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The arena that new fences go to.
    fn arena(&self) -> Result<Arc<Arena>> {
        let mut arenas = self.inner.arenas.lock();
        if let Some(own) = arenas.iter().rfind(|arena| arena.is_own) {
            return Ok(Arc::clone(own));
        }
        let arena = Arena::create(Arc::clone(&self.inner.peers))?.counted();
        arenas.push(Arc::clone(&arena));
        Ok(arena)
    }

    /// Changes an object; descriptors of this process that wait for it ring before this returns.
    fn change<'a>(
        &self,
        object: &'a Object,
        change: impl FnOnce(&mut Payload<FenceRef<'a>>) -> Result<()>,
    ) -> Result<()> {
        let (arena, slot) = object.slot()?;
        arena.change(slot, change)?;
        self.inner.bridge.ring_ready();
        Ok(())
    }

    /// The fence as one of `arena`; one of another arena is repeated there by the helper thread.
    fn fence_in(&self, arena: &Arc<Arena>, fence: &Fence) -> Result<u64> {
        let Some((home, id)) = &fence.place else {
            return Ok(NONE);
        };
        if home.inode == arena.inode {
            return Ok(*id);
        }
        let twin = arena.raw_fence()?;
        self.inner.bridge.watch(
            Watched::Fence {
                arena: Arc::clone(home),
                id: *id,
            },
            Then::End {
                arena: Arc::clone(arena),
                id: twin,
            },
        )?;
        Ok(twin)
    }
}

impl Provider for Shared {
    type Object = Object;
    type Fence = Fence;
    type Signaller = Signaller;

    fn create(&self, signaled: bool) -> Result<Object> {
        let arena = self.arena()?;
        if let Some(object) = Self::create_in(&arena, signaled)? {
            return Ok(object);
        }
        let fresh = self.fresh_arena()?;
        Self::create_in(&fresh, signaled)?.ok_or(Error::Full { what: "object" })
    }

    fn fence(&self) -> Result<(Signaller, Fence)> {
        let mut arena = self.arena()?;
        let id = match arena.raw_fence() {
            Err(Error::Full { .. }) => {
                arena = self.fresh_arena()?;
                arena.raw_fence()?
            }
            answer => answer?,
        };
        let fence = Fence {
            place: Some((Arc::clone(&arena), id)),
        };
        Ok((Signaller { arena, id }, fence))
    }

    fn end(&self, signaller: Signaller) {
        signaller.signal();
        // Descriptors of this process become readable before this returns, as the kernel's do.
        self.inner.bridge.ring_ready();
    }

    fn status(&self, fence: &Fence) -> i32 {
        let Some((arena, id)) = &fence.place else {
            return SUCCESS;
        };
        match arena.fence_state(*id, Reap::Look) {
            State::Ended(status) => status,
            State::Pending(..) => 0,
        }
    }

    fn fail(&self, signaller: Signaller, code: i32) {
        signaller
            .arena
            .end_fence(signaller.id, -code.clamp(1, 4095));
        self.inner.bridge.ring_ready();
    }

    fn notify(&self, fence: &Fence, notice: Notice) -> Result<()> {
        let ring = notice.0;
        match &fence.place {
            Some((arena, id))
                if matches!(arena.fence_state(*id, Reap::Look), State::Pending(..)) =>
            {
                let watched = Watched::Fence {
                    arena: Arc::clone(arena),
                    id: *id,
                };
                self.inner.bridge.watch(watched, Then::Ring(ring))
            }
            Some(_) | None => {
                ring.ring();
                Ok(())
            }
        }
    }

    fn join(&self, first: &Fence, second: &Fence) -> Result<Fence> {
        let (Some((arena, id)), Some(_)) = (&first.place, &second.place) else {
            return Ok(if first.place.is_some() {
                first.clone()
            } else {
                second.clone()
            });
        };
        let other = FenceRef {
            arena,
            id: self.fence_in(arena, second)?,
        };
        let joined = crate::payload::FenceLike::join(&FenceRef { arena, id: *id }, &other)?;
        Ok(Fence {
            place: Some((Arc::clone(arena), joined.id)),
        })
    }

    fn signal(&self, object: &Object) -> Result<()> {
        self.change(object, |payload| {
            *payload = Payload::Signaled;
            Ok(())
        })
    }

    fn signal_point(&self, object: &Object, point: u64) -> Result<()> {
        self.change(object, |payload| payload.add(point, None))
    }

    fn reset(&self, object: &Object) -> Result<()> {
        self.change(object, |payload| {
            *payload = Payload::Empty;
            Ok(())
        })
    }

    fn attach(&self, object: &Object, point: u64, fence: &Fence) -> Result<()> {
        let id = self.fence_in(&object.0.arena, fence)?;
        let arena = &*object.0.arena;
        self.change(object, |payload| {
            let fence = (id != NONE).then_some(FenceRef { arena, id });
            match (point, fence) {
                (0, None) => *payload = Payload::Signaled,
                (0, Some(fence)) => *payload = Payload::Fence(fence),
                (point, fence) => return payload.add(point, fence.as_ref()),
            }
            Ok(())
        })
    }

    fn fence_of(&self, object: &Object, point: u64) -> Result<Fence> {
        let (arena, slot) = object.slot()?;
        match arena.look(slot, |payload| payload.standing(point))? {
            Standing::Absent => Err(Error::NotSubmitted { index: 0, point }),
            Standing::Pending(fence) => Ok(Fence {
                place: Some((Arc::clone(&object.0.arena), fence.id)),
            }),
            Standing::Reached => Ok(Fence { place: None }),
        }
    }

    fn query(&self, object: &Object) -> Result<Progress> {
        let (arena, slot) = object.slot()?;
        let (reached, submitted) = arena.look(slot, Payload::progress)?;
        Ok(Progress { reached, submitted })
    }

    fn wait(
        &self,
        entries: &[Entry<'_, Object>],
        what: WaitFor,
        deadline: Deadline,
    ) -> Result<Waited> {
        wait::wait(entries, what, deadline)
    }

    fn export(&self, object: &Object) -> Result<Option<OwnedFd>> {
        let (arena, slot) = object.slot()?;
        slot.is_exported.store(1, Ordering::Release);
        arena.ticket(object.0.index, object.0.id >> 1).map(Some)
    }

    fn import(&self, fd: BorrowedFd<'_>) -> Result<Option<Object>> {
        let Some(arena) = self.arena_of(fd)? else {
            return Ok(None);
        };
        let (index, generation) = arena::read_ticket(fd)?;
        let object = Object(Arc::new(Held {
            arena,
            index,
            id: (generation << 1) | 1,
            user: peers::own(),
        }));
        object.slot().map(drop)?;
        Ok(Some(object))
    }

    fn watch(&self, object: &Object, point: u64, available: bool, fd: OwnedFd) -> Result<()> {
        self.ring_when_ready(object, point, available, Arc::new(Ring::descriptor(fd)?))
    }
}

impl Shared {
    /// Rings when a point is ready; at once if it is.
    pub(crate) fn ring_when_ready(
        &self,
        object: &Object,
        point: u64,
        available: bool,
        ring: Arc<Ring>,
    ) -> Result<()> {
        if object.is_known_reached(point)? {
            ring.ring();
            return Ok(());
        }
        let (arena, slot) = object.slot()?;
        let watched = match arena.look(slot, |payload| payload.standing(point))? {
            Standing::Pending(fence) if !available => Watched::Fence {
                arena: Arc::clone(&object.0.arena),
                id: fence.id,
            },
            Standing::Pending(_) | Standing::Reached => {
                ring.ring();
                return Ok(());
            }
            Standing::Absent => Watched::Point {
                object: Arc::downgrade(&object.0),
                point,
                available,
            },
        };
        self.inner.bridge.watch(watched, Then::Ring(ring))
    }

    /// The mapped arena behind a descriptor, mapped now if it is the first of its objects here.
    fn arena_of(&self, fd: BorrowedFd<'_>) -> Result<Option<Arc<Arena>>> {
        let Some(opened) = Arena::open(fd, Arc::clone(&self.inner.peers))? else {
            return Ok(None);
        };
        let mut arenas = self.inner.arenas.lock();
        if let Some(known) = arenas.iter().find(|arena| arena.inode == opened.inode) {
            return Ok(Some(Arc::clone(known)));
        }
        let opened = opened.counted();
        arenas.push(Arc::clone(&opened));
        Ok(Some(opened))
    }
}
