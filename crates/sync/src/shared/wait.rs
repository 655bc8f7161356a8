//! Waits on shared objects: one `futex_waitv` over the words of what is missing, or a plain futex if it
//! is one word.
//!
//! An object whose point has no fence yet is slept on by its sequence word, a fence by its own word.
//! Before it sleeps, the processes that should end these fences or signal these objects are watched: the
//! hang-up of one ends its fences, moves these words and so wakes the sleeper at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex::{self, WaitFlags, WaitPtr};

use super::Object;
use super::arena::Arena;
use super::fences::{Reap, State};
use crate::asleep;
use crate::error::{Error, Result};
use crate::inline::Inline;
use crate::payload::Standing;
use crate::prim::wait_restarted;
use crate::provider::{Entry, WaitFor, Waited};
use crate::time::Deadline;

/// Longest sleep where a process cannot be watched.
const LOOK_AROUND: Duration = Duration::from_millis(100);
/// Words of one `futex_waitv`, the kernel's limit.
const WORDS_MAX: usize = 128;
/// Objects that a wait holds in its own frame, and words: an object may have one of its own and its
/// fence's. Most waits are on few, and room that is not there need not be written.
const FEW: usize = 4;
const FEW_WORDS: usize = 2 * FEW;
const INLINE: usize = 64;
const INLINE_WORDS: usize = 2 * INLINE;

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
    if let Some(waited) = known(entries, what)? {
        return Ok(waited);
    }
    if entries.len() == 1 {
        wait_within::<1, 1>(entries, what, deadline)
    } else if entries.len() <= FEW {
        wait_within::<FEW, FEW_WORDS>(entries, what, deadline)
    } else {
        wait_within::<INLINE, INLINE_WORDS>(entries, what, deadline)
    }
}

