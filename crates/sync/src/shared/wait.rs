//! Waits on shared objects: one `futex_waitv` over the words of what is missing.
//!
//! An object whose point has no fence yet is slept on by its sequence word, a fence by its own word.
//! Before it sleeps, the processes that should end these fences or signal these objects are watched: the
//! hang-up of one ends its fences, moves these words and so wakes the sleeper at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex::{self, WaitFlags, WaitPtr, WaitvFlags};

use super::Object;
use super::arena::Arena;
use super::fences::{Reap, State};
use crate::error::{Error, Result};
use crate::inline::Inline;
use crate::payload::Standing;
use crate::provider::{Entry, WaitFor, Waited};
use crate::time::Deadline;

/// Longest sleep where a process cannot be watched.
const LOOK_AROUND: Duration = Duration::from_millis(100);
/// Words of one `futex_waitv`, the kernel's limit.
const WORDS_MAX: usize = 128;
/// Objects that a wait holds in its own frame.
const INLINE: usize = 64;

/// What is known of one entry.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// No fence when last looked at.
    Absent,
    /// The fence that this wait keeps.
    Fence(u64),
    Ready,
}

/// A word to sleep on.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    futex: &'a AtomicU32,
    waiters: &'a AtomicU32,
    expected: u32,
    arena: &'a Arena,
}

/// Waits on shared objects. See [`Provider::wait`](crate::Provider::wait).
pub(crate) fn wait(
    entries: &[Entry<'_, Object>],
    what: WaitFor,
    deadline: Deadline,
) -> Result<Waited> {
    let mut seen = Inline::<Seen, INLINE>::new(Seen::Ready);
    let mut first = None;
    for (index, entry) in entries.iter().enumerate() {
        let now = look(entry, what)?;
        match now {
            Seen::Absent if !what.takes_absent() => {
                return Err(Error::NotSubmitted {
                    index,
                    point: entry.point,
                });
            }
            Seen::Ready => first = first.or(Some(index)),
            Seen::Absent | Seen::Fence(_) => {}
        }
        seen.push(now);
    }
    let mut words = Inline::<Option<Word<'_>>, INLINE>::new(None);
    // A wait that does not sleep needs nobody watched.
    let reap = if deadline.has_passed() {
        Reap::No
    } else {
        Reap::Watch
    };
    loop {
        let counted = Counted::new(entries, &mut seen, what, reap, &mut words)?;
        let ready = seen
            .as_slice()
            .iter()
            .filter(|seen| matches!(seen, Seen::Ready))
            .count();
        if ready == entries.len() || (ready > 0 && !what.all) {
            let lowest = seen
                .as_slice()
                .iter()
                .position(|seen| matches!(seen, Seen::Ready));
            let first = if what.all { first } else { lowest };
            return Ok(Waited { first });
        }
        if deadline.has_passed() {
            return Err(Error::TimedOut {
                objects: entries.len(),
            });
        }
        counted.sleep(deadline);
    }
}

fn look(entry: &Entry<'_, Object>, what: WaitFor) -> Result<Seen> {
    let object = entry.object;
    if object.is_known_reached(entry.point)? {
        return Ok(Seen::Ready);
    }
    let (arena, slot) = object.slot()?;
    arena.look(slot, |payload| match payload.standing(entry.point) {
        Standing::Absent => Seen::Absent,
        Standing::Pending(_) if what.available => Seen::Ready,
        Standing::Pending(fence) => Seen::Fence(fence.id),
        Standing::Reached => Seen::Ready,
    })
}

/// Words counted as slept on; taken back when this goes.
struct Counted<'w, 'a> {
    words: &'w [Option<Word<'a>>],
}

