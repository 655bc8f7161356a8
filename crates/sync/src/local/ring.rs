//! What is told once when an object or a fence is ready, other than a thread asleep in a wait.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::task::Waker;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, OFlags, Timespec};

use crate::error::{Error, Result};
use crate::prim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::prim::{Arc, Lock};

/// A one-shot notice.
#[derive(Debug)]
pub(crate) struct Ring {
    is_live: AtomicBool,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// One is added.
    Eventfd {
        fd: OwnedFd,
        /// A write waits where the counter is full.
        waits: bool,
    },
    /// Eight bytes are sent: the other end becomes readable. Given up when cancelled, which may be long
    /// before the last list forgets the ring.
    Socket(Lock<Option<Arc<OwnedFd>>>),
    /// A future's task.
    Task(Lock<Option<Waker>>),
    /// A doorbell: the token is put down, then its eventfd rung.
    Bell(Arc<Bell>, u64),
    /// One of several that must all have rung.
    Part(Arc<Parts>),
}

/// What rings another ring when all of it has rung.
#[derive(Debug)]
struct Parts {
    missing: AtomicU32,
    then: Arc<Ring>,
}

/// A doorbell's eventfd and the tokens of what rang it.
#[derive(Debug)]
pub(crate) struct Bell {
    pub(crate) fd: OwnedFd,
    pub(crate) rung: Lock<Vec<u64>>,
}

impl Bell {
    pub(crate) fn ring(&self, token: u64) {
        self.rung.lock().push(token);
        // A full counter is readable already.
        let _written = rustix::io::write(&self.fd, &1_u64.to_eventfd_bytes());
    }
}

impl Ring {
    /// A ring that adds one to an eventfd of the program's.
    ///
    /// Cost: three system calls, to see what it is.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDescriptor`], as the kernel has it: eight bytes would damage a file, and end the process where
    /// they go into a pipe that nobody reads.
    pub(crate) fn descriptor(fd: OwnedFd) -> Result<Self> {
        if !is_eventfd(fd.as_fd()) {
            return Err(Error::WrongDescriptor { what: "an eventfd" });
        }
        let flags = rustix::fs::fcntl_getfl(&fd);
        let waits = flags.is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK));
        Ok(Self {
            is_live: AtomicBool::new(true),
            target: Target::Eventfd { fd, waits },
        })
    }

    /// A ring that makes the other end readable.
    pub(crate) fn socket(fd: Arc<OwnedFd>) -> Self {
        Self {
            is_live: AtomicBool::new(true),
            target: Target::Socket(Lock::new(Some(fd))),
        }
    }

    /// As many rings as asked for; `then` rings when all of them have.
    pub(crate) fn parts(then: &Arc<Self>, count: u32) -> impl Iterator<Item = Arc<Self>> {
        let parts = Arc::new(Parts {
            missing: AtomicU32::new(count),
            then: Arc::clone(then),
        });
        (0..count).map(move |_| {
            Arc::new(Self {
                is_live: AtomicBool::new(true),
                target: Target::Part(Arc::clone(&parts)),
            })
        })
    }

    /// Its eventfd, if it has one.
    pub(crate) fn eventfd(&self) -> Option<BorrowedFd<'_>> {
        match &self.target {
            Target::Eventfd { fd, .. } => Some(fd.as_fd()),
            Target::Socket(_) | Target::Task(_) | Target::Bell(..) | Target::Part(_) => None,
        }
    }

    pub(crate) fn bell(bell: &Arc<Bell>, token: u64) -> Self {
        Self {
            is_live: AtomicBool::new(true),
            target: Target::Bell(Arc::clone(bell), token),
        }
    }

    pub(crate) fn task(waker: Waker) -> Self {
        Self {
            is_live: AtomicBool::new(true),
            target: Target::Task(Lock::new(Some(waker))),
        }
    }

    /// Tells, unless it was told or cancelled before. Cost: a write for a descriptor.
    pub(crate) fn ring(&self) {
        // AcqRel: what led to this is visible to whoever sees it rung.
        if !self.is_live.swap(false, Ordering::AcqRel) {
            return;
        }
        let one = 1_u64.to_eventfd_bytes();
        match &self.target {
            // A full counter is readable already, and the program's signal must not wait for a reader.
            Target::Eventfd { fd, waits: true } if !has_room(fd.as_fd()) => {}
            Target::Eventfd { fd, .. } => {
                // Nothing can fail that we could mend.
                let _written = rustix::io::write(fd, &one);
            }
            Target::Socket(fd) => {
                let fd = fd.lock().take();
                // The other end may be closed: no SIGPIPE for that.
                let _sent =
                    fd.map(|fd| rustix::net::send(&*fd, &one, rustix::net::SendFlags::NOSIGNAL));
            }
            Target::Part(parts) => {
                // AcqRel: the last one sees what led to the others.
                if parts.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    parts.then.ring();
                }
            }
            Target::Bell(bell, token) => bell.ring(*token),
            Target::Task(waker) => {
                let waker = waker.lock().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Takes the notice back.
    pub(crate) fn cancel(&self) {
        self.is_live.store(false, Ordering::Release);
        match &self.target {
            Target::Task(waker) => drop(waker.lock().take()),
            Target::Socket(fd) => drop(fd.lock().take()),
            Target::Eventfd { .. } | Target::Bell(..) | Target::Part(_) => {}
        }
    }

    /// Replaces the task of a future that moved.
    pub(crate) fn replace_task(&self, new: &Waker) {
        if let Target::Task(waker) = &self.target {
            let mut waker = waker.lock();
            if let Some(old) = waker.as_mut() {
                old.clone_from(new);
            }
        }
    }

    /// Whether it may still be rung.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
            && match &self.target {
                Target::Part(parts) => parts.then.is_live(),
                Target::Eventfd { .. } | Target::Socket(_) | Target::Task(_) | Target::Bell(..) => {
                    true
                }
            }
    }
}

/// Of the anonymous files, which have no type, only an eventfd takes eight bytes; zero changes nothing in it.
fn is_eventfd(fd: BorrowedFd<'_>) -> bool {
    let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let takes = || rustix::io::write(fd, &0_u64.to_eventfd_bytes()) == Ok(8);
    // No type is none that has a name.
    kind.is_ok_and(|kind| kind == FileType::Unknown) && takes()
}

fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    let at_once = Timespec::default();
    let asked = poll(&mut polled, Some(&at_once));
    let [answer] = &polled;
    asked.is_ok() && answer.revents().contains(PollFlags::OUT)
}

/// The kernel's eventfd counter has the machine's byte order.
trait EventfdBytes {
    /// The bytes to write.
    fn to_eventfd_bytes(self) -> [u8; 8];
}

impl EventfdBytes for u64 {
    #[expect(
        clippy::host_endian_bytes,
        reason = "an eventfd counts in the machine's byte order"
    )]
    fn to_eventfd_bytes(self) -> [u8; 8] {
        self.to_ne_bytes()
    }
}
