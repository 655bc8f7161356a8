//! A wait of a thread: it looks, arms a node in each object's list, sleeps, and takes the nodes out again.

use std::mem::MaybeUninit;

use super::object::{self, Armed, Standing};
use super::wait::{Node, Waiter};
use super::{INLINE, Object};
use crate::error::{Error, Result};
use crate::provider::{Entry, WaitFor, Waited};
use crate::time::Deadline;

/// Waits on objects of this process. See [`Provider::wait`](crate::Provider::wait).
///
/// # Cost
///
/// No system call if nothing is to be waited for; one for each sleep. No allocation up to
/// [`INLINE`] objects.
///
/// # Errors
///
/// As [`Provider::wait`](crate::Provider::wait).
pub fn wait(entries: &[Entry<'_, Object>], what: WaitFor, deadline: Deadline) -> Result<Waited> {
    if let [entry] = entries
        && deadline > Deadline::POLL
    {
        return wait_for_one(entry, what, deadline);
    }
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
/// proposed fast path counted them). No list of nodes to walk, and the look is the arming: the
/// object's lock is taken once.
#[inline]
fn wait_for_one(entry: &Entry<'_, Object>, what: WaitFor, deadline: Deadline) -> Result<Waited> {
    if entry.object.0.is_known_reached(entry.point) {
        return Ok(Waited { first: Some(0) });
    }
    let waiter = Waiter::new(1);
    let one = OneNode {
        object: &entry.object.0,
        node: Node::new(&waiter, entry.point, what.available),
    };
    let first = match one.object.arm(&one.node, what.takes_absent()) {
        Armed::Ready => Some(0),
        Armed::Absent => {
            return Err(Error::NotSubmitted {
                index: 0,
                point: entry.point,
            });
        }
        Armed::Waiting => {
            waiter.sleep(deadline, what.interruptible, 1)?;
            (!what.all).then_some(0)
        }
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
    waiter.sleep(deadline, what.interruptible, entries.len())?;
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
