//! Whether this thread is inside one of the program's event callbacks.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether the program's callback runs on this thread: no OpenCL calls of ours then.
pub(crate) fn is_callback() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

/// Runs `body` as a callback of the program.
pub(crate) fn callback(body: impl FnOnce()) {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    body();
    DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_ends_with_the_outermost() {
        assert!(!is_callback());
        callback(|| {
            callback(|| assert!(is_callback()));
            assert!(is_callback());
        });
        assert!(!is_callback());
    }
}
