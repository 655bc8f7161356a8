//! A sleeping thread, and the nodes by which it stands in the lists of what it waits for.
//!
//! One [`Waiter`] and one [`Node`] per object live in the frame of the waiting call. A node is in at
//! most one [`List`], of an object (its point has no fence yet) or of a fence. Whoever makes an
//! object or a fence ready takes the node out of the list under the list's lock, marks it
//! [`FIRED`], counts the waiter down, and only the count that reaches zero wakes the thread: one
//! wake-up for each satisfied waiter.
//!
//! After `FIRED` is stored the other thread touches neither node nor waiter again; the address of
//! the sleeper's word is all it keeps ([`Token`]). The waiting thread leaves its frame only after
//! each node is out of its list ([`super::object::disarm`]).
#![expect(
    unsafe_code,
    reason = "intrusive lists of nodes in the frames of waiting threads"
)]

use std::cell::Cell;
use std::ptr;

use crate::error::{Error, Result};
use crate::local::fence::Fence;
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::prim::{Arc, Futex, Token};
use crate::time::Deadline;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const DONE: u32 = 2;

/// A thread that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    futex: Futex,
    /// Objects still missing: all of them for a wait on all, one for a wait on any.
    missing: AtomicU32,
}

impl Waiter {
    pub(crate) fn new(missing: u32) -> Self {
        Self {
            futex: Futex::new(AWAKE),
            missing: AtomicU32::new(missing),
        }
    }

    /// Counts one object as ready. Returns whom to wake if this was the last one and the thread sleeps.
    pub(crate) fn count_down(&self) -> Option<Token> {
        // AcqRel: what each signaller wrote is visible to whoever counts to zero, and through the
        // word to the waiter. Below zero it wraps: only the step from one to zero acts.
        if self.missing.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        // AcqRel: release pairs with the acquire in `is_done`; the swap and the exchange in `sleep`
        // are on one word, so either we see ASLEEP or the sleeper sees DONE.
        (self.futex.word().swap(DONE, Ordering::AcqRel) == ASLEEP).then(|| self.futex.token())
    }

    /// Whether enough objects are ready.
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the release in `count_down`.
        self.futex.word().load(Ordering::Acquire) == DONE
    }

    /// Sleeps until done or `deadline`, or until a signal if it is to end the sleep; `objects` is for the
    /// error.
    pub(crate) fn sleep(
        &self,
        deadline: Deadline,
        interruptible: bool,
        objects: usize,
    ) -> Result<()> {
        let word = self.futex.word();
        loop {
            // Acquire on failure: DONE was stored by `count_down`.
            let seen = word.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            if seen == Err(DONE) {
                return Ok(());
            }
            if deadline.has_passed() {
                return if self.is_done() {
                    Ok(())
                } else {
                    Err(Error::TimedOut { objects })
                };
            }
            let is_interrupted = self.futex.wait(ASLEEP, deadline, interruptible);
            if self.is_done() {
                return Ok(());
            }
            if is_interrupted && interruptible {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// Not in a list, never was.
pub(crate) const IDLE: u32 = 0;
/// In the list of an object.
pub(crate) const IN_OBJECT: u32 = 1;
/// In the list of the fence that the node holds.
pub(crate) const IN_FENCE: u32 = 2;
/// Taken out because it is ready.
pub(crate) const FIRED: u32 = 3;

/// A waiter's place in one list.
pub(crate) struct Node {
    next: Cell<*const Self>,
    previous: Cell<*const Self>,
    waiter: Cell<*const Waiter>,
    /// The point waited for.
    pub(crate) point: Cell<u64>,
    /// Whether a fence at the point is enough, done or not.
    pub(crate) available: Cell<bool>,
    /// The fence taken as the point's, once there is one: later resets do not change this wait.
    pub(crate) fence: Cell<Option<Arc<Fence>>>,
    state: AtomicU32,
}

impl Node {
    #[inline]
    pub(crate) fn new(waiter: &Waiter, point: u64, available: bool) -> Self {
        Self {
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            waiter: Cell::new(waiter),
            point: Cell::new(point),
            available: Cell::new(available),
            fence: Cell::new(None),
            state: AtomicU32::new(IDLE),
        }
    }

    /// The next node of the list that this one is in; only under that list's lock.
    pub(crate) fn next(&self) -> Option<*const Self> {
        let next = self.next.get();
        (!next.is_null()).then_some(next)
    }

    /// Where the node is.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        // Acquire: pairs with the release in `set_state`; after FIRED the node is ours again.
        self.state.load(Ordering::Acquire)
    }

    /// Says where the node is. Only under the lock of the list concerned.
    #[inline]
    pub(crate) fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Release);
    }
}

