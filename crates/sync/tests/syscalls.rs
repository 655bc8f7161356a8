//! How many system calls a wait makes, counted by tracing a program that waits between marks.
#![expect(unsafe_code, reason = "traces a child")]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::zombie_processes,
    reason = "the tracer waits by waitpid until the child is gone"
)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use towpath_needs::artifact;

/// Numbers of the system calls that a child makes, in order.
fn trace(command: &mut Command) -> Vec<i64> {
    let trace_me = || {
        // SAFETY: asks the kernel that the parent traces this process; safe after fork.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: one system call, no allocation.
    unsafe { command.pre_exec(trace_me) };
    let child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let mut calls = Vec::new();
    let mut is_entry = true;
    loop {
        let mut status = 0;
        // SAFETY: waits for our child; the status is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0);
            return calls;
        }
        if libc::WSTOPSIG(status) == libc::SIGTRAP
            && !calls.is_empty() | (is_entry && has_begun(pid))
        {
            if is_entry {
                calls.push(number(pid));
            }
            is_entry = !is_entry;
        }
        // SAFETY: the child is stopped.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, 0) };
    }
}

/// Whether the stop is at the entry of a system call, which the stop of `exec` is not.
fn has_begun(pid: i32) -> bool {
    number(pid) >= 0
}

/// The number of the system call at whose entry or end the child stands.
fn number(pid: i32) -> i64 {
    let offset = std::mem::offset_of!(libc::user_regs_struct, orig_rax);
    // SAFETY: reads a word of the stopped child's registers.
    unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, pid, offset, 0) }
}

#[test]
fn a_reached_object_is_no_system_call_and_a_sleep_is_one() {
    let calls = trace(&mut Command::new(artifact("traced-waits")));
    let parts: Vec<&[i64]> = calls.split(|call| *call == libc::SYS_getppid).collect();
    let [_before, reached, sleep, signals, _after] = parts.as_slice() else {
        panic!("marks are missing: {calls:?}");
    };
    assert_eq!(*reached, [], "waits and checks of reached objects");
    assert_eq!(
        *sleep,
        [libc::SYS_futex],
        "a wait on 64 objects that sleeps"
    );
    assert_eq!(*signals, [], "signals without waiters");
}
