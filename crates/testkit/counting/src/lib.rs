//! An allocator that counts, for tests of what allocates nothing.
//!
//! ```
//! use towpath_counting::{Counting, in_thread};
//!
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//!
//! let before = in_thread();
//! drop(vec![1_u8; 100]);
//! assert_eq!(in_thread() - before, 1);
//! ```

#![expect(unsafe_code, reason = "an allocator that passes on and counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}

static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

/// Allocations of this thread so far, moves to another size among them: other tests may run beside.
#[must_use]
pub fn in_thread() -> u64 {
    HERE.get()
}

/// Allocations of all threads so far, for what has threads of its own: nothing else may run beside.
#[must_use]
pub fn in_process() -> u64 {
    // Relaxed: who asks has joined or waited for the threads that it asks about.
    EVERYWHERE.load(Ordering::Relaxed)
}

fn count() {
    EVERYWHERE.fetch_add(1, Ordering::Relaxed);
    // A thread that is ending has no counter any more.
    let _gone = HERE.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn each_allocation_counts_once_and_only_where_it_is_made() {
        let before = (in_thread(), in_process());
        let mut grows = Vec::<u8>::with_capacity(10);
        grows.reserve_exact(1000);
        drop(grows);
        drop(vec![0_u8; 100]);
        assert_eq!(in_thread() - before.0, 3);
        let here = in_thread();
        let other = std::thread::spawn(|| {
            let before = in_thread();
            drop(Box::new(7));
            in_thread() - before
        });
        assert_eq!(other.join().ok(), Some(1));
        assert!(in_process() - before.1 >= 4);
        // What starting a thread takes is this thread's.
        assert!(in_thread() >= here);
    }
}