/// Nodes of waiting threads, first come first.
#[derive(Debug)]
pub(crate) struct List {
    first: *const Node,
    last: *const Node,
}

// SAFETY: a list is used only inside a `Lock`, and the nodes in it stay in place, alive, until they
// are taken out under that lock.
unsafe impl Send for List {}

impl Default for List {
    fn default() -> Self {
        Self {
            first: ptr::null(),
            last: ptr::null(),
        }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Puts a node at the end.
    ///
    /// # Safety
    ///
    /// The node is in no list, does not move and lives until it is taken out of this one.
    #[inline]
    pub(crate) unsafe fn push(&mut self, node: &Node) {
        node.next.set(ptr::null());
        node.previous.set(self.last);
        if self.last.is_null() {
            self.first = node;
        } else {
            // SAFETY: nodes in the list are alive (`push`'s promise) and linked under our lock.
            let last = unsafe { &*self.last };
            last.next.set(node);
        }
        self.last = node;
    }

    /// Takes a node out.
    ///
    /// # Safety
    ///
    /// The node is in this list.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, node: &Node) {
        let (next, previous) = (node.next.get(), node.previous.get());
        if previous.is_null() {
            self.first = next;
        } else {
            // SAFETY: a neighbour in the list is alive.
            let previous = unsafe { &*previous };
            previous.next.set(next);
        }
        if next.is_null() {
            self.last = previous;
        } else {
            // SAFETY: a neighbour in the list is alive.
            let next = unsafe { &*next };
            next.previous.set(previous);
        }
        node.next.set(ptr::null());
        node.previous.set(ptr::null());
    }

    /// The node, if there is exactly one.
    #[inline]
    pub(crate) fn only(&self) -> Option<*const Node> {
        (!self.first.is_null() && ptr::eq(self.first, self.last)).then_some(self.first)
    }

    /// The first node.
    pub(crate) fn first(&self) -> Option<&Node> {
        // SAFETY: nodes in the list are alive until taken out, for which the list is borrowed
        // mutably; null means none.
        unsafe { self.first.as_ref() }
    }

    /// Takes a node out as ready and counts its waiter down.
    ///
    /// # Safety
    ///
    /// `node` points to a node that is in this list. It may be gone when this returns.
    pub(crate) unsafe fn fire(&mut self, node: *const Node) -> Option<Token> {
        // SAFETY: the node is in the list, so its frame waits for this lock before it ends.
        let node = unsafe { &*node };
        // SAFETY: the caller's promise.
        unsafe { self.remove(node) };
        // SAFETY: the waiter is in the same frame as the node.
        let waiter = unsafe { &*node.waiter.get() };
        let token = waiter.count_down();
        // The last touch: with this store the frame may end.
        node.set_state(FIRED);
        token
    }
}

/// Sleepers to wake after a lock is given back, a few at a time.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    tokens: [Option<Token>; 8],
    used: usize,
}

impl Wakes {
    /// Whether there is no room for another one.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.tokens.len()
    }

    /// Remembers a sleeper.
    pub(crate) fn push(&mut self, token: Option<Token>) {
        if let (Some(token), Some(room)) = (token, self.tokens.get_mut(self.used)) {
            *room = Some(token);
            self.used += 1;
        }
    }

    /// Wakes them. Cost: one system call each.
    pub(crate) fn wake(self) {
        for token in self.tokens.into_iter().flatten() {
            token.wake();
        }
    }
}
