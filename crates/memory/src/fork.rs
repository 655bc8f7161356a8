//! Whether this process forked, and what is known about warmth since.
//!
//! After a fork the kernel reports pages that both processes share copy-on-write as present, in the
//! parent and in the child, although each first write to one faults. So after any fork a range counts
//! as known only if it was written since: [`note_written`] keeps a small table of such ranges.
//!
//! Forks are seen by `pthread_atfork`, and in a child that no handler told (a raw `clone`) by a page that
//! the kernel wipes there; kernels before 4.14 are asked for the process id instead. A raw `clone` is not
//! seen in the parent; then a shared page is taken for warm and faults where it would have faulted without us.

#![expect(
    unsafe_code,
    reason = "registers fork handlers with the C library and maps a page that forks wipe"
)]

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::{Range, page_size};

/// Number of forks seen; 0 means that warmth can be read off the page tables.
///
/// # Cost
///
/// A few nanoseconds; before Linux 4.14, one `getpid`.
#[must_use]
pub fn generation() -> u32 {
    install();
    let is_told = if let Some(mark) = mark() {
        mark.load(Ordering::Relaxed) != 0 || mark.swap(1, Ordering::Relaxed) != 0
    } else {
        let process = std::process::id();
        PROCESS.swap(process, Ordering::Relaxed) == process
    };
    if !is_told {
        // A child that no handler told: a raw clone.
        let _before = GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Starts watching for forks; forks before the first call are not seen. Cheap when repeated.
pub fn install() {
    INSTALL.call_once(|| {
        if let Ok(page) = wiped_on_fork() {
            // Release: pairs with the acquire in `mark`.
            MARK.store(page, Ordering::Release);
        }
        note_process();
        // SAFETY: the handlers are functions of this library that touch atomics only; the C library
        // drops them when the library is unloaded.
        let _refused = unsafe { libc::pthread_atfork(None, Some(forked), Some(forked)) };
    });
}

/// Whether the page tables tell the truth about the warmth of `range`.
///
/// # Cost
///
/// As [`generation`]; after a fork, a look through 64 entries.
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
    note_process();
    let _before = GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Notes that this process knows of itself.
fn note_process() {
    match mark() {
        Some(mark) => mark.store(1, Ordering::Relaxed),
        None => PROCESS.store(std::process::id(), Ordering::Relaxed),
    }
}

/// A word that is not 0 here and 0 in a child that nobody told.
fn mark() -> Option<&'static AtomicU32> {
    // Acquire: pairs with the release in `install`.
    let page = MARK.load(Ordering::Acquire);
    // SAFETY: null, or a page of `wiped_on_fork`, which stays mapped for good, is aligned, and holds
    // zeros or what was stored through this reference.
    unsafe { page.as_ref() }
}

/// A page of zeros that forks wipe, never unmapped.
fn wiped_on_fork() -> io::Result<*mut AtomicU32> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let hint = std::ptr::null_mut();
    // SAFETY: without a hint the kernel chooses an unused range.
    let page = unsafe { mmap_anonymous(hint, page_size(), access, MapFlags::PRIVATE) }?;
    // SAFETY: the page mapped above, private and anonymous as the advice demands.
    if let Err(refused) = unsafe { madvise(page, page_size(), Advice::LinuxWipeOnFork) } {
        // SAFETY: the page mapped above, whose address nobody else has.
        let _unmapped = unsafe { munmap(page, page_size()) };
        return Err(refused.into());
    }
    Ok(page.cast())
}

struct Written {
    generation: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
}

static INSTALL: Once = Once::new();
static GENERATION: AtomicU32 = AtomicU32::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Sixty-four: programs read back into a handful of long-lived buffers.
static WRITTEN: [Written; 64] = [const {
    Written {
        generation: AtomicU32::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
    }
}; 64];
