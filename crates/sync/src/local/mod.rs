//! Sync objects of one process.
//!
//! A check of a reached object is one load; a wait on up to [`INLINE`] objects allocates nothing and
//! sleeps in one system call. Objects must not be used in a child after `fork`: a lock held by
//! another thread of the parent would stay taken there.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::error::{Error, Result};
use crate::prim::Arc;
use crate::provider::{Entry, Progress, Provider, WaitFor, Waited};
use crate::time::Deadline;

pub(crate) mod fence;
pub(crate) mod future;
pub(crate) mod object;
pub(crate) mod ring;
pub(crate) mod wait;

use fence::Signaller;
use object::{Armed, Standing};
use wait::{Node, Waiter};

/// Objects that a wait holds in its own frame: as many as the widest user is known to pass (64, the
/// limit of `WaitForMultipleObjects`). Beyond it a wait allocates once.
pub const INLINE: usize = 64;

/// Makes objects that live in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

/// A sync object of this process. A clone is the same object.
#[derive(Clone, Debug)]
pub struct Object(pub(crate) Arc<object::Object>);

/// A fence of this process. A clone is the same fence.
#[derive(Clone, Debug)]
pub struct Fence(pub(crate) Option<Arc<fence::Fence>>);

impl Fence {
    /// A fence that is done.
    pub const DONE: Self = Self(None);
}

impl Object {
    /// Makes an object, without a fence or with one that is done.
    #[must_use]
    pub fn new(signaled: bool) -> Self {
        Self(object::Object::new(signaled))
    }

    /// Whether `point` (zero: the current fence) is done. Cost: one load if it was seen done before,
    /// else a lock of a few instructions. No system call.
    #[must_use]
    #[inline]
    pub fn is_reached(&self, point: u64) -> bool {
        self.0.is_known_reached(point) || matches!(self.0.standing(point), Standing::Reached)
    }

    /// Adds a done point; as [`Provider::signal_point`]. Cost: a lock of a few instructions, one
    /// system call for each sleeper that this satisfies.
    pub fn signal_point(&self, point: u64) {
        self.0.add(point, None);
    }

    /// Waits for one point, also for one not submitted yet.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`].
    pub fn wait(&self, point: u64, deadline: Deadline) -> Result<()> {
        wait(
            &[Entry {
                object: self,
                point,
            }],
            WaitFor::ALL.for_submit(),
            deadline,
        )
        .map(|_| ())
    }
}

/// Waits on objects of this process. See [`Provider::wait`].
///
/// # Cost
///
/// No system call if nothing is to be waited for; one for each sleep. No allocation up to
/// [`INLINE`] objects.
///
/// # Errors
///
/// As [`Provider::wait`].
pub fn wait(entries: &[Entry<'_, Object>], what: WaitFor, deadline: Deadline) -> Result<Waited> {
    let look = look(entries, what)?;
    if look.is_enough(entries.len(), what) {
        return Ok(Waited { first: look.first });
    }
    if deadline.has_passed() {
        return Err(Error::TimedOut {
            objects: entries.len(),
        });
    }
    let missing = if what.all { entries.len() } else { 1 };
    let waiter = Waiter::new(u32::try_from(missing).unwrap_or(u32::MAX));
    if let [entry] = entries {
        return wait_for_one(entry, what, deadline, &waiter);
    }
    with_nodes(entries.len(), |nodes| {
        armed_wait(entries, what, deadline, &waiter, nodes, look)
    })
}

/// One node in this frame; taken out of its list when this goes. It must not move once armed.
struct OneNode<'a> {
    object: &'a object::Object,
    node: Node,
}

impl Drop for OneNode<'_> {
    #[inline]
    fn drop(&mut self) {
        self.object.disarm(&self.node);
    }
}

/// [`wait`] on one object, as most waits are: of a game's, 96 % were (the series behind the kernel's
/// proposed fast path counted them). No list of nodes to walk, so arming is cheaper.
#[inline]
fn wait_for_one(
    entry: &Entry<'_, Object>,
    what: WaitFor,
    deadline: Deadline,
    waiter: &Waiter,
) -> Result<Waited> {
    let one = OneNode {
        object: &entry.object.0,
        node: Node::new(waiter, entry.point, what.available),
    };
    let first = match one.object.arm(&one.node, what.takes_absent()) {
        Armed::Ready if what.all => None,
        Armed::Ready => Some(0),
        Armed::Absent => {
            return Err(Error::NotSubmitted {
                index: 0,
                point: entry.point,
            });
        }
        Armed::Waiting if !waiter.sleep(deadline) => return Err(Error::TimedOut { objects: 1 }),
        Armed::Waiting => (!what.all).then_some(0),
    };
    Ok(Waited { first })
}

