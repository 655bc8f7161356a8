//! Descriptors that stand for objects, fences and software timelines.
//!
//! Each is one end of a socket pair. The socket's cookie, which the kernel never gives twice,
//! identifies it through `dup`, `fork` and passing between processes, and never names a file that
//! was closed; our end hears when the last copy is closed, and then the entry goes.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::client::{Client, Handles};
use super::parts::{Name, Part, SyncFile, Times};
use super::{Answer, Code, memory};
use crate::error::Error;
use crate::local::ring::Ring;
use crate::prim::{Arc, Lock};
use crate::provider::{Notice, Provider};

/// What a render node names: a provider and the descriptors made for it.
#[derive(Debug)]
pub struct Device<P: Provider> {
    pub(crate) provider: P,
    files: Lock<HashMap<u64, Entry<P>>>,
}

#[derive(Debug)]
struct Entry<P: Provider> {
    file: File<P>,
    ours: Arc<OwnedFd>,
    /// What makes a sync file readable.
    ring: Option<Arc<Ring>>,
}

impl<P: Provider> Drop for Entry<P> {
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.cancel();
        }
    }
}

/// What a descriptor stands for.
#[derive(Debug)]
pub(crate) enum File<P: Provider> {
    Object(P::Object),
    Fences(Arc<SyncFile<P>>),
    Timeline(Arc<Lock<Timeline<P>>>),
    /// An opened render node.
    Client(Arc<Handles<P>>),
}

impl<P: Provider> Clone for File<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(object.clone()),
            Self::Fences(file) => Self::Fences(Arc::clone(file)),
            Self::Timeline(timeline) => Self::Timeline(Arc::clone(timeline)),
            Self::Client(handles) => Self::Client(Arc::clone(handles)),
        }
    }
}

/// What kind of file a descriptor stands for, for `fstat`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Description {
    /// An opened render node: a character device.
    Node,
    /// An opened software timeline: a plain file of debugfs.
    Timeline,
    /// An object or a sync file: a file without a name.
    Anonymous,
}

/// A counter with fences at values of it.
#[derive(Debug)]
pub(crate) struct Timeline<P: Provider> {
    pub(crate) name: Arc<Name>,
    pub(crate) value: u32,
    pub(crate) pending: Vec<Pending<P>>,
    /// At how many pending fences those that nobody has any more are looked for.
    pub(crate) look_at: usize,
}

/// Fewer pending fences are not worth a look.
pub(crate) const LOOK_AT_LEAST: usize = 64;

impl<P: Provider> Timeline<P> {
    /// Takes out the pending fences that no sync file and no object has. Cost: a look at all of them each
    /// time that their number has doubled.
    pub(crate) fn unwanted(&mut self) -> Vec<Pending<P>> {
        if self.pending.len() < self.look_at {
            return Vec::new();
        }
        let is_unwanted = |pending: &mut Pending<P>| {
            Arc::strong_count(&pending.times) == 1 && !pending.times.is_kept.load(Ordering::Relaxed)
        };
        let unwanted = self.pending.extract_if(.., is_unwanted).collect();
        self.look_at = LOOK_AT_LEAST.max(self.pending.len() * 2);
        unwanted
    }
}

/// A fence of a software timeline that is not done.
#[derive(Debug)]
pub(crate) struct Pending<P: Provider> {
    pub(crate) at: u32,
    pub(crate) signaller: P::Signaller,
    pub(crate) times: Arc<Times>,
}

impl<P: Provider> Device<P> {
    /// A device on a provider.
    #[must_use]
    pub fn new(provider: P) -> Self {
        Self {
            provider,
            files: Lock::new(HashMap::new()),
        }
    }

    /// Makes a descriptor for a file; `is_ready` is what `poll` says of it from the start.
    pub(crate) fn publish(&self, file: File<P>, is_ready: bool) -> Answer<OwnedFd> {
        self.sweep();
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(rustix::io::Errno::raw_os_error)?;
        if is_ready {
            rustix::net::send(&ours, b"1", rustix::net::SendFlags::NOSIGNAL)
                .map_err(rustix::io::Errno::raw_os_error)?;
        }
        let ours = Arc::new(ours);
        let mut entry = Entry {
            file,
            ours: Arc::clone(&ours),
            ring: None,
        };
        if let File::Fences(file) = &entry.file {
            let ring = Arc::new(Ring::socket(ours));
            entry.ring = Some(Arc::clone(&ring));
            self.ring_when_done(file, &ring)?;
        }
        let cookie = cookie(theirs.as_fd()).ok_or(libc::EINVAL)?;
        drop(self.files.lock().insert(cookie, entry));
        Ok(theirs)
    }

    /// Rings when all parts of a sync file are done.
    fn ring_when_done(&self, file: &SyncFile<P>, ring: &Arc<Ring>) -> Answer<()> {
        let is_pending = |part: &&Part<P>| self.provider.status(&part.fence) == 0;
        let pending: Vec<&Part<P>> = file.parts().iter().filter(is_pending).collect();
        let Ok(count @ 1..) = u32::try_from(pending.len()) else {
            ring.ring();
            return Ok(());
        };
        pending
            .iter()
            .zip(Ring::parts(ring, count))
            .try_for_each(|(part, ring)| self.provider.notify(&part.fence, Notice(ring)))
            .map_err(|error| code(&error))
    }

