//! Forks in the middle of waits: the child uses the shared objects that the parent's threads wait for.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "forks")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Provider as _};

#[path = "common/other.rs"]
mod common;

use common::{in_seconds, other, role, wait};

#[test]
#[ignore = "the other side of the test below"]
fn the_other_process() {
    let Some((_, shared, object)) = role() else {
        return;
    };
    object.promise().unwrap();
    shared.signal_point(&object, 1).unwrap();
    std::thread::sleep(Duration::from_mins(1));
}

/// What the child does; never returns. A lock that its parent's thread held would hang it: then the
/// alarm ends it.
fn be_the_child(shared: &Shared, watched: &Object, object: &Object, round: u64) -> ! {
    // SAFETY: no requirement.
    unsafe { libc::alarm(10) };
    let short = Deadline::after(Duration::from_millis(2));
    let is_good = shared.signal_point(object, round).is_ok()
        && wait(shared, object, round, Deadline::POLL).is_ok()
        // Sleeps, with a process to watch by a thread of this one.
        && wait(shared, watched, 10, short).is_err()
        && shared.create(false).is_ok();
    // SAFETY: ends the process without its parent's exit handlers.
    unsafe { libc::_exit(i32::from(!is_good)) }
}

#[test]
fn a_child_of_a_fork_in_the_middle_of_waits_uses_the_same_objects() {
    let shared = Shared::new();
    let (watched, object) = (shared.create(false).unwrap(), shared.create(false).unwrap());
    let mut peer = other("promise", &shared, &watched);
    wait(&shared, &watched, 1, in_seconds(30)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let soon = Deadline::after(Duration::from_micros(20));
                    let _late = wait(&shared, &watched, 10, soon);
                }
            });
        }
        let mut failed = None;
        let sleeper = scope.spawn(|| wait(&shared, &object, 200, in_seconds(60)));
        for round in 1..=200 {
            // SAFETY: the child calls what is under test, and ends by _exit.
            let child = unsafe { libc::fork() };
            if child == 0 {
                be_the_child(&shared, &watched, &object, round);
            }
            let mut status = 0;
            // SAFETY: waits for our child; the status is ours.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            if (ended, status) != (child, 0) {
                failed = Some((round, status));
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        shared.signal_point(&object, 200).unwrap();
        sleeper.join().unwrap().unwrap();
        assert_eq!(failed, None, "round and status of a child");
    });
    peer.kill().unwrap();
    peer.wait().unwrap();
}
