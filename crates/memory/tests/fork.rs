//! What a fork does to warmth. Alone in its program: a fork changes what all later calls know.

#![expect(unsafe_code, reason = "tests fork")]

use towpath_memory::residency::{Residency, Why, cold_bytes};
use towpath_memory::{Huge, Mapping, Prefault, faults, fork, page_size, prefault};
use towpath_needs::{Need, can_run};

const LEN: usize = 8 << 20;

fn small_pages(threads: usize) -> Prefault {
    Prefault {
        threads,
        huge: Huge::Never,
        chunk: 1 << 20,
        ..Prefault::default()
    }
}

/// Writes one byte per page and counts the faults that it took.
fn faults_of_writing(mapping: &mut Mapping) -> u64 {
    let before = faults::of_thread();
    for page in mapping.as_mut_slice().chunks_mut(page_size()) {
        if let Some(byte) = page.first_mut() {
            *byte = byte.wrapping_add(1);
        }
    }
    faults::of_thread() - before
}

/// Runs `body` in a forked child and fails if it does not return true.
fn in_child(body: impl FnOnce() -> bool) {
    // SAFETY: the child runs `body` and leaves by `_exit`; `body` of these tests takes no lock that
    // another thread could hold (one process per test under nextest).
    match unsafe { libc::fork() } {
        0 => {
            let code = i32::from(!body());
            // SAFETY: ends the child without running handlers of the parent.
            unsafe { libc::_exit(code) };
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0, "the child failed");
        }
    }
}

#[test]
fn after_a_fork_warmth_is_unknown_until_it_is_written_again() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    fork::install();
    let before = fork::generation();
    let mut mapping = Mapping::anonymous(LEN).unwrap();
    let range = mapping.range();
    let _done = prefault(range, &small_pages(1)).unwrap();
    in_child(|| cold_bytes(range) == Residency::Unknown(Why::Forked));
    assert!(fork::generation() > before);
    assert_eq!(cold_bytes(range), Residency::Unknown(Why::Forked));
    // Bringing it in breaks the sharing; from then on the table tells the truth.
    let _done = prefault(range, &small_pages(1)).unwrap();
    assert!(matches!(
        cold_bytes(range),
        Residency::Known { cold: 0, .. }
    ));
    assert_eq!(faults_of_writing(&mut mapping), 0);
    in_child(|| {
        let inner = prefault(range, &small_pages(2));
        inner.is_ok() && matches!(cold_bytes(range), Residency::Known { cold: 0, .. })
    });
}

/// No handler runs in the child of a raw clone.
#[test]
fn a_child_that_no_handler_told_knows_that_it_is_one() {
    fork::install();
    let before = fork::generation();
    // SAFETY: a fork without the C library's handlers; the child uses atomics alone and leaves by `_exit`.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        let seen = [fork::generation(), fork::generation()];
        let code = i32::from(seen != [before + 1; 2]);
        // SAFETY: ends the child without running handlers of the parent.
        unsafe { libc::_exit(code) };
    }
    let child = libc::pid_t::try_from(child).unwrap();
    let mut status = 0;
    // SAFETY: waits for the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child failed");
    assert_eq!(fork::generation(), before);
}
