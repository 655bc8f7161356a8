//! What a library in a process that is not ours keeps to itself.

use std::sync::Once;

/// Keeps panics of this copy of Rust's library from being written to standard error.
///
/// For libraries that catch them at their border; each shared library has a copy of its own. Cost after the first
/// call: one load.
#[inline]
pub fn hush_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_panic| {})));
}
