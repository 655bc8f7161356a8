//! How often this process and those it came from have forked: what was private before is not after.
#![expect(unsafe_code, reason = "registers a fork handler that adds to one word")]

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);
static AT_FORK: Once = Once::new();

/// The count. Cost: two loads; at first a registration with the C library.
pub(crate) fn count() -> u64 {
    AT_FORK.call_once(|| {
        extern "C" fn prepare() {
            FORKS.fetch_add(1, Ordering::SeqCst);
        }
        // SAFETY: the handler runs before the fork, in the parent, and only adds to an atomic; both
        // processes have the sum.
        let _registered = unsafe { libc::pthread_atfork(Some(prepare), None, None) };
    });
    FORKS.load(Ordering::Acquire)
}
