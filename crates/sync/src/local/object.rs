//! Sync objects inside one process: binary and timeline, with the kernel's meaning.
//!
//! An object holds nothing, one fence, or a timeline. A timeline is the highest point added and, for
//! points not done yet, a tail of (point, fence that ends when this point and all before it are
//! done). Two words outside the lock repeat what is done, so that a check of a reached object is one
//! load.

use std::collections::VecDeque;

use crate::local::fence::Fence;
use crate::local::ring::Ring;
use crate::local::wait::{FIRED, IN_FENCE, IN_OBJECT, List, Node, Wakes};
use crate::prim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::prim::{Arc, Guard, Lock};

/// Where a point stands.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// No fence there yet.
    Absent,
    /// A fence that is not done.
    Pending(Arc<Fence>),
    /// Done.
    Reached,
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
    payload: Payload,
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

#[derive(Debug, Default)]
enum Payload {
    #[default]
    Empty,
    Signaled,
    Fence(Arc<Fence>),
    Timeline(Timeline),
}

#[derive(Debug, Default)]
struct Timeline {
    /// The highest point added.
    submitted: u64,
    /// Points not done, oldest first, all of the newest run of growing points.
    tail: VecDeque<Tail>,
}

#[derive(Debug)]
struct Tail {
    point: u64,
    /// The point before this one; zero for the first of a run. All above it up to `point` need `fence`.
    previous: u64,
    fence: Arc<Fence>,
}

impl Timeline {
    /// Forgets what is done.
    fn trim(&mut self) {
        // A fence of the tail ends after those before it, so the done ones are at the front.
        while self.tail.front().is_some_and(|tail| tail.fence.is_done()) {
            self.tail.pop_front();
        }
    }

    fn reached(&self) -> u64 {
        self.tail
            .front()
            .map_or(self.submitted, |tail| tail.previous)
    }

    fn add(&mut self, point: u64, fence: Option<&Arc<Fence>>, before: Option<&Arc<Fence>>) {
        self.trim();
        let last = self
            .tail
            .back()
            .map(|tail| Arc::clone(&tail.fence))
            .or_else(|| before.cloned());
        let joined = match (last, fence) {
            (Some(last), Some(fence)) => Some(Fence::join(&last, fence)),
            (Some(last), None) => Some(last),
            (None, Some(fence)) => Some(Arc::clone(fence)),
            (None, None) => None,
        };
        let joined = joined.filter(|fence| !fence.is_done());
        let previous = self.submitted;
        if point > previous {
            self.submitted = point;
        }
        let previous = if point > previous && before.is_none() {
            previous
        } else {
            0
        };
        if previous == 0 || joined.is_none() {
            // A point out of order starts a new run; the fence of its first point covers the old one.
            self.tail.clear();
        }
        if let Some(fence) = joined {
            self.tail.push_back(Tail {
                point: self.submitted,
                previous,
                fence,
            });
        }
    }
}

impl Payload {
    /// Finds the fence for a point, as `drm_syncobj_find_fence` does.
    fn standing(&mut self, point: u64) -> Standing {
        if let Self::Timeline(timeline) = self {
            timeline.trim();
        }
        match self {
            Self::Signaled if point == 0 => Standing::Reached,
            Self::Fence(fence) if point == 0 => fence_standing(fence),
            Self::Empty | Self::Signaled | Self::Fence(_) => Standing::Absent,
            Self::Timeline(timeline) => {
                if point > timeline.submitted {
                    return Standing::Absent;
                }
                let tail = if point == 0 {
                    timeline.tail.back()
                } else if point <= timeline.reached() {
                    None
                } else {
                    timeline.tail.iter().find(|tail| tail.point >= point)
                };
                tail.map_or(Standing::Reached, |tail| fence_standing(&tail.fence))
            }
        }
    }
}

fn fence_standing(fence: &Arc<Fence>) -> Standing {
    if fence.is_done() {
        Standing::Reached
    } else {
        Standing::Pending(Arc::clone(fence))
    }
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
        let Payload::Timeline(timeline) = &mut state.payload else {
            return (0, 0);
        };
        timeline.trim();
        let answer = (timeline.reached(), timeline.submitted);
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
            if let Payload::Timeline(timeline) = &mut state.payload {
                timeline.add(point, fence, None);
                return;
            }
            let before = match std::mem::take(&mut state.payload) {
                Payload::Fence(before) if !before.is_done() => Some(before),
                Payload::Empty | Payload::Signaled | Payload::Fence(_) | Payload::Timeline(_) => {
                    None
                }
            };
            let mut timeline = Timeline::default();
            timeline.add(point, fence, before.as_ref());
            state.payload = Payload::Timeline(timeline);
        });
    }

    /// Puts `node` where it will be found, unless its point is ready or cannot be waited for.
    pub(crate) fn arm(&self, node: &Node, for_submit: bool) -> Armed {
        let mut state = self.state.lock();
        match state.payload.standing(node.point.get()) {
            Standing::Reached => {
                self.publish(&state);
                Armed::Ready
            }
            Standing::Pending(_) if node.available.get() => Armed::Ready,
            Standing::Pending(fence) => {
                drop(state);
                if fence.wait_here(node) {
                    Armed::Waiting
                } else {
                    Armed::Ready
                }
            }
            Standing::Absent if for_submit || node.available.get() => {
                node.set_state(IN_OBJECT);
                state.link(node);
                Armed::Waiting
            }
            Standing::Absent => Armed::Absent,
        }
    }

    /// Takes a node out of whatever list it is in. After this nobody else knows of it.
    pub(crate) fn disarm(&self, node: &Node) {
        if node.state() == IN_OBJECT {
            let mut state = self.state.lock();
            if node.state() == IN_OBJECT {
                state.unlink(node);
                return;
            }
        }
        // It leaves an object's list for good, so here it is in a fence's list, or was taken out.
        if node.state() == IN_FENCE
            && let Some(fence) = node.fence.take()
        {
            fence.leave(node);
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
        let (reached, is_signaled) = match &state.payload {
            Payload::Empty => (0, false),
            Payload::Signaled => (0, true),
            Payload::Fence(fence) => (0, fence.is_done()),
            Payload::Timeline(timeline) => (timeline.reached(), timeline.tail.is_empty()),
        };
        // Release: pairs with the acquire in `is_known_reached`; the writes of whoever signalled are
        // visible to whoever reads the point.
        self.reached.store(reached, Ordering::Release);
        self.is_signaled
            .store(u32::from(is_signaled), Ordering::Release);
    }

    /// Gives waiting nodes and rings the fences they waited for.
    #[cold]
    fn settle<'a>(&'a self, mut state: Guard<'a, State>) {
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
    fn link(&mut self, node: &Node) {
        // SAFETY: `arm` is called with a node in no list, whose frame disarms it before it ends.
        unsafe { self.waiters.push(node) };
    }

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
            match self.payload.standing(here.point.get()) {
                Standing::Absent => {}
                Standing::Pending(fence) if !here.available.get() => {
                    self.unlink(here);
                    if !fence.wait_here(here) {
                        // It ended this moment: back into the list to leave it as ready.
                        self.link(here);
                        // SAFETY: linked just now.
                        wakes.push(unsafe { self.waiters.fire(node) });
                    }
                }
                Standing::Pending(_) | Standing::Reached => {
                    // SAFETY: the node is in this list.
                    wakes.push(unsafe { self.waiters.fire(node) });
                }
            }
        }
        true
    }
}

/// Whether a node was taken out as ready.
pub(crate) fn has_fired(node: &Node) -> bool {
    node.state() == FIRED
}
