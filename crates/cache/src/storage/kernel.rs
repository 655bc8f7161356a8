//! System calls for which rustix has no form.
#![expect(unsafe_code, reason = "raw system calls with scalar arguments")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Starts writing the range to the disk and, if `wait`, returns when it is written. Not durable by
/// itself: the disk's cache and the file's metadata are left alone.
pub(super) fn write_out(file: BorrowedFd<'_>, offset: u64, len: u64, wait: bool) -> io::Result<()> {
    let bad = |_too_large| io::Error::from(io::ErrorKind::InvalidInput);
    let offset = i64::try_from(offset).map_err(bad)?;
    let len = i64::try_from(len).map_err(bad)?;
    let mut flags = libc::SYNC_FILE_RANGE_WRITE;
    if wait {
        flags |= libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    }
    // SAFETY: the descriptor is borrowed and so open; the other arguments are numbers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts the calling thread into the idle I/O class; `false` where the kernel refuses.
///
/// Honoured by BFQ and mq-deadline for reads and for writes issued in this thread's context.
pub fn idle_io_class() -> bool {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: `ioprio_set` takes three numbers; zero means the calling thread.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) == 0 }
}

/// Blocks all signals in the calling thread but those that it causes itself, so that of the program's handlers
/// only one that serves such a cause runs in it: a sandbox may serve its system calls on SIGSYS, and the
/// kernel ends a process where such a signal is blocked.
pub fn block_signals() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` writes one `sigset_t`, for which there is room.
    let filled = unsafe { libc::sigfillset(set.as_mut_ptr()) };
    if filled == 0 {
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS] {
            // SAFETY: the set was filled above, and the number is a signal's.
            let _status = unsafe { libc::sigdelset(set.as_mut_ptr(), signal) };
        }
        // SAFETY: the set was filled above; the old mask is not asked for.
        let _status =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_thread_causes_itself_stays_unblocked() {
        let blocked = std::thread::spawn(|| {
            block_signals();
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: a null new set only asks; `set` is live.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
            // SAFETY: filled by the call above.
            let set = unsafe { set.assume_init() };
            [libc::SIGUSR1, libc::SIGTERM, libc::SIGSEGV, libc::SIGSYS].map(|signal| {
                // SAFETY: a live set and a valid number.
                unsafe { libc::sigismember(&raw const set, signal) == 1 }
            })
        });
        assert_eq!(blocked.join().unwrap(), [true, true, false, false]);
    }
}
