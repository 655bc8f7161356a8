//! Writing files in a process that is not ours and may have a limit on the size of its files.
//!
//! Contract: beyond `RLIMIT_FSIZE` the kernel sends SIGXFSZ to the thread that writes, which ends the process.
//! The signal is held back while ours are written, taken away if it came, and the mask is put back.

#![expect(unsafe_code, reason = "signal masks are set by C calls")]

use std::mem::MaybeUninit;

use rustix::process::{Resource, getrlimit};

/// Runs `write`; where the limit forbids what it writes, it gets the error alone and the program no signal.
///
/// # Cost
///
/// One system call where the process has no such limit, else five.
pub fn within_size_limit<T>(write: impl FnOnce() -> T) -> T {
    let is_limited = getrlimit(Resource::Fsize).current.is_some();
    let _held = is_limited.then(Held::start);
    write()
}

/// SIGXFSZ held back from this thread.
struct Held {
    before: libc::sigset_t,
    /// One that is not of our making.
    is_pending: bool,
}

impl Held {
    fn start() -> Self {
        let is_pending = is_pending();
        let (only, mut before) = (only(), empty());
        // SAFETY: both sets are valid; blocking a signal of this thread changes no memory but the answer.
        let _done =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const only, &raw mut before) };
        Self { before, is_pending }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if !self.is_pending && is_pending() {
            let (only, nowhere) = (only(), std::ptr::null_mut());
            // SAFETY: a valid set and time; no answer is asked for.
            let _taken = unsafe { libc::sigtimedwait(&raw const only, nowhere, &raw const none) };
        }
        let nowhere = std::ptr::null_mut();
        // SAFETY: the mask that this thread had.
        let _done =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, nowhere) };
    }
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: room for one set, which the call fills.
    let _done = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: zeros are a valid set, and it was emptied.
    unsafe { set.assume_init() }
}

/// The set of SIGXFSZ.
fn only() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: a valid set and signal.
    let _done = unsafe { libc::sigaddset(&raw mut set, libc::SIGXFSZ) };
    set
}

fn is_pending() -> bool {
    let mut set = empty();
    // SAFETY: room for one set.
    let asked = unsafe { libc::sigpending(&raw mut set) };
    // SAFETY: a valid set.
    asked == 0 && unsafe { libc::sigismember(&raw const set, libc::SIGXFSZ) } == 1
}
