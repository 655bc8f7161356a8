//! Whether this process forked, and what is known about warmth since.
//!
//! After a fork the kernel reports pages that both processes share copy-on-write as present, in the
//! parent and in the child, although each first write to one faults. So after any fork a range counts
//! as known only if it was written since: [`note_written`] keeps a small table of such ranges.
//!
//! Forks are seen by `pthread_atfork` and by a change of the process id. A raw `clone` is not seen in
//! the parent; then a shared page is taken for warm and faults where it would have faulted without us.

#![expect(unsafe_code, reason = "registers fork handlers with the C library")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::Range;

/// Number of forks seen; 0 means that warmth can be read off the page tables.
#[must_use]
pub fn generation() -> u32 {
    install();
    let process = std::process::id();
    if PROCESS.swap(process, Ordering::Relaxed) != process {
        // A child that no handler told: a raw clone.
        let _before = GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Starts watching for forks; forks before the first call are not seen. Cheap when repeated.
pub fn install() {
    INSTALL.call_once(|| {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the handlers are functions of this library that touch atomics only; the C library
        // drops them when the library is unloaded.
        let _refused = unsafe { libc::pthread_atfork(None, Some(forked), Some(forked)) };
    });
}

/// Whether the page tables tell the truth about the warmth of `range`.
///
/// # Cost
///
/// One `getpid`; after a fork, a look through 64 entries.
#[must_use]
pub fn is_known(range: Range) -> bool {
    let generation = generation();
    generation == 0
        || WRITTEN.iter().any(|slot| {
            slot.generation.load(Ordering::Acquire) == generation
                && slot.start.load(Ordering::Relaxed) <= range.address
                && slot.end.load(Ordering::Relaxed) >= range.end()
        })
}

/// Notes that every page of `range` was written since the last fork.
///
/// Two threads that note at once may lose an entry or mix two; the worst outcome is that a shared
/// page is taken for warm.
pub fn note_written(range: Range) {
    let generation = generation();
    if generation == 0 || is_known(range) {
        return;
    }
    let next = NEXT.fetch_add(1, Ordering::Relaxed) % WRITTEN.len();
    if let Some(slot) = WRITTEN.get(next) {
        slot.generation.store(0, Ordering::Relaxed);
        slot.start.store(range.address, Ordering::Relaxed);
        slot.end.store(range.end(), Ordering::Relaxed);
        // Release: pairs with the acquire in `is_known`.
        slot.generation.store(generation, Ordering::Release);
    }
}

/// Runs in parent and child after `fork`.
extern "C" fn forked() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let _before = GENERATION.fetch_add(1, Ordering::Relaxed);
}

struct Written {
    generation: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
}

static INSTALL: Once = Once::new();
static GENERATION: AtomicU32 = AtomicU32::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Sixty-four: programs read back into a handful of long-lived buffers.
static WRITTEN: [Written; 64] = [const {
    Written {
        generation: AtomicU32::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
    }
}; 64];
