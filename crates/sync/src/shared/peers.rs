//! Which processes are alive.
//!
//! A process is named by its number and the low half of its start time, so that a number given
//! again is another name. The first look at a name opens a descriptor of the process and compares
//! the start time; from then on the descriptor's hang-up says that it is gone. Before a wait sleeps on
//! what another process is to end, a helper thread sleeps on that hang-up ([`super::hangup`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};

use super::arena::Arena;
use super::hangup::{self, Hangups};
use crate::prim::Lock;

/// Names come from shared memory: a scribbler must not make us hold descriptors without end.
const KNOWN_MAX: usize = 512;

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

/// What one process knows of the others. A child after a fork takes tables of its own: another thread
/// of its parent may have held the lock of these.
#[derive(Debug)]
struct Tables {
    process: u64,
    known: Lock<HashMap<u64, Peer>>,
    hangups: Lock<Option<Arc<Hangups>>>,
    childs: OnceLock<Box<Self>>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            process: own(),
            known: Lock::default(),
            hangups: Lock::default(),
            childs: OnceLock::new(),
        }
    }
}

/// Descriptors of the processes met so far.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    tables: Tables,
    /// Set once a process could not be watched, for want of a descriptor or a thread. From then on
    /// sleeps end now and then to look.
    is_blind: AtomicBool,
}

/// A process met.
#[derive(Debug)]
struct Peer {
    /// `None` once it is gone.
    fd: Option<Arc<OwnedFd>>,
    /// The process whose helper thread sleeps on the descriptor; zero is none.
    watcher: u64,
    /// Where somebody of this process waits for it.
    arenas: Vec<Weak<Arena>>,
}

/// What opening a process's descriptor said.
enum Opened {
    Alive(OwnedFd),
    Gone,
    /// There is no descriptor to be had.
    Unknown,
}

impl Peers {
    /// The tables of this process.
    fn tables(&self) -> &Tables {
        let own = own();
        let mut tables = &self.tables;
        while tables.process != own {
            tables = tables.childs.get_or_init(Box::default);
        }
        tables
    }

    /// Whether a process is alive. Cost: a system call for another process, some more at first sight.
    pub(crate) fn is_alive(&self, name: u64) -> bool {
        if name == own() {
            return true;
        }
        let mut known = self.tables().known.lock();
        let Some(peer) = self.meet(&mut known, name) else {
            return Self::has_number(number(name));
        };
        let Some(fd) = &peer.fd else { return false };
        if is_gone(fd) {
            peer.fd = None;
        }
        peer.fd.is_some()
    }

    /// Whether a process is alive; if it is, and ends later, what it left in `arena` is ended at once
    /// and its sleepers wake. To be called after the word that is slept on was read.
    ///
    /// Cost: a look into a table; at first sight some system calls and the start of a thread.
    pub(crate) fn watch(self: &Arc<Self>, name: u64, arena: &Arena) -> bool {
        let own = own();
        if name == own {
            return true;
        }
        let mut known = self.tables().known.lock();
        let Some(peer) = self.meet(&mut known, name) else {
            return Self::has_number(number(name));
        };
        let Some(fd) = &peer.fd else { return false };
        let me = arena.me();
        if !peer.arenas.iter().any(|known| known.ptr_eq(&me)) {
            peer.arenas.push(me);
        }
        if peer.watcher != own {
            if is_gone(fd) {
                peer.fd = None;
                return false;
            }
            let fd = Arc::clone(fd);
            match hangup::hand_over(self, &self.tables().hangups, name, fd) {
                Ok(()) => peer.watcher = own,
                Err(_full) => self.is_blind.store(true, Ordering::Relaxed),
            }
        }
        true
    }

    /// Whether there may be a process that cannot be watched.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_blind.load(Ordering::Relaxed)
    }

    /// Whether the helper thread has nobody left to watch and may end.
    pub(super) fn retire(&self, hangups: &Arc<Hangups>) -> bool {
        hangup::retire(&self.tables().hangups, hangups)
    }

    /// Ends what a process left behind that is gone. Called by the helper thread.
    pub(super) fn bury(&self, name: u64) {
        let arenas = match self.tables().known.lock().get_mut(&name) {
            Some(peer) => {
                peer.fd = None;
                std::mem::take(&mut peer.arenas)
            }
            None => Vec::new(),
        };
        for arena in arenas.iter().filter_map(Weak::upgrade) {
            arena.bury(name);
        }
    }

    /// The process of that name; `None` if no descriptor of it can be had.
    fn meet<'a>(&self, known: &'a mut HashMap<u64, Peer>, name: u64) -> Option<&'a mut Peer> {
        if known.len() > KNOWN_MAX {
            known.clear();
            hangup::forget_all(&self.tables().hangups);
        }
        match known.entry(name) {
            Entry::Occupied(there) => Some(there.into_mut()),
            Entry::Vacant(place) => {
                let fd = match open(name) {
                    Opened::Alive(fd) => Some(Arc::new(fd)),
                    Opened::Gone => None,
                    Opened::Unknown => {
                        self.is_blind.store(true, Ordering::Relaxed);
                        return None;
                    }
                };
                Some(place.insert(Peer {
                    fd,
                    watcher: 0,
                    arenas: Vec::new(),
                }))
            }
        }
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

impl Drop for Peers {
    fn drop(&mut self) {
        hangup::end(&self.tables().hangups);
    }
}

/// Whether the process behind a descriptor is gone. Cost: a system call.
fn is_gone(fd: &OwnedFd) -> bool {
    let mut polls = [PollFd::new(fd, PollFlags::IN)];
    let now = rustix::time::Timespec::default();
    matches!(rustix::event::poll(&mut polls, Some(&now)), Ok(1..))
}

fn open(peer: u64) -> Opened {
    let Some(pid) = i32::try_from(number(peer)).ok().and_then(Pid::from_raw) else {
        return Opened::Gone;
    };
    let fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => return Opened::Gone,
        // No descriptor left, most likely.
        Err(_other) => return Opened::Unknown,
    };
    // After opening: if the number was given again before, the start time differs. A process that
    // could not read its own calls it zero.
    match start_time(pid) {
        Some(start) if peer >> 32 == 0 || start << 32 >> 32 == peer >> 32 => Opened::Alive(fd),
        Some(_) => Opened::Gone,
        None if is_gone(&fd) => Opened::Gone,
        None => Opened::Unknown,
    }
}

/// The inode number of this process's pid namespace.
pub(crate) fn namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
}
