//! What is told once when an object or a fence is ready, other than a thread asleep in a wait.

use std::os::fd::OwnedFd;
use std::task::Waker;

use crate::prim::atomic::{AtomicBool, Ordering};
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
    Eventfd(OwnedFd),
    /// Eight bytes are sent: the other end becomes readable.
    Socket(OwnedFd),
    /// A future's task.
    Task(Lock<Option<Waker>>),
    /// A doorbell: the token is put down, then its eventfd rung.
    Bell(Arc<Bell>, u64),
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
    /// Cost: one system call, to see whether it is a socket.
    pub(crate) fn descriptor(fd: OwnedFd) -> Self {
        let is_socket = rustix::net::sockopt::socket_type(&fd).is_ok();
        let target = if is_socket {
            Target::Socket(fd)
        } else {
            Target::Eventfd(fd)
        };
        Self {
            is_live: AtomicBool::new(true),
            target,
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
            Target::Eventfd(fd) => {
                // A full counter is readable already; nothing else can fail that we could mend.
                let _written = rustix::io::write(fd, &one);
            }
            Target::Socket(fd) => {
                // The other end may be closed: no SIGPIPE for that.
                let _sent = rustix::net::send(fd, &one, rustix::net::SendFlags::NOSIGNAL);
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
        if let Target::Task(waker) = &self.target {
            drop(waker.lock().take());
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
    }
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