    /// What a descriptor stands for, if it is one of ours.
    pub(crate) fn file(&self, fd: BorrowedFd<'_>) -> Option<File<P>> {
        let cookie = cookie(fd)?;
        self.files
            .lock()
            .get(&cookie)
            .map(|entry| entry.file.clone())
    }

    /// Opens the render node: a descriptor with handles of its own.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn open_client(&self) -> Result<OwnedFd, Code> {
        self.publish(File::Client(Arc::new(Lock::new(Vec::new()))), false)
    }

    /// Serves a request on a descriptor number, its struct at an address of this process; `None` if
    /// the descriptor is none of ours.
    ///
    /// # Safety
    ///
    /// What the request writes to is zero, unmapped, or memory that the caller lets it write.
    #[expect(unsafe_code, reason = "a request carries addresses")]
    pub unsafe fn serve_at(
        self: &Arc<Self>,
        fd: i32,
        request: u32,
        address: u64,
    ) -> Option<Result<(), Code>> {
        let fd = super::client::borrow(fd)?;
        let file = self.file(fd)?;
        let client = match &file {
            File::Client(handles) => Some(Client::with(Arc::clone(self), Arc::clone(handles))),
            File::Object(_) | File::Fences(_) | File::Timeline(_) => None,
        };
        let mut argument = match take(request, address, client.is_some()) {
            Ok(argument) => argument,
            Err(code) => return Some(Err(code)),
        };
        let is_client = client.is_some();
        let answer = match client {
            // SAFETY: the caller's promise.
            Some(client) => unsafe { client.ioctl(request, &mut argument) },
            None => self.fence_request(&file, request, &mut argument),
        };
        // Back even if it failed where the DRM core serves, unless the request only goes in.
        let goes_back = request & GOES_BACK != 0 && (is_client || answer.is_ok());
        if goes_back && let Err(code) = memory::write(address, &argument) {
            return Some(Err(code));
        }
        Some(answer)
    }

    /// What kind of file a descriptor number stands for; `None` if it is none of ours.
    pub fn describe(&self, fd: i32) -> Option<Description> {
        let file = self.file(super::client::borrow(fd)?)?;
        Some(match file {
            File::Client(_) => Description::Node,
            File::Timeline(_) => Description::Timeline,
            File::Object(_) | File::Fences(_) => Description::Anonymous,
        })
    }

    /// Number of descriptors that are still open somewhere. Drops what closed ones held.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.sweep();
        self.files.lock().len()
    }

    /// Drops what descriptors held whose last copy is closed.
    pub fn sweep(&self) {
        let mut files = self.files.lock();
        let cookies: Vec<u64> = files.keys().copied().collect();
        let mut polls: Vec<PollFd<'_>> = files
            .values()
            .map(|entry| PollFd::new(&entry.ours, PollFlags::empty()))
            .collect();
        if polls.is_empty()
            || rustix::event::poll(&mut polls, Some(&rustix::time::Timespec::default())).is_err()
        {
            return;
        }
        let closed: Vec<u64> = cookies
            .into_iter()
            .zip(&polls)
            .filter(|(_, poll)| poll.revents().contains(PollFlags::HUP))
            .map(|(cookie, _)| cookie)
            .collect();
        drop(polls);
        let dropped: Vec<_> = closed
            .iter()
            .filter_map(|cookie| files.remove(cookie))
            .collect();
        // Outside the lock: ending the fences of a timeline rings sync files.
        drop(files);
        for entry in dropped {
            if let File::Timeline(timeline) = &entry.file {
                let pending = std::mem::take(&mut timeline.lock().pending);
                for pending in pending {
                    pending.times.note_end();
                    self.provider.fail(pending.signaller, libc::ENOENT);
                }
            }
        }
    }
}

/// The bit of a request's number that says that its struct is read by the kernel.
const GOES_IN: u32 = 1 << 30;
/// The bit that says that its struct is written.
const GOES_BACK: u32 = 1 << 31;

/// The caller's struct, of the size that the request encodes. The DRM core takes zeros for one that does
/// not go in; the requests of sync files are refused before they do anything if the answer cannot be
/// written.
fn take(request: u32, address: u64, is_client: bool) -> Answer<Vec<u8>> {
    let bytes = (request >> 16) & 0x3fff;
    if is_client && request & GOES_IN == 0 {
        return Ok(vec![0; usize::try_from(bytes).unwrap_or(0)]);
    }
    let argument = memory::read_bytes(address, bytes)?;
    if !is_client && request & GOES_BACK != 0 {
        memory::write(address, &argument)?;
    }
    Ok(argument)
}

/// The socket's number, unique until the machine restarts; `None` if this is no socket.
fn cookie(fd: BorrowedFd<'_>) -> Option<u64> {
    rustix::net::sockopt::socket_cookie(fd).ok()
}

/// The kernel's code for an error of a provider.
pub(crate) fn code(error: &Error) -> Code {
    error.code()
}

pub(crate) fn code_of(error: &std::io::Error) -> Code {
    error.raw_os_error().unwrap_or(libc::EIO)
}
