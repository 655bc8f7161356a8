//! Waits over objects of all kinds, and the doorbell that event loops watch.
//!
//! A [`Doorbell`] is one eventfd for any number of watches. Objects of this process and the helper of
//! shared objects put a token down and ring it; the kernel rings it without a token, so its watches
//! are looked at when it rang. A wait over several kinds sleeps on a doorbell of its own.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::drm::{self, Drm};
use crate::error::{Error, Result};
use crate::local::ring::{Bell, Ring};
use crate::local::{self, Local};
use crate::prim::Lock;
use crate::provider::{Entry, Provider, WaitFor, Waited};
use crate::shared::{self, Shared};
use crate::time::Deadline;

/// An object of any kind.
#[derive(Clone, Debug)]
pub enum AnyObject {
    /// Of this process.
    Local(local::Object),
    /// Shared between processes.
    Shared(Shared, shared::Object),
    /// The kernel's.
    Drm(Drm, drm::Object),
}

/// How one look at an object went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Look {
    Ready,
    Missing,
}

impl AnyObject {
    fn look(&self, point: u64, what: WaitFor) -> Result<Look> {
        fn one<P: Provider>(
            provider: &P,
            object: &P::Object,
            point: u64,
            what: WaitFor,
        ) -> Result<Look> {
            let what = WaitFor { all: true, ..what };
            match provider.wait(&[Entry { object, point }], what, Deadline::POLL) {
                Ok(_) => Ok(Look::Ready),
                Err(Error::TimedOut { .. }) => Ok(Look::Missing),
                Err(error) => Err(error),
            }
        }
        match self {
            Self::Local(object) => one(&Local, object, point, what),
            Self::Shared(shared, object) => one(shared, object, point, what),
            Self::Drm(drm, object) => one(drm, object, point, what),
        }
    }
}

impl AnyObject {
    fn is_lost(&self, point: u64) -> Result<bool> {
        match self {
            Self::Shared(_, object) => object.is_lost(point),
            Self::Local(_) | Self::Drm(..) => Ok(false),
        }
    }
}

/// Waits on objects of any kinds; as [`Provider::wait`].
///
/// # Cost
///
/// A look at each object (a system call for the kernel's, unless seen done). If it must sleep: an
/// eventfd, a registration for each object, one system call for each sleep.
///
/// # Errors
///
/// As [`Provider::wait`].
pub fn wait(entries: &[Entry<'_, AnyObject>], what: WaitFor, deadline: Deadline) -> Result<Waited> {
    let mut ready = vec![false; entries.len()];
    look_at_all(entries, what, &mut ready)?;
    let first = ready.iter().position(|ready| *ready);
    let is_enough = |ready: &[bool]| {
        let count = ready.iter().filter(|ready| **ready).count();
        count == ready.len() || (count > 0 && !what.all)
    };
    if is_enough(&ready) {
        return Ok(Waited { first });
    }
    if deadline.has_passed() {
        return Err(Error::TimedOut {
            objects: entries.len(),
        });
    }
    let doorbell = Doorbell::new()?;
    let mut watches = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if ready.get(index) == Some(&false) {
            let token = index as u64;
            watches.push(doorbell.watch(entry.object, entry.point, what.available, token)?);
        }
    }
    loop {
        for token in doorbell.drain()? {
            let Ok(index) = usize::try_from(token) else {
                continue;
            };
            if let (Some(ready), Some(entry)) = (ready.get_mut(index), entries.get(index)) {
                if entry.object.is_lost(entry.point)? {
                    return Err(Error::SignallerDead { index });
                }
                *ready = true;
            }
        }
        if is_enough(&ready) {
            let lowest = ready.iter().position(|ready| *ready);
            return Ok(Waited {
                first: if what.all { first } else { lowest },
            });
        }
        if !doorbell.sleep(deadline)? {
            return Err(Error::TimedOut {
                objects: entries.len(),
            });
        }
    }
}

