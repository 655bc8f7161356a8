//! Sync objects inside one process: binary and timeline, with the kernel's meaning.
//!
//! Two words outside the lock repeat what of the payload is done, so that a check of a reached object
//! is one load.

use crate::local::fence::Fence;
use crate::local::ring::Ring;
use crate::local::wait::{FIRED, IDLE, IN_FENCE, IN_OBJECT, List, Node, Wakes};
use crate::payload::{self, FenceLike, Payload};
use crate::prim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::prim::{Arc, Guard, Lock, Token};

/// Where a point of an object stands.
pub(crate) type Standing = payload::Standing<Arc<Fence>>;

impl FenceLike for Arc<Fence> {
    fn is_done(&self) -> bool {
        Fence::is_done(self)
    }

    fn join(&self, other: &Self) -> crate::error::Result<Self> {
        Ok(Fence::join(self, other))
    }
}

/// An object. Shared by reference count.
#[derive(Debug)]
pub(crate) struct Object {
    /// Highest point known to be done; zero for an object without a timeline.
    reached: AtomicU64,
    /// One if there is a fence and it is known to be done.
    is_signaled: AtomicU32,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    payload: Payload<Arc<Fence>>,
    waiters: List,
    rings: Vec<Waiting>,
}

/// A ring that waits for a point to get a fence.
#[derive(Debug)]
struct Waiting {
    point: u64,
    available: bool,
    ring: Arc<Ring>,
}

/// What a wait on one object came to before it slept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Armed {
    /// Ready; the node is in no list.
    Ready,
    /// The node is in a list.
    Waiting,
    /// There is no fence and the wait is not for one.
    Absent,
}

impl Object {
    pub(crate) fn new(is_signaled: bool) -> Arc<Self> {
        let state = State {
            payload: if is_signaled {
                Payload::Signaled
            } else {
                Payload::Empty
            },
            ..State::default()
        };
        Arc::new(Self {
            reached: AtomicU64::new(0),
            is_signaled: AtomicU32::new(u32::from(is_signaled)),
            state: Lock::new(state),
        })
    }

    /// Whether a point is known to be done. Cost: one load; may say no to a point that just ended.
    #[inline]
    pub(crate) fn is_known_reached(&self, point: u64) -> bool {
        // Acquire: pairs with the release in `publish`.
        if point == 0 {
            self.is_signaled.load(Ordering::Acquire) != 0
        } else {
            self.reached.load(Ordering::Acquire) >= point
        }
    }

    /// Where a point stands. Cost: one load if known to be done, else the lock.
    pub(crate) fn standing(&self, point: u64) -> Standing {
        if self.is_known_reached(point) {
            return Standing::Reached;
        }
        let mut state = self.state.lock();
        let standing = state.payload.standing(point);
        if matches!(standing, Standing::Reached) {
            self.publish(&state);
        }
        standing
    }

    /// Highest point done and highest point added. Zero for an object without a timeline.
    pub(crate) fn query(&self) -> (u64, u64) {
        let mut state = self.state.lock();
        let answer = state.payload.progress();
        self.publish(&state);
        answer
    }

    /// Replaces what the object holds: `None` takes it away.
    pub(crate) fn replace(&self, fence: Option<&Arc<Fence>>) {
        let payload = fence.map_or(Payload::Empty, |fence| Payload::Fence(Arc::clone(fence)));
        self.change(|state| state.payload = payload);
    }

    /// Replaces what the object holds by something done.
    pub(crate) fn replace_signaled(&self) {
        self.change(|state| state.payload = Payload::Signaled);
    }

    /// Adds a point: done with `fence` and all points before it; `None` is done already. Point zero
    /// keeps the highest point.
    pub(crate) fn add(&self, point: u64, fence: Option<&Arc<Fence>>) {
        self.change(|state| {
            // Cannot fail: joining fences of one process only allocates.
            let _done = state.payload.add(point, fence);
        });
    }

    /// Puts `node` where it will be found, unless its point is ready or cannot be waited for.
    ///
    /// Both this and [`Self::disarm`] are one locked exchange and some ten stores for a point without
    /// a fence; what else there is to do stands in functions of its own, since each register that a
    /// call saves is a store that the next exchange waits for.
    #[inline]
    pub(crate) fn arm(&self, node: &Node, for_submit: bool) -> Armed {
        let mut state = self.state.lock();
        if !state.payload.is_absent(node.point.get()) {
            return self.arm_present(state, node);
        }
        if !for_submit && !node.available.get() {
            return Armed::Absent;
        }
        node.set_state(IN_OBJECT);
        state.link(node);
        Armed::Waiting
    }

    /// [`Self::arm`] for a point that has a fence.
    #[inline(never)]
    fn arm_present(&self, mut state: Guard<'_, State>, node: &Node) -> Armed {
        match state.payload.standing(node.point.get()) {
            Standing::Pending(fence) if !node.available.get() => {
                drop(state);
                if fence.wait_here(node) {
                    Armed::Waiting
                } else {
                    Armed::Ready
                }
            }
            Standing::Reached => {
                self.publish(&state);
                Armed::Ready
            }
            Standing::Pending(_) => Armed::Ready,
            // Looked at under this lock: it was not absent.
            Standing::Absent => Armed::Absent,
        }
    }

