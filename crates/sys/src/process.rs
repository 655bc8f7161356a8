//! What the kernel tells a process about itself.

#![expect(unsafe_code, reason = "reads the auxiliary vector")]

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
