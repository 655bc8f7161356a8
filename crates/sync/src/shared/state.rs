//! An object's payload in its slot: read, changed by the rules of [`Payload`], written as a second
//! copy and made the one that holds by one store, so that a process killed at any moment leaves the
//! payload as it was before or after the change.

use std::sync::atomic::Ordering;

use super::arena::Arena;
use super::fences::{FenceRef, NONE};
use super::layout::{Copy, ObjectSlot, TAIL};
use crate::error::{Error, Result};
use crate::payload::{Payload, Tail, Timeline};

const EMPTY: u32 = 0;
const SIGNALED: u32 = 1;
const FENCE: u32 = 2;
const TIMELINE: u32 = 3;

impl Arena {
    /// Looks at a payload under its lock.
    pub(crate) fn look<'a, T>(
        &'a self,
        slot: &'a ObjectSlot,
        look: impl FnOnce(&mut Payload<FenceRef<'a>>) -> T,
    ) -> Result<T> {
        let _guard = Self::lock(slot)?;
        let mut payload = self.load(slot)?;
        let answer = look(&mut payload);
        publish(slot, &payload);
        Ok(answer)
    }

    /// Changes a payload under its lock, then wakes those who wait for a change. Failed, nothing is
    /// changed.
    pub(crate) fn change<'a>(
        &'a self,
        slot: &'a ObjectSlot,
        change: impl FnOnce(&mut Payload<FenceRef<'a>>) -> Result<()>,
    ) -> Result<()> {
        {
            let _guard = Self::lock(slot)?;
            let mut payload = self.load(slot)?;
            change(&mut payload)?;
            store(slot, &payload)?;
            publish(slot, &payload);
        }
        slot.sequence.fetch_add(1, Ordering::SeqCst);
        self.wake(&slot.sequence, &slot.waiters);
        Ok(())
    }

    fn load(&self, slot: &ObjectSlot) -> Result<Payload<FenceRef<'_>>> {
        let current = slot.current.load(Ordering::Relaxed);
        let copy = if current == 0 {
            &slot.copies[0]
        } else {
            &slot.copies[1]
        };
        let fence = |id| FenceRef { arena: self, id };
        Ok(match copy.kind.load(Ordering::Relaxed) {
            EMPTY => Payload::Empty,
            SIGNALED => Payload::Signaled,
            FENCE => Payload::Fence(fence(copy.fence.load(Ordering::Relaxed))),
            TIMELINE => Payload::Timeline(Timeline {
                submitted: copy.submitted.load(Ordering::Relaxed),
                tail: copy
                    .tail
                    .iter()
                    .take(usize::try_from(copy.count.load(Ordering::Relaxed)).unwrap_or(0))
                    .map(|tail| Tail {
                        point: tail.point.load(Ordering::Relaxed),
                        previous: tail.previous.load(Ordering::Relaxed),
                        fence: fence(tail.fence.load(Ordering::Relaxed)),
                    })
                    .collect(),
            }),
            _ => {
                return Err(Error::Damaged {
                    what: "an object of no kind",
                });
            }
        })
    }
}

fn store(slot: &ObjectSlot, payload: &Payload<FenceRef<'_>>) -> Result<()> {
    let next = u32::from(slot.current.load(Ordering::Relaxed) == 0);
    let copy = if next == 0 {
        &slot.copies[0]
    } else {
        &slot.copies[1]
    };
    let kind = match payload {
        Payload::Empty => EMPTY,
        Payload::Signaled => SIGNALED,
        Payload::Fence(fence) => {
            copy.fence.store(fence.id, Ordering::Relaxed);
            FENCE
        }
        Payload::Timeline(timeline) => {
            store_timeline(copy, timeline)?;
            TIMELINE
        }
    };
    copy.kind.store(kind, Ordering::Relaxed);
    // Release: whoever takes the lock over from us, dead, sees the copy that this names.
    slot.current.store(next, Ordering::Release);
    Ok(())
}

fn store_timeline(copy: &Copy, timeline: &Timeline<FenceRef<'_>>) -> Result<()> {
    let count = timeline.tail.len();
    if count > TAIL {
        return Err(Error::Full {
            what: "pending point",
        });
    }
    copy.submitted.store(timeline.submitted, Ordering::Relaxed);
    copy.fence.store(NONE, Ordering::Relaxed);
    copy.count
        .store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
    for (slot, tail) in copy.tail.iter().zip(&timeline.tail) {
        slot.point.store(tail.point, Ordering::Relaxed);
        slot.previous.store(tail.previous, Ordering::Relaxed);
        slot.fence.store(tail.fence.id, Ordering::Relaxed);
    }
    Ok(())
}

/// Repeats in the words outside the lock what is done.
fn publish(slot: &ObjectSlot, payload: &Payload<FenceRef<'_>>) {
    let (reached, is_signaled) = payload.done();
    // Release: pairs with the acquire in `is_known_reached`.
    slot.reached.store(reached, Ordering::Release);
    slot.is_signaled
        .store(u32::from(is_signaled), Ordering::Release);
}
