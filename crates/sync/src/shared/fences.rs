//! Fences of an arena, by 64-bit number: index and generation. A number whose generation is over
//! names a fence that has ended, so nobody counts references: a raw fence lives until its signaller
//! ends it (or is found dead), a joined one until its parts have ended.

use std::sync::atomic::Ordering;

use super::arena::Arena;
use super::layout::{CLAIMED, ENDED, FENCES, FREE, FenceSlot, JOINED, PENDING, STATE_MASK};
use super::peers;
use crate::error::{Error, Result};
use crate::payload::FenceLike;

/// The status of a fence that ended well.
pub(crate) const SUCCESS: i32 = 1;
/// No fence: done.
pub(crate) const NONE: u64 = 0;

/// A fence number and its arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FenceRef<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) id: u64,
}

/// Whether raw fences of processes that are gone end when they are looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reap {
    /// No: nothing but memory is looked at.
    No,
    /// The process is looked at: a system call.
    Look,
    /// The process is looked at and watched from then on, see [`Peers::watch`](super::peers::Peers).
    Watch,
}

/// Where a fence stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State<'a> {
    /// Ended, with a status.
    Ended(i32),
    /// A raw fence, this one or a part of it, has not ended: its slot and the word seen.
    Pending(&'a FenceSlot, u32),
}

impl FenceLike for FenceRef<'_> {
    fn is_done(&self) -> bool {
        matches!(self.arena.fence_state(self.id, Reap::No), State::Ended(_))
    }

    fn join(&self, other: &Self) -> Result<Self> {
        if self.is_done() {
            return Ok(*other);
        }
        if other.is_done() || other.id == self.id {
            return Ok(*self);
        }
        let id = self.arena.new_fence(JOINED, 0, self.id, other.id)?;
        Ok(Self {
            arena: self.arena,
            id,
        })
    }
}

fn id_of(index: usize, word: u32) -> u64 {
    (u64::from(word & !STATE_MASK) << 29) | (index as u64 + 1)
}

impl Arena {
    /// The slot of a fence number and its word, if its generation is not over.
    fn live(&self, id: u64) -> Option<(&FenceSlot, u32)> {
        let index = usize::try_from(id & u64::from(u32::MAX))
            .ok()?
            .checked_sub(1)?;
        let slot = self.fence(index)?;
        // Acquire: pairs with the release that ended or filled it.
        let word = slot.word.load(Ordering::Acquire);
        (id_of(index, word) == id).then_some((slot, word))
    }

