//! A helper thread that watches shared objects and fences for descriptors of this process, which
//! other processes cannot write to. It runs while there is something to watch.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::thread::futex;

use super::arena::Arena;
use super::fences::{Reap, SUCCESS, State};
use super::peers;
use super::{Held, Object};
use crate::error::{Error, Result};
use crate::local::ring::Ring;
use crate::payload::Standing;
use crate::prim::Lock;
use crate::time::Deadline;

/// Longest sleep before what was dropped is forgotten, and, with more to watch than one sleep takes,
/// before the rest is looked at. Signallers that die wake the thread themselves.
const LOOK_AROUND: Duration = Duration::from_millis(100);
const LOOK_AROUND_MANY: Duration = Duration::from_millis(2);
const WORDS_MAX: usize = 127;

/// What is watched.
#[derive(Debug)]
pub(crate) enum Watched {
    /// A point of an object that has no fence there yet.
    Point {
        object: Weak<Held>,
        point: u64,
        available: bool,
    },
    /// A fence.
    Fence { arena: Arc<Arena>, id: u64 },
}

/// What happens then.
#[derive(Debug)]
pub(crate) enum Then {
    Ring(Arc<Ring>),
    /// A fence of another arena ends likewise.
    End {
        arena: Arc<Arena>,
        id: u64,
    },
}

#[derive(Debug)]
struct Watch {
    watched: Watched,
    then: Then,
}

/// The list that the thread works on.
#[derive(Debug, Default)]
pub(crate) struct Bridge {
    state: Lock<List>,
    /// Grows when the list changes.
    control: AtomicU32,
}

#[derive(Debug, Default)]
struct List {
    watches: Vec<Watch>,
    /// Name of the process whose thread works: a child after a fork has none.
    runner: u64,
}

impl Bridge {
    /// Adds something to watch.
    pub(crate) fn watch(self: &Arc<Self>, watched: Watched, then: Then) -> Result<()> {
        let own = peers::own();
        let must_start = {
            let mut state = self.state.lock();
            state.watches.push(Watch { watched, then });
            std::mem::replace(&mut state.runner, own) != own
        };
        if must_start {
            let bridge = Arc::clone(self);
            let started = crate::quiet_thread::spawn("towpath-bridge", move || bridge.run());
            if let Err(source) = started {
                let mut state = self.state.lock();
                state.runner = 0;
                state.watches.clear();
                return Err(Error::System {
                    operation: "start a helper thread",
                    source,
                });
            }
        } else {
            self.control.fetch_add(1, Ordering::SeqCst);
            let _woken = futex::wake(&self.control, futex::Flags::PRIVATE, 1);
        }
        Ok(())
    }

    fn run(&self) {
        loop {
            let control = self.control.load(Ordering::SeqCst);
            let Some((is_idle, round)) = self.round() else {
                return;
            };
            if is_idle {
                sleep(&self.control, control, &round.waits);
            }
        }
    }

    /// Rings at once what is ready. Cost: a lock if nothing is watched, else a look at all of it.
    pub(crate) fn ring_ready(&self) {
        let mut state = self.state.lock();
        if !state.watches.is_empty() {
            state.look(Reap::No);
        }
    }

    /// Looks at everything once and does what is due. Returns whether nothing was, and what to sleep
    /// on; `None` when nothing is left to watch: the thread ends.
    fn round(&self) -> Option<(bool, Round)> {
        let mut state = self.state.lock();
        let answer = state.look(Reap::Watch);
        if state.watches.is_empty() {
            state.runner = 0;
            return None;
        }
        Some(answer)
    }
}

impl List {
    /// Looks at everything once and does what is due, under the lock: whoever looks next finds it
    /// done. Returns whether nothing was due.
    fn look(&mut self, reap: Reap) -> (bool, Round) {
        let mut round = Round::default();
        let watches = std::mem::take(&mut self.watches);
        self.watches = watches
            .into_iter()
            .filter_map(|watch| round.step(watch, reap))
            .collect();
        let ready = std::mem::take(&mut round.ready);
        let is_idle = ready.is_empty();
        act(ready);
        (is_idle, round)
    }
}

fn act(ready: Vec<(Watch, i32)>) {
    for (watch, status) in ready {
        match watch.then {
            Then::Ring(ring) => ring.ring(),
            Then::End { arena, id } => arena.end_fence(id, status),
        }
    }
}

/// A word counted as slept on; taken back when this goes.
struct Count {
    arena: Arc<Arena>,
    place: Place,
}

enum Place {
    Object(usize),
    Fence(usize),
}