/// Objects of a wait whose nodes lie in a frame too small to touch another stack page.
const FEW: usize = 4;

/// Gives `body` room for `count` nodes: in the frame up to [`INLINE`], beyond on the heap.
#[inline]
fn with_nodes<T>(count: usize, body: impl FnOnce(&mut [MaybeUninit<Node>]) -> T) -> T {
    if count > FEW {
        return with_many_nodes(count, body);
    }
    let mut nodes = [const { MaybeUninit::uninit() }; FEW];
    body(nodes.get_mut(..count).unwrap_or_default())
}

#[inline(never)]
fn with_many_nodes<T>(count: usize, body: impl FnOnce(&mut [MaybeUninit<Node>]) -> T) -> T {
    if count <= INLINE {
        let mut nodes = [const { MaybeUninit::uninit() }; INLINE];
        return body(nodes.get_mut(..count).unwrap_or_default());
    }
    let mut nodes = Vec::new();
    nodes.resize_with(count, MaybeUninit::uninit);
    body(&mut nodes)
}

/// Arms and disarms a wait on any of these objects without sleeping: what a wait costs beside the
/// sleep, for benches.
#[doc(hidden)]
pub fn arm_and_disarm(entries: &[Entry<'_, Object>]) {
    let what = WaitFor::ANY.for_submit();
    let waiter = Waiter::new(1);
    if let [entry] = entries {
        let one = OneNode {
            object: &entry.object.0,
            node: Node::new(&waiter, entry.point, false),
        };
        let _armed = one.object.arm(&one.node, true);
        return;
    }
    with_nodes(entries.len(), |nodes| {
        let mut armed = ArmedNodes {
            entries,
            nodes,
            used: 0,
        };
        for entry in entries {
            let _armed = armed.arm(entry, &waiter, what);
        }
    });
}

/// What one look at all objects found.
#[derive(Clone, Copy, Debug)]
struct Look {
    ready: usize,
    first: Option<usize>,
}

impl Look {
    fn is_enough(self, entries: usize, what: WaitFor) -> bool {
        self.ready == entries || (self.ready > 0 && !what.all)
    }
}

/// Looks at all objects in order: one that was never submitted ends the wait even if others are
/// ready.
fn look(entries: &[Entry<'_, Object>], what: WaitFor) -> Result<Look> {
    let mut look = Look {
        ready: 0,
        first: None,
    };
    for (index, entry) in entries.iter().enumerate() {
        let is_ready = entry.object.0.is_known_reached(entry.point)
            || match entry.object.0.standing(entry.point) {
                Standing::Reached => true,
                Standing::Pending(_) => what.available,
                Standing::Absent if what.takes_absent() => false,
                Standing::Absent => {
                    return Err(Error::NotSubmitted {
                        index,
                        point: entry.point,
                    });
                }
            };
        if is_ready {
            look.ready += 1;
            look.first = look.first.or(Some(index));
        }
    }
    Ok(look)
}

/// The nodes that are in lists; taken out when this goes.
struct ArmedNodes<'a, 'o> {
    entries: &'a [Entry<'o, Object>],
    nodes: &'a mut [MaybeUninit<Node>],
    used: usize,
}

#[expect(unsafe_code, reason = "an array of which a prefix is initialised")]
impl ArmedNodes<'_, '_> {
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().take(self.used).map(|node| {
            // SAFETY: `arm` wrote the first `used` nodes.
            unsafe { node.assume_init_ref() }
        })
    }

    /// Arms one entry. The node is written before it is used and counted before anything can fail.
    #[inline]
    fn arm(&mut self, entry: &Entry<'_, Object>, waiter: &Waiter, what: WaitFor) -> Armed {
        let Some(slot) = self.nodes.get_mut(self.used) else {
            return Armed::Ready;
        };
        let node = slot.write(Node::new(waiter, entry.point, what.available));
        self.used += 1;
        entry.object.0.arm(node, what.takes_absent())
    }

    /// Takes all nodes out of their lists.
    #[inline]
    fn disarm(&self) {
        for (entry, node) in self.entries.iter().zip(self.nodes()) {
            entry.object.0.disarm(node);
        }
    }
}

