//! Whether this process is a forked child: then threads and locks of ours belong to the parent.

#![expect(unsafe_code, reason = "registers a fork handler with the C library")]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

/// Starts watching; forks before the first call are not seen.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler touches one atomic of this library; the C library drops it when the
        // library is unloaded.
        let _refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether a fork made this process after [`watch`].
pub(crate) fn is_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}
