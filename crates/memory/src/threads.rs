//! Helper threads for a process that is not ours: no handler of the program runs in them but for what they
//! do themselves to its memory, and none outlives the call.

#![expect(unsafe_code, reason = "signal masks are set through the C library")]

use std::mem::MaybeUninit;
use std::sync::Mutex;

/// Runs `body` on the calling thread and on up to `helpers` more, and returns when all are done.
/// The argument is the number of the thread, 0 for the caller. If a thread cannot be started, the
/// others do the work: `body` must take its share from something common.
///
/// Nobody begins before all are started: the kernel makes a new thread's stack only when no other
/// thread is inside a page fault, and holds up the faults that come after.
///
/// # Cost
///
/// About 30 microseconds per helper; allocates.
pub fn together(helpers: usize, body: &(dyn Fn(usize) + Sync)) {
    beside(helpers, body, |_started| body(0));
}

/// Runs `helper` on up to `helpers` threads and `caller` on the calling thread beside them, and returns
/// the caller's answer when all are done. The helper's argument is its number from 1 on, the caller's how
/// many there are: none if the system gives no thread.
///
/// As with [`together`], nobody begins before all are started.
///
/// # Cost
///
/// About 30 microseconds per helper; allocates.
pub fn beside<T>(
    helpers: usize,
    helper: &(dyn Fn(usize) + Sync),
    caller: impl FnOnce(usize) -> T,
) -> T {
    if helpers == 0 {
        return caller(0);
    }
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        let closed = gate.lock();
        let mask = BlockedSignals::block();
        let mut started = 0;
        for number in 1..=helpers {
            let gate = &gate;
            let thread = std::thread::Builder::new()
                .name("towpath-help".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || {
                    drop(gate.lock());
                    helper(number);
                });
            if thread.is_err() {
                break;
            }
            started = number;
        }
        drop(mask);
        drop(closed);
        caller(started)
    })
}

/// All signals of the calling thread blocked, but those that a thread causes itself, until dropped. A thread
/// that is started meanwhile inherits that.
#[derive(Debug)]
pub struct BlockedSignals {
    before: Option<libc::sigset_t>,
}

impl BlockedSignals {
    /// Blocks them.
    #[must_use]
    pub fn block() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is to a live set, which the call fills.
        let filled = unsafe { libc::sigfillset(all.as_mut_ptr()) };
        for signal in OF_THE_THREAD {
            // SAFETY: the set was filled above, and the number is a signal's.
            let _answer = unsafe { libc::sigdelset(all.as_mut_ptr(), signal) };
        }
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set was filled above; `before` is live and filled by the call.
        let answer =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) };
        let before = (filled == 0 && answer == 0).then(|| {
            // SAFETY: `pthread_sigmask` succeeded, so it has filled the set.
            unsafe { before.assume_init() }
        });
        Self { before }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: the set is the one that the kernel gave in `block`.
            let _answer =
                unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}

/// What the kernel sends to the thread that caused it. Were it blocked, the process would end without its
/// handler, which may be there to serve the fault: write barriers by page protection, `userfaultfd`'s SIGBUS,
/// system calls that a sandbox serves.
const OF_THE_THREAD: [libc::c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS];
/// Stack of a helper: they fault and copy, nothing deep, and a handler of the program may come on top.
const STACK_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn helpers_block_signals_of_the_process_and_the_caller_keeps_its_mask() {
        let blocked = AtomicUsize::new(0);
        let is_blocked = |signal| {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: a null new set only asks; `set` is live.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
            // SAFETY: filled by the call above.
            let set = unsafe { set.assume_init() };
            // SAFETY: a live set and a valid number.
            unsafe { libc::sigismember(&raw const set, signal) == 1 }
        };
        assert!(!is_blocked(libc::SIGUSR1));
        together(3, &|number| {
            if number > 0 && is_blocked(libc::SIGUSR1) {
                blocked.fetch_add(1, Ordering::Relaxed);
            }
            assert!(!OF_THE_THREAD.into_iter().any(is_blocked));
        });
        assert_eq!(blocked.load(Ordering::Relaxed), 3);
        assert!(!is_blocked(libc::SIGUSR1));
    }

    /// The first to begin takes page faults; a stack for the next could be made only between them.
    #[test]
    fn nobody_begins_before_all_are_started() {
        let end = std::sync::Barrier::new(13);
        together(12, &|_number| {
            let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
            end.wait();
            assert!(threads >= 13, "{threads}");
        });
    }
}
