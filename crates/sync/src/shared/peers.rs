//! Which processes are alive.
//!
//! A process is named by its number and the low half of its start time, so that a number given
//! again is another name. The first look at a name opens a descriptor of the process and compares
//! the start time; from then on the descriptor's hang-up says that it is gone.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};

use crate::prim::Lock;

static OWN: AtomicU64 = AtomicU64::new(0);
static AT_FORK: Once = Once::new();

/// This process's name. Cost: a load; after start and after a fork two system calls.
pub(crate) fn own() -> u64 {
    match OWN.load(Ordering::Relaxed) {
        0 => look_at_own(),
        own => own,
    }
}

/// This process's number.
pub(crate) fn own_number() -> u32 {
    number(own())
}

#[cold]
#[expect(unsafe_code, reason = "registers a fork handler that stores one word")]
fn look_at_own() -> u64 {
    AT_FORK.call_once(|| {
        extern "C" fn forget() {
            OWN.store(0, Ordering::Relaxed);
        }
        // SAFETY: the handler runs in the child and only stores an atomic.
        let _registered = unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    });
    let pid = rustix::process::getpid();
    let name = name(pid);
    OWN.store(name, Ordering::Relaxed);
    name
}

fn name(pid: Pid) -> u64 {
    let number = u64::from(pid.as_raw_nonzero().get().unsigned_abs());
    (start_time(pid).unwrap_or(0) << 32) | number
}

fn number(name: u64) -> u32 {
    u32::try_from(name & u64::from(u32::MAX)).unwrap_or(0)
}

/// Clock ticks between the machine's start and the process's.
fn start_time(pid: Pid) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in parentheses may hold anything; the numbers follow the last one.
    let after = stat.rsplit(|byte| *byte == b')').next()?;
    let text = std::str::from_utf8(after).ok()?;
    text.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Descriptors of the processes met so far.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    known: Lock<HashMap<u64, Option<OwnedFd>>>,
}

impl Peers {
    /// Whether a process is alive. Cost: a system call for another process, some more at first sight.
    pub(crate) fn is_alive(&self, name: u64) -> bool {
        if name == own() {
            return true;
        }
        let mut known = self.known.lock();
        if known.len() > 512 {
            // Names come from shared memory: a scribbler must not make us hold descriptors for ever.
            known.clear();
        }
        let handle = known.entry(name).or_insert_with(|| open(name));
        let Some(fd) = handle else { return false };
        let mut polls = [PollFd::new(fd, PollFlags::IN)];
        let now = rustix::time::Timespec::default();
        let is_gone = matches!(rustix::event::poll(&mut polls, Some(&now)), Ok(1..));
        if is_gone {
            *handle = None;
        }
        !is_gone
    }

    /// Whether any process has this number. Cost: a system call.
    pub(crate) fn has_number(number: u32) -> bool {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| {
            matches!(
                rustix::process::test_kill_process(pid),
                Ok(()) | Err(rustix::io::Errno::PERM)
            )
        })
    }
}

fn open(peer: u64) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(number(peer)).ok()?)?;
    let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // After opening: if the number was given again before, the start time differs.
    (name(pid) == peer).then_some(fd)
}

/// The inode number of this process's pid namespace.
pub(crate) fn namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
}
