//! Whether this thread sleeps in a wait that a signal may end. A handler that runs then finds no lock of
//! ours taken on its thread: what it asks of sync objects can be done.

use std::cell::Cell;

thread_local! {
    static IS_ASLEEP: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether this thread is in such a sleep; returns what was set before.
pub(crate) fn set(is_asleep: bool) -> bool {
    IS_ASLEEP
        .try_with(|asleep| asleep.replace(is_asleep))
        .unwrap_or(false)
}

/// Runs a sleep.
pub(crate) fn during<T>(sleep: impl FnOnce() -> T) -> T {
    let before = set(true);
    let answer = sleep();
    set(before);
    answer
}
