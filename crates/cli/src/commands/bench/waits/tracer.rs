//! Counts the system calls of a child between two marks, and the sleeps of a thread.
#![expect(unsafe_code, reason = "traces a child; reads a thread's usage")]

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// A mark: a system call that nothing else here makes.
pub(super) fn mark() {
    std::hint::black_box(rustix::process::getppid());
}

/// What a child did.
pub(super) struct Traced {
    pub(super) between_marks: usize,
    pub(super) output: String,
}

/// Runs a program to its end, stopped at every system call of its first thread.
///
/// # Errors
///
/// If it cannot be traced, fails, or makes other than two marks.
pub(super) fn trace(mut command: Command) -> Result<Traced> {
    let trace_me = || {
        // SAFETY: asks the kernel that the parent traces this process; safe after fork.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: one system call, no allocation.
    unsafe { command.pre_exec(trace_me) };
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let calls = follow(i32::try_from(child.id())?)?;
    let mut output = String::new();
    let mut pipe = child.stdout.take().context("no output")?;
    pipe.read_to_string(&mut output)?;
    let marks: Vec<usize> = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| **call == libc::SYS_getppid)
        .map(|(index, _)| index)
        .collect();
    let [first, last] = marks.as_slice() else {
        anyhow::bail!("{} marks, not two", marks.len());
    };
    Ok(Traced {
        between_marks: last - first - 1,
        output,
    })
}

/// The numbers of the child's system calls, in order.
fn follow(pid: i32) -> Result<Vec<i64>> {
    let mut calls = Vec::new();
    let mut is_entry = true;
    loop {
        let mut status = 0;
        // SAFETY: waits for our child; the status is ours.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        ensure!(answer == pid, "the child is gone");
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            ensure!(libc::WEXITSTATUS(status) == 0, "the child failed");
            return Ok(calls);
        }
        let call = number(pid);
        // The stop at the end of exec is at no call's entry.
        if libc::WSTOPSIG(status) == libc::SIGTRAP && (!calls.is_empty() || call >= 0) {
            if is_entry {
                calls.push(call);
            }
            is_entry = !is_entry;
        }
        // SAFETY: the child is stopped.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, 0) };
    }
}

/// The number of the system call at whose entry or end the child stands.
fn number(pid: i32) -> i64 {
    let offset = std::mem::offset_of!(libc::user_regs_struct, orig_rax);
    // SAFETY: reads a word of the stopped child's registers.
    unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, pid, offset, 0) }
}

/// Times that this thread slept: its voluntary context switches.
pub(super) fn sleeps() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the struct is ours and as long as the kernel's.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all zeros are a value, and the kernel wrote over them if it answered.
    let usage = unsafe { usage.assume_init() };
    if answer == 0 {
        u64::try_from(usage.ru_nvcsw).unwrap_or(0)
    } else {
        0
    }
}
