//! Page faults taken, from the kernel's own counters.

#![expect(unsafe_code, reason = "getrusage fills a plain structure")]

/// Minor page faults of the calling thread so far. Helper threads of a driver count elsewhere.
#[must_use]
pub fn of_thread() -> u64 {
    usage(libc::RUSAGE_THREAD)
}

/// Minor page faults of all threads of the process so far.
#[must_use]
pub fn of_process() -> u64 {
    usage(libc::RUSAGE_SELF)
}

fn usage(who: libc::c_int) -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live `rusage`, which the kernel fills.
    let answer = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if answer != 0 {
        return 0;
    }
    // SAFETY: `rusage` is made of integers; zeroed above and filled by the kernel.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_minflt).unwrap_or(0)
}
