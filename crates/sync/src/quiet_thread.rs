//! Helper threads inside a process that is not ours.
#![expect(unsafe_code, reason = "blocks signals around the start of a thread")]

use std::io;
use std::mem::MaybeUninit;

/// Starts a thread that takes no signal: the program's handlers run on the program's threads.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: fills the set.
    let _filled = unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: both sets are valid; the mask is this thread's, and put back below. A new thread
    // inherits it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let started = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body);
    // SAFETY: the set that the call above filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.map(drop)
}
