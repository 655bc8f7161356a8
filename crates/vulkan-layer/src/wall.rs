//! The wall: a panic of ours costs a sample or a fix, never the application.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::process;

/// Runs work of ours beside a call that has been passed on; a panic is counted and forgotten.
pub(crate) fn beside(work: impl FnOnce()) {
    guarded((), work);
}

/// Runs work of ours; `fallback` is the answer where it panics.
pub(crate) fn guarded<T>(fallback: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        // Dropping a payload may panic again.
        let _twice = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        process::count_panic();
        fallback
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_fallback() {
        let answer = guarded(7, || {
            assert!(std::hint::black_box(false), "on purpose");
            8
        });
        assert_eq!(answer, 7);
        assert_eq!(guarded(7, || 8), 8);
    }
}
