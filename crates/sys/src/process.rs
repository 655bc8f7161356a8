//! What the kernel tells a process about itself.

#![expect(unsafe_code, reason = "reads the auxiliary vector")]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// The same file by a descriptor that is none of the standard streams', for what a process that is not ours keeps open.
///
/// A program may run with its streams closed. The next file opened then gets one of their numbers, and what the
/// program prints, or a `dup2` that gives it its streams back, meets that file.
///
/// # Cost
///
/// None for other numbers; else two system calls.
///
/// # Errors
///
/// If there is no descriptor left.
pub fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?)
}

/// Whether the process has more rights than its caller (setuid, setgid, file capabilities), so that the
/// environment is somebody else's word. No system call.
///
/// # Source
///
/// `AT_SECURE`, `getauxval(3)`.
#[must_use]
pub fn is_secure() -> bool {
    // SAFETY: reads the vector that the kernel gave this process; no side effect.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}