    /// Takes a node out of whatever list it is in. After this nobody else knows of it, and its state
    /// is final.
    #[inline]
    pub(crate) fn disarm(&self, node: &Node) {
        if node.state() == IN_OBJECT {
            let mut state = self.state.lock();
            if node.state() == IN_OBJECT {
                state.unlink(node);
                node.set_state(IDLE);
                return;
            }
        }
        // It leaves an object's list for good, so here it is in a fence's list, or was taken out.
        if node.state() == IN_FENCE {
            leave_fence(node);
        }
    }

    /// Rings when the point is ready; at once if it is.
    pub(crate) fn ring_when_ready(&self, point: u64, available: bool, ring: &Arc<Ring>) {
        let mut state = self.state.lock();
        match state.payload.standing(point) {
            Standing::Absent => {
                state.rings.retain(|waiting| waiting.ring.is_live());
                state.rings.push(Waiting {
                    point,
                    available,
                    ring: Arc::clone(ring),
                });
            }
            Standing::Pending(fence) if !available => {
                drop(state);
                fence.ring_when_done(Arc::clone(ring));
            }
            Standing::Pending(_) | Standing::Reached => {
                drop(state);
                ring.ring();
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        self.publish(&state);
        if state.waiters.is_empty() && state.rings.is_empty() {
            return;
        }
        self.settle(state);
    }

    /// Repeats in the words outside the lock what is done.
    fn publish(&self, state: &Guard<'_, State>) {
        let (reached, is_signaled) = state.payload.done();
        // Release: pairs with the acquire in `is_known_reached`; the writes of whoever signalled are
        // visible to whoever reads the point.
        self.reached.store(reached, Ordering::Release);
        self.is_signaled
            .store(u32::from(is_signaled), Ordering::Release);
    }

    /// Gives waiting nodes and rings the fences they waited for.
    #[inline(never)]
    fn settle<'a>(&'a self, mut state: Guard<'a, State>) {
        if state.rings.is_empty()
            && let Some(node) = state.waiters.only()
        {
            // The usual case: one thread waits.
            let token = state.settle_node(node);
            drop(state);
            if let Some(token) = token {
                token.wake();
            }
            return;
        }
        self.settle_all(state);
    }

    /// [`Self::settle`] for more than one waiter.
    #[inline(never)]
    fn settle_all<'a>(&'a self, mut state: Guard<'a, State>) {
        let State { payload, rings, .. } = &mut *state;
        let mut ready = Vec::new();
        rings.retain(|waiting| match payload.standing(waiting.point) {
            Standing::Absent => waiting.ring.is_live(),
            Standing::Pending(fence) if !waiting.available => {
                ready.push((Some(fence), Arc::clone(&waiting.ring)));
                false
            }
            Standing::Pending(_) | Standing::Reached => {
                ready.push((None, Arc::clone(&waiting.ring)));
                false
            }
        });
        loop {
            let mut wakes = Wakes::default();
            let is_complete = state.settle_nodes(&mut wakes);
            drop(state);
            wakes.wake();
            if is_complete {
                break;
            }
            state = self.state.lock();
        }
        for (fence, ring) in ready {
            match fence {
                Some(fence) => fence.ring_when_done(ring),
                None => ring.ring(),
            }
        }
    }
}

#[expect(
    unsafe_code,
    reason = "the list's promises, kept by the node's state under this lock"
)]
impl State {
    #[inline]
    fn link(&mut self, node: &Node) {
        // SAFETY: `arm` is called with a node in no list, whose frame disarms it before it ends.
        unsafe { self.waiters.push(node) };
    }

    #[inline]
    fn unlink(&mut self, node: &Node) {
        // SAFETY: the node's state says that it is in this object's list, read under its lock.
        unsafe { self.waiters.remove(node) };
    }

    /// Walks the waiting nodes: those whose point has a fence move to it, those whose point is ready
    /// leave. Returns false if `wakes` was full before the end.
    fn settle_nodes(&mut self, wakes: &mut Wakes) -> bool {
        let mut next = self.waiters.first().map(std::ptr::from_ref);
        while let Some(node) = next {
            if wakes.is_full() {
                return false;
            }
            // SAFETY: the node is in the list, which we hold locked: its frame waits.
            let here = unsafe { &*node };
            next = here.next();
            wakes.push(self.settle_node(node));
        }
        true
    }

    /// Moves one waiting node to the fence that its point has by now, or takes it out as ready; returns
    /// whom to wake. `node` is in this list.
    #[inline]
    fn settle_node(&mut self, node: *const Node) -> Option<Token> {
        // SAFETY: the node is in the list, which we hold locked: its frame waits.
        let here = unsafe { &*node };
        match self.payload.standing(here.point.get()) {
            Standing::Absent => return None,
            Standing::Pending(fence) if !here.available.get() => {
                self.unlink(here);
                if fence.wait_here(here) {
                    return None;
                }
                // It ended this moment: back into the list to leave it as ready.
                self.link(here);
            }
            Standing::Pending(_) | Standing::Reached => {}
        }
        // SAFETY: the node is in this list.
        unsafe { self.waiters.fire(node) }
    }
}

#[inline(never)]
fn leave_fence(node: &Node) {
    if let Some(fence) = node.fence.take() {
        fence.leave(node);
    }
}

/// Whether a node was taken out as ready.
pub(crate) fn has_fired(node: &Node) -> bool {
    node.state() == FIRED
}