/// The answer, if points that are known to be done are enough for it.
fn known(entries: &[Entry<'_, Object>], what: WaitFor) -> Result<Option<Waited>> {
    let mut first = None;
    let mut count = 0;
    for (index, entry) in entries.iter().enumerate() {
        if entry.object.is_known_reached(entry.point)? {
            first = first.or(Some(index));
            count += 1;
        }
    }
    // On any, the others are looked at too: one never submitted is an error in the kernel, and one
    // before it that is ready is the first.
    let is_any = !what.all && what.takes_absent() && first == Some(0);
    let is_enough = count == entries.len() || is_any;
    Ok(is_enough.then_some(Waited { first }))
}

fn wait_within<const OBJECTS: usize, const WORDS: usize>(
    entries: &[Entry<'_, Object>],
    what: WaitFor,
    deadline: Deadline,
) -> Result<Waited> {
    let mut seen = Inline::<Seen, OBJECTS>::new(Seen::Ready);
    for _ in entries {
        seen.push(Seen::Absent);
    }
    let mut words = Inline::<Option<Word<'_>>, WORDS>::new(None);
    let mut is_first_look = true;
    let mut first_of_all = None;
    loop {
        let counted = Counted::new(entries, &mut seen, what, &mut words)?;
        let is_ready = |seen: &Seen| matches!(seen, Seen::Ready);
        let lowest = seen.as_slice().iter().position(is_ready);
        if is_first_look {
            first_of_all = lowest;
        }
        let ready = seen.as_slice().iter().filter(|seen| is_ready(seen)).count();
        if ready == entries.len() || (ready > 0 && !what.all) {
            let first = if what.all { first_of_all } else { lowest };
            return Ok(Waited { first });
        }
        if let Some(index) = counted.dead {
            return Err(Error::SignallerDead { index });
        }
        if deadline.has_passed() {
            return Err(Error::TimedOut {
                objects: entries.len(),
            });
        }
        watch(entries, seen.as_slice())?;
        let is_interrupted = counted.sleep::<WORDS>(deadline, what.interruptible);
        is_first_look = false;
        drop(counted);
        if let Some(waited) = known(entries, what)? {
            let first = if what.all { first_of_all } else { waited.first };
            return Ok(Waited { first });
        }
        if is_interrupted && what.interruptible {
            return Err(Error::Interrupted);
        }
    }
}

/// Watches the processes by which the missing ones would become ready, after their words were read.
fn watch(entries: &[Entry<'_, Object>], seen: &[Seen]) -> Result<()> {
    for (index, (entry, seen)) in entries.iter().zip(seen).enumerate() {
        let is_lost = match seen {
            Seen::Ready => false,
            Seen::Absent => entry.object.is_forsaken(Reap::Watch)?,
            Seen::Fence(id) => {
                let (arena, _) = entry.object.slot()?;
                matches!(arena.fence_state(*id, Reap::Watch), State::Ended(DEAD))
            }
        };
        if is_lost {
            return Err(Error::SignallerDead { index });
        }
    }
    Ok(())
}

/// The status of a fence whose process is gone.
const DEAD: i32 = -libc::EOWNERDEAD;

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
    /// The first entry whose fence ended since its process is gone.
    dead: Option<usize>,
}

impl<'w, 'a> Counted<'w, 'a> {
    /// Looks at what is missing, counting each word as slept on before the look: whoever changes it
    /// after the look sees the count, whoever changed it before is seen.
    fn new<const OBJECTS: usize, const WORDS: usize>(
        entries: &[Entry<'a, Object>],
        seen: &mut Inline<Seen, OBJECTS>,
        what: WaitFor,
        words: &'w mut Inline<Option<Word<'a>>, WORDS>,
    ) -> Result<Self> {
        words.clear();
        let mut outcome = Ok(());
        let mut dead = None;
        for (index, (entry, seen)) in entries.iter().zip(seen.as_mut_slice()).enumerate() {
            match step(entry, seen, what, words) {
                Ok(Stepped::On) => {}
                Ok(Stepped::Dead) => dead = dead.or(Some(index)),
                Ok(Stepped::NotSubmitted) => {
                    let point = entry.point;
                    outcome = Err(Error::NotSubmitted { index, point });
                }
                Err(error) => outcome = Err(error),
            }
            if outcome.is_err() {
                break;
            }
        }
        let counted = Self {
            words: words.as_slice(),
            dead,
        };
        outcome.map(|()| counted)
    }

    /// Sleeps; may return early. Returns whether a signal ended the sleep, which only an `interruptible`
    /// one need tell truly.
    fn sleep<const WORDS: usize>(&self, deadline: Deadline, interruptible: bool) -> bool {
        let words = || self.words.iter().flatten();
        let until = if words().any(|word| word.arena.peers.is_blind()) {
            deadline.min(Deadline::after(LOOK_AROUND))
        } else {
            deadline
        };
        // Else the answer does not matter: the caller looks at the words and at the clock again.
        let sleep = || {
            if let [Some(word)] = self.words {
                sleep_on_one(word, until, interruptible)
            } else if self.words.len() < WORDS_MAX {
                let mut waits = Inline::<futex::Wait, WORDS>::new(futex::Wait::new());
                for word in words() {
                    waits.push(wait_of(word.futex, word.expected));
                }
                wait_restarted(waits.as_slice(), until)
            } else {
                sleep_on_groups(words(), until)
            }
        };
        let answer = if interruptible {
            asleep::during(sleep)
        } else {
            sleep()
        };
        answer == Err(rustix::io::Errno::INTR)
    }
}

impl Drop for Counted<'_, '_> {
    fn drop(&mut self) {
        for word in self.words.iter().flatten() {
            word.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// What became of one entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stepped {
    On,
    /// Its fence ended since its process is gone.
    Dead,
    /// It has no fence, and the wait is not for one.
    NotSubmitted,
}

fn step<'a, const WORDS: usize>(
    entry: &Entry<'a, Object>,
    seen: &mut Seen,
    what: WaitFor,
    words: &mut Inline<Option<Word<'a>>, WORDS>,
) -> Result<Stepped> {
    let (arena, slot) = entry.object.slot()?;
    if matches!(seen, Seen::Absent) {
        slot.waiters.fetch_add(1, Ordering::SeqCst);
        let expected = slot.sequence.load(Ordering::SeqCst);
        let now = look(entry, what);
        if matches!(now, Ok(Seen::Absent)) && what.takes_absent() {
            words.push(Some(Word {
                futex: &slot.sequence,
                waiters: &slot.waiters,
                expected,
                arena,
            }));
            return Ok(Stepped::On);
        }
        slot.waiters.fetch_sub(1, Ordering::SeqCst);
        *seen = now?;
        if matches!(seen, Seen::Absent) {
            return Ok(Stepped::NotSubmitted);
        }
    }
    let Seen::Fence(id) = *seen else {
        return Ok(Stepped::On);
    };
    match arena.fence_state(id, Reap::No) {
        State::Ended(DEAD) => return Ok(Stepped::Dead),
        State::Ended(_) => *seen = Seen::Ready,
        State::Pending(fence, expected) => {
            // The word itself says whether the fence has ended, so it need not be looked at again.
            fence.waiters.fetch_add(1, Ordering::SeqCst);
            words.push(Some(Word {
                futex: &fence.word,
                waiters: &fence.waiters,
                expected,
                arena,
            }));
        }
    }
    Ok(Stepped::On)
}

fn wait_of(word: &AtomicU32, expected: u32) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = u64::from(expected);
    wait.uaddr = WaitPtr::new(word.as_ptr().cast());
    wait.flags = WaitFlags::SIZE_U32;
    wait
}

/// One word: the kernel allocates nothing for it, unless a signal is to end the sleep (see
/// [`wait_restarted`]).
fn sleep_on_one(
    word: &Word<'_>,
    deadline: Deadline,
    interruptible: bool,
) -> rustix::io::Result<()> {
    if interruptible && deadline != Deadline::NEVER {
        return wait_restarted(&[wait_of(word.futex, word.expected)], deadline);
    }
    let timeout = deadline.timespec();
    // Of the two calls with a timeout this one takes it as an absolute CLOCK_MONOTONIC time.
    futex::wait_bitset(
        word.futex,
        futex::Flags::empty(),
        word.expected,
        timeout.as_ref(),
        std::num::NonZeroU32::MAX,
    )
}

/// More words than one sleep takes: sleeps on the event word of each arena, which grows with every
/// change while somebody does this.
fn sleep_on_groups<'a>(
    words: impl Iterator<Item = &'a Word<'a>>,
    deadline: Deadline,
) -> rustix::io::Result<()> {
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
        Ok(())
    } else {
        wait_restarted(&waits, deadline)
    };
    for arena in arenas.iter().take(WORDS_MAX) {
        arena.header().group_waiters.fetch_sub(1, Ordering::SeqCst);
    }
    answer
}