impl<'w, 'a> Counted<'w, 'a> {
    /// Looks again at what is missing, counting each word as slept on before the look: whoever
    /// changes it after the look sees the count, whoever changed it before is seen.
    fn new(
        entries: &[Entry<'a, Object>],
        seen: &mut Inline<Seen, INLINE>,
        what: WaitFor,
        reap: Reap,
        words: &'w mut Inline<Option<Word<'a>>, INLINE>,
    ) -> Result<Self> {
        words.clear();
        let mut outcome = Ok(());
        for (index, (entry, seen)) in entries.iter().zip(seen.as_mut_slice()).enumerate() {
            outcome = step(index, entry, seen, what, reap, words);
            if outcome.is_err() {
                break;
            }
        }
        let counted = Self {
            words: words.as_slice(),
        };
        outcome.map(|()| counted)
    }

    /// Sleeps; may return early.
    fn sleep(&self, deadline: Deadline) {
        let words = || self.words.iter().flatten();
        let until = if words().any(|word| word.arena.peers.is_blind()) {
            deadline.min(Deadline::after(LOOK_AROUND))
        } else {
            deadline
        };
        // The answer does not matter: the caller looks at the words and at the clock again.
        let _answer = if self.words.len() < WORDS_MAX {
            let mut waits = Inline::<futex::Wait, INLINE>::new(futex::Wait::new());
            for word in words() {
                waits.push(wait_of(word.futex, word.expected));
            }
            sleep_on(waits.as_slice(), until)
        } else {
            sleep_on_groups(words(), until)
        };
    }
}

impl Drop for Counted<'_, '_> {
    fn drop(&mut self) {
        for word in self.words.iter().flatten() {
            word.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn step<'a>(
    index: usize,
    entry: &Entry<'a, Object>,
    seen: &mut Seen,
    what: WaitFor,
    reap: Reap,
    words: &mut Inline<Option<Word<'a>>, INLINE>,
) -> Result<()> {
    let (arena, slot) = entry.object.slot()?;
    if matches!(seen, Seen::Absent) {
        slot.waiters.fetch_add(1, Ordering::SeqCst);
        let expected = slot.sequence.load(Ordering::SeqCst);
        let word = Word {
            futex: &slot.sequence,
            waiters: &slot.waiters,
            expected,
            arena,
        };
        words.push(Some(word));
        *seen = look(entry, what)?;
        if matches!(seen, Seen::Absent) && reap != Reap::No && entry.object.is_forsaken(reap)? {
            return Err(Error::SignallerDead { index });
        }
    }
    if let Seen::Fence(id) = *seen {
        match arena.fence_state(id, reap) {
            State::Ended(status) if status == -libc::EOWNERDEAD => {
                return Err(Error::SignallerDead { index });
            }
            State::Ended(_) => *seen = Seen::Ready,
            State::Pending(fence, expected) => {
                // The word itself says whether the fence has ended, so it need not be looked at again.
                fence.waiters.fetch_add(1, Ordering::SeqCst);
                let word = Word {
                    futex: &fence.word,
                    waiters: &fence.waiters,
                    expected,
                    arena,
                };
                words.push(Some(word));
            }
        }
    }
    Ok(())
}

fn wait_of(word: &AtomicU32, expected: u32) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = u64::from(expected);
    wait.uaddr = WaitPtr::new(word.as_ptr().cast());
    wait.flags = WaitFlags::SIZE_U32;
    wait
}

fn sleep_on(waits: &[futex::Wait], deadline: Deadline) -> rustix::io::Result<usize> {
    let timeout = deadline.timespec();
    futex::waitv(
        waits,
        WaitvFlags::empty(),
        timeout.as_ref(),
        futex::ClockId::Monotonic,
    )
}

/// More words than one sleep takes: sleeps on the event word of each arena, which grows with every
/// change while somebody does this.
fn sleep_on_groups<'a>(
    words: impl Iterator<Item = &'a Word<'a>>,
    deadline: Deadline,
) -> rustix::io::Result<usize> {
    let words: Vec<&Word<'_>> = words.collect();
    let mut arenas: Vec<&Arena> = Vec::new();
    for word in &words {
        if !arenas.iter().any(|arena| std::ptr::eq(*arena, word.arena)) {
            arenas.push(word.arena);
        }
    }
    let waits: Vec<futex::Wait> = arenas
        .iter()
        .take(WORDS_MAX)
        .map(|arena| {
            let header = arena.header();
            header.group_waiters.fetch_add(1, Ordering::SeqCst);
            wait_of(&header.events, header.events.load(Ordering::SeqCst))
        })
        .collect();
    // A word that changed before we were counted did not move the event word.
    let changed = words
        .iter()
        .any(|word| word.futex.load(Ordering::SeqCst) != word.expected);
    let answer = if changed {
        Ok(0)
    } else {
        sleep_on(&waits, deadline)
    };
    for arena in arenas.iter().take(WORDS_MAX) {
        arena.header().group_waiters.fetch_sub(1, Ordering::SeqCst);
    }
    answer
}