#[expect(unsafe_code, reason = "an array of which a prefix is initialised")]
impl Drop for ArmedNodes<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.disarm();
        for node in self.nodes.iter_mut().take(self.used) {
            // SAFETY: `arm` wrote the first `used` nodes; they are out of all lists.
            unsafe { node.assume_init_drop() };
        }
    }
}

fn armed_wait(
    entries: &[Entry<'_, Object>],
    what: WaitFor,
    deadline: Deadline,
    waiter: &Waiter,
    nodes: &mut [MaybeUninit<Node>],
    look: Look,
) -> Result<Waited> {
    let mut armed = ArmedNodes {
        entries,
        nodes,
        used: 0,
    };
    for (index, entry) in entries.iter().enumerate() {
        match armed.arm(entry, waiter, what) {
            Armed::Waiting => {}
            Armed::Ready if what.all => {
                // Nobody sleeps yet, so there is nobody to wake.
                let _nobody = waiter.count_down();
            }
            Armed::Ready => return Ok(Waited { first: Some(index) }),
            Armed::Absent => {
                return Err(Error::NotSubmitted {
                    index,
                    point: entry.point,
                });
            }
        }
    }
    if !waiter.sleep(deadline) {
        return Err(Error::TimedOut {
            objects: entries.len(),
        });
    }
    // Whoever woke us marks its node after it counted us down, under the list's lock: only out of all
    // lists are the marks complete.
    armed.disarm();
    let first = if what.all {
        look.first
    } else {
        armed.nodes().position(object::has_fired)
    };
    Ok(Waited { first })
}

impl Provider for Local {
    type Object = Object;
    type Fence = Fence;
    type Signaller = Signaller;

    fn create(&self, signaled: bool) -> Result<Object> {
        Ok(Object::new(signaled))
    }

    fn fence(&self) -> Result<(Signaller, Fence)> {
        let fence = fence::Fence::raw();
        Ok((Signaller::new(Arc::clone(&fence)), Fence(Some(fence))))
    }

    fn end(&self, signaller: Signaller) {
        signaller.signal();
    }

    fn status(&self, fence: &Fence) -> i32 {
        fence
            .0
            .as_ref()
            .map_or(fence::SUCCESS, |fence| fence.status())
    }

    fn notify(&self, fence: &Fence, fd: OwnedFd) -> Result<()> {
        match &fence.0 {
            Some(fence) => fence::ring_on(fence, fd),
            None => ring::Ring::descriptor(fd).ring(),
        }
        Ok(())
    }

    fn join(&self, first: &Fence, second: &Fence) -> Result<Fence> {
        Ok(match (&first.0, &second.0) {
            (Some(first), Some(second)) => Fence(Some(fence::Fence::join(first, second))),
            (None, _) => second.clone(),
            (_, None) => first.clone(),
        })
    }

    fn signal(&self, object: &Object) -> Result<()> {
        object.0.replace_signaled();
        Ok(())
    }

    fn signal_point(&self, object: &Object, point: u64) -> Result<()> {
        object.0.add(point, None);
        Ok(())
    }

    fn reset(&self, object: &Object) -> Result<()> {
        object.0.replace(None);
        Ok(())
    }

    fn attach(&self, object: &Object, point: u64, fence: &Fence) -> Result<()> {
        match (point, &fence.0) {
            (0, None) => object.0.replace_signaled(),
            (0, fence) => object.0.replace(fence.as_ref()),
            (point, fence) => object.0.add(point, fence.as_ref()),
        }
        Ok(())
    }

    fn fence_of(&self, object: &Object, point: u64) -> Result<Fence> {
        match object.0.standing(point) {
            Standing::Absent => Err(Error::NotSubmitted { index: 0, point }),
            Standing::Pending(fence) => Ok(Fence(Some(fence))),
            Standing::Reached => Ok(Fence::DONE),
        }
    }

    fn query(&self, object: &Object) -> Result<Progress> {
        let (reached, submitted) = object.0.query();
        Ok(Progress { reached, submitted })
    }

    fn wait(
        &self,
        entries: &[Entry<'_, Object>],
        what: WaitFor,
        deadline: Deadline,
    ) -> Result<Waited> {
        wait(entries, what, deadline)
    }

    fn export(&self, _object: &Object) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    fn import(&self, _fd: BorrowedFd<'_>) -> Result<Option<Object>> {
        Ok(None)
    }

    fn watch(&self, object: &Object, point: u64, available: bool, fd: OwnedFd) -> Result<()> {
        object
            .0
            .ring_when_ready(point, available, &Arc::new(ring::Ring::descriptor(fd)));
        Ok(())
    }
}
