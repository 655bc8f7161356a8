//! Descriptors that stand for objects, fences and software timelines.
//!
//! Each is one end of a socket pair. The socket's cookie, which the kernel never gives twice,
//! identifies it through `dup`, `fork` and passing between processes, and never names a file that
//! was closed; our end hears when the last copy is closed, and then the entry goes.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::client::{Client, Handles};
use super::{Answer, Code, memory};
use crate::error::Error;
use crate::prim::{Arc, Lock};
use crate::provider::Provider;

/// What a render node names: a provider and the descriptors made for it.
#[derive(Debug)]
pub struct Device<P: Provider> {
    pub(crate) provider: P,
    files: Lock<HashMap<u64, Entry<P>>>,
}

#[derive(Debug)]
struct Entry<P: Provider> {
    file: File<P>,
    ours: OwnedFd,
}

/// What a descriptor stands for.
#[derive(Debug)]
pub(crate) enum File<P: Provider> {
    Object(P::Object),
    SyncFile(SyncFile<P>),
    Timeline(Arc<Lock<Timeline<P>>>),
    /// An opened render node.
    Client(Arc<Handles<P>>),
}

impl<P: Provider> Clone for File<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(object.clone()),
            Self::SyncFile(file) => Self::SyncFile(SyncFile {
                name: file.name,
                fence: file.fence.clone(),
            }),
            Self::Timeline(timeline) => Self::Timeline(Arc::clone(timeline)),
            Self::Client(handles) => Self::Client(Arc::clone(handles)),
        }
    }
}

/// A fence behind a descriptor.
#[derive(Debug)]
pub(crate) struct SyncFile<P: Provider> {
    pub(crate) name: [u8; 32],
    pub(crate) fence: P::Fence,
}

/// A counter with fences at values of it.
#[derive(Debug)]
pub(crate) struct Timeline<P: Provider> {
    pub(crate) value: u32,
    pub(crate) pending: Vec<(u32, P::Signaller)>,
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
        if let File::SyncFile(sync_file) = &file {
            let bell = ours.try_clone().map_err(|error| code_of(&error))?;
            self.provider
                .notify(&sync_file.fence, bell)
                .map_err(|error| code(&error))?;
        }
        let cookie = cookie(theirs.as_fd()).ok_or(libc::EINVAL)?;
        drop(self.files.lock().insert(cookie, Entry { file, ours }));
        Ok(theirs)
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
        let client = match self.file(fd)? {
            File::Client(handles) => Some(Client::with(Arc::clone(self), handles)),
            File::Object(_) | File::SyncFile(_) | File::Timeline(_) => None,
        };
        let bytes = (request >> 16) & 0x3fff;
        let mut argument = match memory::read_bytes(address, bytes) {
            Ok(argument) => argument,
            Err(code) => return Some(Err(code)),
        };
        let answer = match client {
            // SAFETY: the caller's promise.
            Some(client) => unsafe { client.ioctl(request, &mut argument) },
            // SAFETY: the caller's promise.
            None => unsafe { self.fence_ioctl(fd, request, &mut argument) },
        };
        // Back even if it failed, as the kernel does, unless the request only goes in.
        let is_read = request >> 31 != 0;
        if is_read && let Err(code) = memory::write(address, &argument) {
            return Some(Err(code));
        }
        Some(answer)
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
        drop(dropped);
    }
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
