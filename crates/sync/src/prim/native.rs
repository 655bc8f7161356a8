//! The machine's primitives: std atomics, a small lock, the futex.
#![expect(
    unsafe_code,
    reason = "the lock's cell; wake-ups by an address that may be gone"
)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::asleep;
use crate::time::Deadline;

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic;

use atomic::{AtomicU32, Ordering};

/// A lock for a few dozen instructions: one read-modify-write to take, a plain store to give back.
///
/// Nobody sleeps, allocates much or enters the kernel while holding it, but its holder may be
/// scheduled away, so a taker that spun in vain yields, then sleeps in short steps (yielding alone
/// would never let a holder of lower real-time priority run).
#[derive(Debug, Default)]
pub(crate) struct Lock<T> {
    taken: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `lock` gives out one guard at a time: it is made only after the word went from 0 to 1.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: moving the lock moves the value, which may be sent.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            taken: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // Acquire: pairs with the release in `Guard::drop`.
        if self.taken.swap(1, Ordering::Acquire) != 0 {
            self.contended();
        }
        Guard { lock: self }
    }

    #[cold]
    fn contended(&self) {
        let mut round = 0_u32;
        loop {
            // Relaxed: the swap below is what orders.
            while self.taken.load(Ordering::Relaxed) != 0 {
                match round {
                    0..128 => std::hint::spin_loop(),
                    128..160 => std::thread::yield_now(),
                    _ => std::thread::sleep(std::time::Duration::from_micros(50)),
                }
                round = round.saturating_add(1);
            }
            if self.taken.swap(1, Ordering::Acquire) == 0 {
                return;
            }
        }
    }
}

/// The right to a [`Lock`]'s value.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the word is ours.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists only while the word is ours, and is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was written under the lock is seen by the next taker.
        self.lock.taken.store(0, Ordering::Release);
    }
}

/// A word that one thread sleeps on.
#[derive(Debug, Default)]
pub(crate) struct Futex {
    word: AtomicU32,
}

impl Futex {
    pub(crate) const fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
        }
    }

    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps while the word is `expected`, until `deadline` or a wake-up. May return early. Returns
    /// whether a signal ended the sleep, which only an `interruptible` one need tell truly.
    ///
    /// Cost: one system call.
    pub(crate) fn wait(&self, expected: u32, deadline: Deadline, interruptible: bool) -> bool {
        use rustix::thread::futex;
        if interruptible && deadline != Deadline::NEVER {
            let mut word = futex::Wait::new();
            word.val = u64::from(expected);
            word.uaddr = futex::WaitPtr::new(self.word.as_ptr().cast());
            word.flags = futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE;
            return is_interrupted(asleep::during(|| wait_restarted(&[word], deadline)));
        }
        if interruptible {
            return is_interrupted(asleep::during(|| self.sleep(expected, deadline)));
        }
        is_interrupted(self.sleep(expected, deadline))
    }

    fn sleep(&self, expected: u32, deadline: Deadline) -> rustix::io::Result<()> {
        use rustix::thread::futex;
        let timeout = deadline.timespec();
        // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time; FUTEX_WAIT a relative one.
        // Else the answer does not matter: the caller looks at the word and at the clock again.
        futex::wait_bitset(
            &self.word,
            futex::Flags::PRIVATE,
            expected,
            timeout.as_ref(),
            std::num::NonZeroU32::MAX,
        )
    }

    /// What wakes the sleeper later, even if the word is gone by then.
    pub(crate) fn token(&self) -> Token {
        Token(std::ptr::from_ref(&self.word).expose_provenance())
    }
}

/// Sleeps on words in the one call that goes on after a handler with `SA_RESTART` though it has a
/// deadline: a futex of its own answers `EINTR` then. Linux 5.16; before, the sleep ends at once.
pub(crate) fn wait_restarted(
    words: &[rustix::thread::futex::Wait],
    deadline: Deadline,
) -> rustix::io::Result<()> {
    let timeout = deadline.timespec();
    rustix::thread::futex::waitv(
        words,
        rustix::thread::futex::WaitvFlags::empty(),
        timeout.as_ref(),
        rustix::thread::futex::ClockId::Monotonic,
    )
    .map(drop)
}

fn is_interrupted(answer: rustix::io::Result<()>) -> bool {
    answer == Err(rustix::io::Errno::INTR)
}

/// The address of a sleeper's word.
///
/// FUTEX_WAKE neither reads nor writes the word. The sleeper may have left, its stack may hold
/// something else, the page may be gone: then at worst an unrelated sleeper wakes for nothing, which
/// every futex user must bear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token(usize);

impl Token {
    /// Cost: one system call.
    pub(crate) fn wake(self) {
        // SAFETY: FUTEX_WAKE takes the address as a key and touches no memory of this process.
        let _woken = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0,
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
                0_usize,
                0_usize,
                0,
            )
        };
    }
}
