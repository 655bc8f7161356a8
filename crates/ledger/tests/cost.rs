//! What recording costs, counted: no allocation, no system call.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::exit,
    reason = "forks, and forbids system calls to itself"
)]

use std::path::Path;

use towpath_counting::{Counting, in_thread};
use towpath_ledger::{Call, Counter, Histogram, HostPath, SiteKey, Stack, Writer};
use towpath_measure::Nanos;
use towpath_settings::Fixes;

#[global_allocator]
static COUNTING: Counting = Counting;

fn writer(folder: &Path) -> Writer {
    Writer::create(folder, "opencl-layer", Fixes::none()).unwrap()
}

/// Everything that a layer does per call, with known and new sites.
fn use_all(writer: &Writer) {
    const CALLS: [&str; 4] = ["a", "b", "c", "d"];
    for round in 0..1_000_u64 {
        let call = CALLS[usize::try_from(round % 4).unwrap()];
        let stack = if round % 8 == 0 {
            Stack::for_bytes(1 << 20, 0)
        } else {
            Stack::NONE
        };
        let key = SiteKey {
            path: HostPath::Readback,
            call,
            device: "a device with a rather long name",
            stack,
        };
        let cost = Call {
            wall: Nanos(round * 31),
            bytes: round,
            faults: round % 3,
            cold_bytes: round % 5,
            ..Call::default()
        };
        writer.record(writer.site(&key), &cost);
        writer.count(Counter::WaitsRepeated, 1);
        writer.histogram(Histogram::WaitNanos, round);
        writer.frame(Nanos(round));
        assert_eq!(writer.fixes(), Fixes::none());
    }
}

#[test]
fn recording_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let writer = writer(folder.path());
    // The unwinder of libgcc prepares itself at its first use in a process.
    let _first = Stack::capture(0);
    let before = in_thread();
    use_all(&writer);
    assert_eq!(in_thread() - before, 0);
    // The counter does count.
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(in_thread() - before, 1);
}

#[test]
fn recording_makes_no_system_call() {
    let folder = tempfile::tempdir().unwrap();
    let writer = writer(folder.path());
    let _first = Stack::capture(0);
    // SAFETY: the child uses only what this thread owns, and ends without running destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Makes the child's own ledger.
        writer.count(Counter::Contexts, 1);
        // From here on, any system call but read, write and exit kills.
        // SAFETY: takes no pointer.
        let strict = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
        if strict != 0 {
            std::process::exit(77);
        }
        use_all(&writer);
        // SAFETY: `exit` of this thread, the only one; `exit_group` is forbidden by now.
        unsafe { libc::syscall(libc::SYS_exit, 33) };
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
