//! A fence: done once, for good.
//!
//! A fence is either raw, ended by its [`Signaller`], or joined: done when the two fences it was
//! made of are. Joined fences carry the rule that a timeline's point is done only when all points
//! added before it are.

use crate::local::ring::Ring;
use crate::local::wait::{IDLE, IN_FENCE, List, Node, Wakes};
use crate::prim::atomic::{AtomicI32, AtomicU32, Ordering};
use crate::prim::{Arc, Lock};

const PENDING: i32 = 0;
/// A fence that is done without fault.
pub(crate) const SUCCESS: i32 = 1;

/// Something that ends once. Status is zero while pending, one when done, a negative error code when
/// it ended by failure (which ends waits all the same).
#[derive(Debug)]
pub(crate) struct Fence {
    status: AtomicI32,
    /// For a joined fence: parts still pending. One for a raw fence.
    missing: AtomicU32,
    /// For a joined fence: the first failure among its parts, or [`SUCCESS`].
    part_status: AtomicI32,
    inner: Lock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiters: List,
    rings: Vec<Arc<Ring>>,
    dependents: Vec<Arc<Fence>>,
}

impl Fence {
    /// A fence that somebody will end. Cost: one allocation.
    pub(crate) fn raw() -> Arc<Self> {
        Arc::new(Self::with_parts(1))
    }

    fn with_parts(parts: u32) -> Self {
        Self {
            status: AtomicI32::new(PENDING),
            missing: AtomicU32::new(parts),
            part_status: AtomicI32::new(SUCCESS),
            inner: Lock::new(Inner::default()),
        }
    }

    /// A fence that is done when both are. Cost: up to three allocations, the locks of both in turn.
    pub(crate) fn join(first: &Arc<Self>, second: &Arc<Self>) -> Arc<Self> {
        if first.is_done() {
            return Arc::clone(second);
        }
        if second.is_done() || Arc::ptr_eq(first, second) {
            return Arc::clone(first);
        }
        // One part more than fences, taken off at the end, so that it cannot end half built.
        let joined = Arc::new(Self::with_parts(3));
        for part in [first, second] {
            let mut inner = part.inner.lock();
            if part.is_done() {
                drop(inner);
                joined.part_done(part.status());
            } else {
                inner.dependents.push(Arc::clone(&joined));
            }
        }
        joined.part_done(SUCCESS);
        joined
    }

    /// Zero, one, or a negative error code.
    pub(crate) fn status(&self) -> i32 {
        // Acquire: pairs with the release in `end`.
        self.status.load(Ordering::Acquire)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.status() != PENDING
    }

    /// Whether the last part just ended; keeps the first failure.
    fn part_done(self: &Arc<Self>, status: i32) {
        if let Some(status) = self.count_part(status) {
            self.finish(status);
        }
    }

    fn count_part(&self, status: i32) -> Option<i32> {
        if status < 0 {
            // Relaxed: ordered by the count below.
            let _kept = self.part_status.compare_exchange(
                SUCCESS,
                status,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        // AcqRel: the part that ends last sees the statuses the others stored.
        (self.missing.fetch_sub(1, Ordering::AcqRel) == 1)
            .then(|| self.part_status.load(Ordering::Relaxed))
    }

    /// Ends the fence and what depends on it. A loop, not recursion: chains are as long as a program
    /// makes them.
    fn finish(self: &Arc<Self>, status: i32) {
        let mut ended: Vec<(Arc<Self>, i32)> = Vec::new();
        self.end(status, &mut ended);
        while let Some((fence, status)) = ended.pop() {
            fence.end(status, &mut ended);
        }
    }

    /// Ends this fence: wakes its waiters, rings its rings, counts down its dependents and puts
    /// those that end by it into `ended`.
    fn end(&self, status: i32, ended: &mut Vec<(Arc<Self>, i32)>) {
        let mut rings = Vec::new();
        let mut dependents = Vec::new();
        let mut first_round = true;
        loop {
            let mut wakes = Wakes::default();
            let mut inner = self.inner.lock();
            if first_round {
                if self.is_done() {
                    return;
                }
                // Release: pairs with the acquire in `status`. Under the lock: nobody joins a list
                // of a fence that is done.
                self.status.store(status, Ordering::Release);
                rings = std::mem::take(&mut inner.rings);
                dependents = std::mem::take(&mut inner.dependents);
                first_round = false;
            }
            while !wakes.is_full() && inner.fire_first(&mut wakes) {}
            let is_last = inner.waiters.is_empty();
            drop(inner);
            wakes.wake();
            if is_last {
                break;
            }
        }
        for ring in rings {
            ring.ring();
        }
        for dependent in dependents {
            if let Some(status) = dependent.count_part(status) {
                ended.push((dependent, status));
            }
        }
    }

    /// Puts a node into the list, unless the fence is done. Returns whether it did.
    pub(crate) fn wait_here(self: &Arc<Self>, node: &Node) -> bool {
        let mut inner = self.inner.lock();
        if self.is_done() {
            return false;
        }
        node.fence.set(Some(Arc::clone(self)));
        node.set_state(IN_FENCE);
        inner.link(node);
        true
    }

    /// Takes a node out of the list if it still is there.
    pub(crate) fn leave(&self, node: &Node) {
        let mut inner = self.inner.lock();
        if node.state() == IN_FENCE {
            inner.unlink(node);
            node.set_state(IDLE);
        }
    }

    /// Rings when done; at once if it is.
    pub(crate) fn ring_when_done(&self, ring: Arc<Ring>) {
        let mut inner = self.inner.lock();
        if self.is_done() {
            drop(inner);
            ring.ring();
            return;
        }
        inner.rings.retain(|ring| ring.is_live());
        inner.rings.push(ring);
    }
}

#[expect(
    unsafe_code,
    reason = "the list's promises, kept by the node's state under this lock"
)]
impl Inner {
    fn fire_first(&mut self, wakes: &mut Wakes) -> bool {
        let Some(node) = self.waiters.first().map(std::ptr::from_ref) else {
            return false;
        };
        // SAFETY: the node is the list's first.
        wakes.push(unsafe { self.waiters.fire(node) });
        true
    }

    fn link(&mut self, node: &Node) {
        // SAFETY: `wait_here` is called with a node in no list, whose frame disarms it before it ends.
        unsafe { self.waiters.push(node) };
    }

    fn unlink(&mut self, node: &Node) {
        // SAFETY: the node's state says that it is in this fence's list, read under its lock.
        unsafe { self.waiters.remove(node) };
    }
}

/// The right to end a fence. Dropped without that, the fence ends with `ENOENT`, as the kernel ends
/// the fences of a software timeline that is closed: nobody waits for ever.
#[derive(Debug)]
pub struct Signaller {
    fence: Option<Arc<Fence>>,
}

impl Signaller {
    pub(crate) fn new(fence: Arc<Fence>) -> Self {
        Self { fence: Some(fence) }
    }

    /// Ends the fence: waits for it are over. Cost: a lock, one system call for each sleeper.
    pub fn signal(mut self) {
        self.end(SUCCESS);
    }

    /// Ends the fence by failure: waits for it are over too, its status is `-code`.
    pub fn fail(mut self, code: i32) {
        self.end(-code.clamp(1, 4095));
    }

    fn end(&mut self, status: i32) {
        if let Some(fence) = self.fence.take() {
            fence.finish(status);
        }
    }
}

impl Drop for Signaller {
    fn drop(&mut self) {
        self.end(-libc::ENOENT);
    }
}