impl Count {
    fn word(&self) -> Option<(&AtomicU32, &AtomicU32)> {
        match self.place {
            Place::Object(index) => self
                .arena
                .object(index)
                .map(|slot| (&slot.sequence, &slot.waiters)),
            Place::Fence(index) => self
                .arena
                .fence(index)
                .map(|slot| (&slot.word, &slot.waiters)),
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if let Some((_, waiters)) = self.word() {
            waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// What a round of looking found.
#[derive(Default)]
struct Round {
    ready: Vec<(Watch, i32)>,
    /// Addresses of words and the values seen there.
    waits: Vec<(usize, u32)>,
    counts: Vec<Count>,
}

impl Round {
    /// Looks at one watch: ready ones go to `ready`, those that nobody wants any more go, others stay.
    fn step(&mut self, mut watch: Watch, reap: Reap) -> Option<Watch> {
        if let Then::Ring(ring) = &watch.then
            && !ring.is_live()
        {
            return None;
        }
        if let Watched::Point {
            object,
            point,
            available,
        } = &watch.watched
        {
            let object = Object(object.upgrade()?);
            match self.look_at_point(&object, *point, *available) {
                // Rung as well, so that whoever sleeps on it finds out.
                Standing::Absent
                    if reap != Reap::No && object.is_forsaken(reap).unwrap_or(true) =>
                {
                    self.ready.push((watch, -libc::EOWNERDEAD));
                    return None;
                }
                Standing::Absent => return Some(watch),
                Standing::Pending(id) => {
                    watch.watched = Watched::Fence {
                        arena: Arc::clone(&object.0.arena),
                        id,
                    };
                }
                Standing::Reached => {
                    self.ready.push((watch, SUCCESS));
                    return None;
                }
            }
        }
        let Watched::Fence { arena, id } = &watch.watched else {
            return Some(watch);
        };
        match arena.fence_state(*id, reap) {
            State::Ended(status) => {
                self.ready.push((watch, status));
                return None;
            }
            State::Pending(slot, expected) => {
                slot.waiters.fetch_add(1, Ordering::SeqCst);
                self.waits
                    .push((slot.word.as_ptr().expose_provenance(), expected));
                let index = arena.index_of(slot);
                self.counts.push(Count {
                    arena: Arc::clone(arena),
                    place: Place::Fence(index),
                });
            }
        }
        Some(watch)
    }

    /// Where a point stands. Its object's word is counted as slept on before the look.
    fn look_at_point(&mut self, object: &Object, point: u64, available: bool) -> Standing<u64> {
        let (arena, index) = (Arc::clone(&object.0.arena), object.0.index);
        let count = Count {
            arena,
            place: Place::Object(index),
        };
        if let Some((word, waiters)) = count.word() {
            waiters.fetch_add(1, Ordering::SeqCst);
            let expected = word.load(Ordering::SeqCst);
            self.waits
                .push((word.as_ptr().expose_provenance(), expected));
        }
        self.counts.push(count);
        let standing = object.slot().and_then(|(arena, slot)| {
            arena.look(slot, |payload| match payload.standing(point) {
                Standing::Pending(fence) if !available => Standing::Pending(fence.id),
                Standing::Pending(_) | Standing::Reached => Standing::Reached,
                Standing::Absent => Standing::Absent,
            })
        });
        // Damage cannot be told by a bell; ringing it makes the owner look.
        standing.unwrap_or(Standing::Reached)
    }
}

/// Sleeps on the words and the control word; may return early.
fn sleep(control: &AtomicU32, seen: u32, words: &[(usize, u32)]) {
    let span = if words.len() > WORDS_MAX {
        LOOK_AROUND_MANY
    } else {
        LOOK_AROUND
    };
    let mut waits = vec![futex::Wait::new(); words.len().min(WORDS_MAX) + 1];
    for (wait, (address, expected)) in waits.iter_mut().zip(words) {
        wait.val = u64::from(*expected);
        wait.uaddr = futex::WaitPtr::new(std::ptr::with_exposed_provenance_mut(*address));
        wait.flags = futex::WaitFlags::SIZE_U32;
    }
    if let Some(last) = waits.last_mut() {
        last.val = u64::from(seen);
        last.uaddr = futex::WaitPtr::new(control.as_ptr().cast());
        last.flags = futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE;
    }
    // The answer does not matter: the next round looks at everything.
    let _answer = futex::waitv(
        &waits,
        futex::WaitvFlags::empty(),
        Deadline::after(span).timespec().as_ref(),
        futex::ClockId::Monotonic,
    );
}
