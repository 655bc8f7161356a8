//! What a read into warm memory costs before and after the driver's call, counted: no allocation and,
//! once its destination is trusted, no system call.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::exit,
    reason = "forks, and forbids system calls to itself"
)]

use towpath_counting::{Counting, in_thread};
use towpath_measure::Nanos;
use towpath_memory::{Mapping, prefault};
use towpath_settings::Fixes;
use towpath_transfer::readback::{Context, Footprint, Outcome, Rules, prepare, took};

#[global_allocator]
static COUNTING: Counting = Counting;

/// A warm destination of 1 MiB.
fn warm() -> (Mapping, Footprint) {
    let mapping = Mapping::anonymous(1 << 20).unwrap();
    let range = mapping.range();
    prefault(range, &towpath_memory::Prefault::default()).unwrap();
    let footprint = Footprint::buffer(range.address, range.len).unwrap();
    (mapping, footprint)
}

/// Decides about one read, which then takes its usual time.
fn read(footprint: &Footprint) -> Option<Outcome> {
    let rules = Rules::default();
    let context = Context {
        fixes: Fixes::forced(),
        rules: &rules,
    };
    let plan = prepare(footprint, &context);
    took(footprint, Nanos(100_000));
    plan.reason()
}

/// Reads until the next look: 31 of 32 reads pass between two.
fn until_trusted(footprint: &Footprint) {
    // The first look, and 31 questions after it.
    for _ in 0..32 {
        assert_eq!(read(footprint), Some(Outcome::AlreadyWarm));
    }
    // The 32nd question samples.
    assert_eq!(read(footprint), Some(Outcome::AlreadyWarm));
}

#[test]
fn a_warm_read_allocates_nothing() {
    let (_mapping, footprint) = warm();
    let _first = read(&footprint);
    let before = in_thread();
    for _ in 0..200 {
        let _outcome = std::hint::black_box(read(&footprint));
    }
    assert_eq!(in_thread() - before, 0);
}

#[test]
fn a_trusted_warm_read_makes_no_system_call() {
    // SAFETY: the child uses only what this thread owns, and ends without running destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The child's own: what it shares with its parent is not known to be warm.
        let (_mapping, footprint) = warm();
        until_trusted(&footprint);
        // From here on, any system call but read, write and exit kills.
        // SAFETY: takes no pointer.
        let strict = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
        if strict != 0 {
            std::process::exit(77);
        }
        let are_warm = (0..31).all(|_| read(&footprint) == Some(Outcome::AlreadyWarm));
        let code = if are_warm { 33 } else { 34 };
        // SAFETY: `exit` of this thread, the only one; `exit_group` is forbidden by now.
        unsafe { libc::syscall(libc::SYS_exit, code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(reaped, child);
    assert!(
        libc::WIFEXITED(status),
        "killed by signal {}: a system call",
        libc::WTERMSIG(status)
    );
    assert_eq!(libc::WEXITSTATUS(status), 33, "77: no seccomp here");
}

/// The destination becomes cold, and nobody looks; but the read is slow.
#[test]
fn a_slow_read_makes_the_next_look_a_close_one() {
    let (mut mapping, footprint) = warm();
    until_trusted(&footprint);
    let range = mapping.range();
    let start = mapping.as_mut_slice().as_mut_ptr().cast();
    // SAFETY: all of the test's own mapping, to which nothing refers.
    unsafe { rustix::mm::madvise(start, range.len, rustix::mm::Advice::LinuxDontNeed) }.unwrap();
    assert_eq!(read(&footprint), Some(Outcome::AlreadyWarm), "trusted");
    // As the driver would, and cold again for the next read.
    mapping.as_mut_slice().fill(1);
    // SAFETY: as above.
    unsafe { rustix::mm::madvise(start, range.len, rustix::mm::Advice::LinuxDontNeed) }.unwrap();
    took(&footprint, Nanos(700_000));
    let rules = Rules::default();
    let context = Context {
        fixes: Fixes::forced(),
        rules: &rules,
    };
    assert!(prepare(&footprint, &context).is_prefault());
}