    /// Where a fence stands. By `reap`, raw fences whose signaller is gone end with `EOWNERDEAD`.
    pub(crate) fn fence_state(&self, id: u64, reap: Reap) -> State<'_> {
        let mut stack = vec_of(id);
        let mut status = SUCCESS;
        // A chain visits each fence once; more is a circle that somebody scribbled.
        for _step in 0..4 * FENCES {
            let Some(id) = stack.pop() else { break };
            let Some((slot, word)) = self.live(id) else {
                continue;
            };
            match word & STATE_MASK {
                PENDING => {
                    let owner = slot.owner.load(Ordering::Relaxed);
                    let is_alive = match reap {
                        Reap::No => true,
                        Reap::Look => self.peers.is_alive(owner),
                        Reap::Watch => self.peers.watch(owner, self),
                    };
                    if is_alive {
                        return State::Pending(slot, word);
                    }
                    self.end_fence(id, -libc::EOWNERDEAD);
                    status = -libc::EOWNERDEAD;
                }
                JOINED => {
                    stack.push(slot.first.load(Ordering::Relaxed));
                    // The newer part last, so that it is looked at first: in the usual order it
                    // ends last, and one sleep is enough.
                    stack.push(slot.second.load(Ordering::Relaxed));
                }
                ENDED => {
                    let ended = slot.status.load(Ordering::Relaxed);
                    status = if ended < 0 { ended } else { status };
                }
                _ => {}
            }
        }
        if let Some((_, word)) = self.live(id)
            && word & STATE_MASK == JOINED
        {
            self.end_fence(id, status);
        }
        State::Ended(status)
    }

    /// Makes a fence. Cost: a search that usually ends at once.
    pub(crate) fn new_fence(&self, state: u32, owner: u64, first: u64, second: u64) -> Result<u64> {
        let start = self.header().cursor.fetch_add(1, Ordering::Relaxed) as usize;
        for reap in [false, true] {
            for step in 0..FENCES {
                let index = start.wrapping_add(step) % FENCES;
                if let Some(id) = self.claim(index, reap, state, owner, first, second) {
                    return Ok(id);
                }
            }
        }
        Err(Error::Full { what: "fence" })
    }

    fn claim(
        &self,
        index: usize,
        reap: bool,
        state: u32,
        owner: u64,
        first: u64,
        second: u64,
    ) -> Option<u64> {
        let slot = self.fence(index)?;
        let mut word = slot.word.load(Ordering::Acquire);
        if reap && matches!(word & STATE_MASK, PENDING | JOINED) {
            let _state = self.fence_state(id_of(index, word), Reap::Look);
            word = slot.word.load(Ordering::Acquire);
        }
        if !matches!(word & STATE_MASK, FREE | ENDED) {
            return None;
        }
        let next = (word & !STATE_MASK).wrapping_add(STATE_MASK + 1);
        slot.word
            .compare_exchange(word, next | CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        slot.owner.store(owner, Ordering::Relaxed);
        slot.first.store(first, Ordering::Relaxed);
        slot.second.store(second, Ordering::Relaxed);
        slot.status.store(0, Ordering::Relaxed);
        // Release: pairs with the acquire in `live`.
        slot.word.store(next | state, Ordering::Release);
        Some(id_of(index, next))
    }

    /// Ends the raw fences of a process that is gone.
    pub(crate) fn end_fences_of(&self, name: u64) {
        for index in 0..FENCES {
            let Some(slot) = self.fence(index) else { break };
            let word = slot.word.load(Ordering::Acquire);
            if word & STATE_MASK == PENDING && slot.owner.load(Ordering::Relaxed) == name {
                self.end_fence(id_of(index, word), -libc::EOWNERDEAD);
            }
        }
    }

    /// The number of a slot of this arena.
    pub(crate) fn index_of(&self, slot: &FenceSlot) -> usize {
        (0..FENCES)
            .find(|index| {
                self.fence(*index)
                    .is_some_and(|other| std::ptr::eq(other, slot))
            })
            .unwrap_or(0)
    }

    /// A raw fence that this process ends.
    pub(crate) fn raw_fence(&self) -> Result<u64> {
        self.new_fence(PENDING, peers::own(), NONE, NONE)
    }

    /// Ends a fence, once. Cost: a system call if somebody sleeps on it.
    pub(crate) fn end_fence(&self, id: u64, status: i32) {
        let Some((slot, word)) = self.live(id) else {
            return;
        };
        if !matches!(word & STATE_MASK, PENDING | JOINED) {
            return;
        }
        slot.status.store(status, Ordering::Relaxed);
        let ended = (word & !STATE_MASK) | ENDED;
        if slot
            .word
            .compare_exchange(word, ended, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            self.wake(&slot.word, &slot.waiters);
        }
    }
}

/// A small stack of fence numbers.
fn vec_of(id: u64) -> SmallStack {
    let mut stack = SmallStack {
        ids: [0; 32],
        used: 0,
        spilled: Vec::new(),
    };
    stack.push(id);
    stack
}

struct SmallStack {
    ids: [u64; 32],
    used: usize,
    spilled: Vec<u64>,
}

impl SmallStack {
    fn push(&mut self, id: u64) {
        if id == NONE {
            return;
        }
        match self.ids.get_mut(self.used) {
            Some(slot) => {
                *slot = id;
                self.used += 1;
            }
            None => self.spilled.push(id),
        }
    }

    fn pop(&mut self) -> Option<u64> {
        if let Some(id) = self.spilled.pop() {
            return Some(id);
        }
        self.used = self.used.checked_sub(1)?;
        self.ids.get(self.used).copied()
    }
}