fn look_at_all(entries: &[Entry<'_, AnyObject>], what: WaitFor, ready: &mut [bool]) -> Result<()> {
    for (index, (entry, ready)) in entries.iter().zip(ready).enumerate() {
        let look = entry
            .object
            .look(entry.point, what)
            .map_err(|error| match error {
                Error::NotSubmitted { point, .. } => Error::NotSubmitted { index, point },
                Error::SignallerDead { .. } => Error::SignallerDead { index },
                other => other,
            })?;
        *ready = look == Look::Ready;
    }
    Ok(())
}

/// One eventfd for any number of watched points: for `poll`, `epoll` and what is built on them.
#[derive(Debug)]
pub struct Doorbell {
    bell: Arc<Bell>,
    /// Watches that the kernel rings without saying which.
    kernel: Arc<Lock<Vec<KernelWatch>>>,
    serial: AtomicU64,
}

#[derive(Debug)]
struct KernelWatch {
    serial: u64,
    token: u64,
    object: AnyObject,
    point: u64,
    available: bool,
}

/// A point being watched; dropped, it rings no more.
#[derive(Debug)]
pub struct Watch {
    ring: Option<Arc<Ring>>,
    kernel: Option<(Arc<Lock<Vec<KernelWatch>>>, u64)>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.cancel();
        }
        if let Some((watches, serial)) = &self.kernel {
            watches.lock().retain(|watch| watch.serial != *serial);
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.fd.as_fd()
    }
}

impl Doorbell {
    /// Makes one. Cost: one descriptor.
    ///
    /// # Errors
    ///
    /// [`Error::System`].
    pub fn new() -> Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|source| {
            Error::System {
                operation: "make an eventfd",
                source: source.into(),
            }
        })?;
        let bell = Arc::new(Bell {
            fd,
            rung: Lock::new(Vec::new()),
        });
        Ok(Self {
            bell,
            kernel: Arc::default(),
            serial: AtomicU64::new(0),
        })
    }

    /// Rings with `token` when a point is done, or has a fence (`available`); at once if it is.
    ///
    /// # Errors
    ///
    /// As [`Provider::watch`].
    pub fn watch(
        &self,
        object: &AnyObject,
        point: u64,
        available: bool,
        token: u64,
    ) -> Result<Watch> {
        let mut watch = Watch {
            ring: None,
            kernel: None,
        };
        match object {
            AnyObject::Local(object) => {
                let ring = Arc::new(Ring::bell(&self.bell, token));
                object.0.ring_when_ready(point, available, &ring);
                watch.ring = Some(ring);
            }
            AnyObject::Shared(shared, object) => {
                let ring = Arc::new(Ring::bell(&self.bell, token));
                shared.ring_when_ready(object, point, available, Arc::clone(&ring))?;
                watch.ring = Some(ring);
            }
            AnyObject::Drm(drm, kernel_object) => {
                let serial = self.serial.fetch_add(1, Ordering::Relaxed);
                let entry = KernelWatch {
                    serial,
                    token,
                    object: object.clone(),
                    point,
                    available,
                };
                // Into the list first: it may ring before the call returns.
                self.kernel.lock().push(entry);
                watch.kernel = Some((Arc::clone(&self.kernel), serial));
                drm.watch_borrowed(kernel_object, point, available, self.as_fd())?;
            }
        }
        Ok(watch)
    }

    /// The tokens of what is ready, each once. Does not sleep.
    ///
    /// # Errors
    ///
    /// [`Error::System`].
    pub fn drain(&self) -> Result<Vec<u64>> {
        // Emptied first: what rings after this makes it readable again.
        let mut count = [0; 8];
        let _empty = rustix::io::read(&self.bell.fd, &mut count);
        let mut tokens = std::mem::take(&mut *self.bell.rung.lock());
        let watches = std::mem::take(&mut *self.kernel.lock());
        let mut waiting = Vec::new();
        for watch in watches {
            let what = WaitFor {
                all: true,
                submit: true,
                available: watch.available,
                interruptible: false,
            };
            match watch.object.look(watch.point, what)? {
                Look::Ready => tokens.push(watch.token),
                Look::Missing => waiting.push(watch),
            }
        }
        self.kernel.lock().extend(waiting);
        Ok(tokens)
    }

    /// Sleeps until it rings; false if the time is over.
    fn sleep(&self, deadline: Deadline) -> Result<bool> {
        let mut polls = [PollFd::new(&self.bell.fd, PollFlags::IN)];
        loop {
            let left = deadline.left();
            match rustix::event::poll(&mut polls, left.as_ref()) {
                Ok(0) if deadline.has_passed() => return Ok(false),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(source) => {
                    return Err(Error::System {
                        operation: "sleep on a doorbell",
                        source: source.into(),
                    });
                }
            }
        }
    }
}
