//! One opened render node: handles and the requests that name one object.

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use towpath_sys::drm::{
    self, DrmVersion, GetCap, Layout, SyncobjCreate, SyncobjDestroy, SyncobjEventfd,
    SyncobjFdToHandle, SyncobjHandleToFd, SyncobjQuery, SyncobjReset, SyncobjSignal,
    SyncobjTimelineSignal, SyncobjTimelineWait, SyncobjTransfer, SyncobjWait,
};

use super::files::{Device, File, code};
use super::parts::SyncFile;
use super::{Answer, Code};
use crate::prim::{Arc, Lock};
use crate::provider::{Entry, Provider, WaitFor};
use crate::time::Deadline;

/// How long TRANSFER with FOR_SUBMIT waits: the kernel's fixed five seconds.
const TRANSFER_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// One opened render node.
#[derive(Debug)]
pub struct Client<P: Provider> {
    pub(crate) device: Arc<Device<P>>,
    handles: Arc<Handles<P>>,
}

/// Handle N is at N - 1; the lowest free number is given next, as the kernel's table does.
pub(crate) type Handles<P> = Lock<Vec<Option<<P as Provider>::Object>>>;

impl<P: Provider> Client<P> {
    /// Opens the device.
    #[must_use]
    pub fn open(device: Arc<Device<P>>) -> Self {
        Self::with(device, Arc::new(Lock::new(Vec::new())))
    }

    pub(crate) fn with(device: Arc<Device<P>>, handles: Arc<Handles<P>>) -> Self {
        Self { device, handles }
    }

    /// Serves one request: `argument` is the caller's struct of the size that the request encodes. It
    /// is written back even if the request fails, as the kernel does.
    ///
    /// # Errors
    ///
    /// The kernel's code; `EINVAL` for a number that is not served.
    ///
    /// # Safety
    ///
    /// Addresses in the struct that the request writes to (QUERY's points) are zero, unmapped, or
    /// memory that the caller lets it write.
    #[expect(unsafe_code, reason = "a request carries addresses")]
    pub unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<(), Code> {
        macro_rules! dispatch {
            ($($layout:ident => $method:ident,)*) => {
                match request & 0xffff {
                    $(number if number == $layout::REQUEST & 0xffff => {
                        serve(argument, |argument: &mut $layout| self.$method(argument))
                    })*
                    _ => Err(libc::EINVAL),
                }
            };
        }
        dispatch! {
            DrmVersion => version,
            GetCap => get_cap,
            SyncobjCreate => create,
            SyncobjDestroy => destroy,
            SyncobjHandleToFd => handle_to_fd,
            SyncobjFdToHandle => fd_to_handle,
            SyncobjWait => wait,
            SyncobjTimelineWait => timeline_wait,
            SyncobjReset => reset,
            SyncobjSignal => signal,
            SyncobjQuery => query,
            SyncobjTransfer => transfer,
            SyncobjTimelineSignal => timeline_signal,
            SyncobjEventfd => eventfd,
        }
    }

    #[expect(clippy::unused_self, reason = "one shape for all requests")]
    fn version(&self, argument: &mut DrmVersion) -> Answer<()> {
        (argument.major, argument.minor, argument.patchlevel) = (1, 0, 0);
        for (length, address, text) in [
            (&mut argument.name_len, argument.name, "towpath"),
            (&mut argument.date_len, argument.date, "20261130"),
            (
                &mut argument.desc_len,
                argument.desc,
                "sync objects without a GPU",
            ),
        ] {
            let room = usize::try_from(*length)
                .unwrap_or(usize::MAX)
                .min(text.len());
            if address != 0 && room > 0 {
                super::memory::write(address, text.as_bytes().get(..room).unwrap_or_default())?;
            }
            *length = text.len() as u64;
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "one shape for all requests")]
    fn get_cap(&self, argument: &mut GetCap) -> Answer<()> {
        match argument.capability {
            drm::CAP_SYNCOBJ | drm::CAP_SYNCOBJ_TIMELINE => {
                argument.value = 1;
                Ok(())
            }
            // Every other capability up to the last known one is one that this device lacks.
            0..=0x15 => {
                argument.value = 0;
                Ok(())
            }
            _ => Err(libc::EINVAL),
        }
    }

    fn create(&self, argument: &mut SyncobjCreate) -> Answer<()> {
        if argument.flags & !drm::CREATE_SIGNALED != 0 {
            return Err(libc::EINVAL);
        }
        let is_signaled = argument.flags & drm::CREATE_SIGNALED != 0;
        let object = self
            .device
            .provider
            .create(is_signaled)
            .map_err(|error| code(&error))?;
        argument.handle = self.add(object)?;
        Ok(())
    }

    fn destroy(&self, argument: &mut SyncobjDestroy) -> Answer<()> {
        if argument.pad != 0 {
            return Err(libc::EINVAL);
        }
        let index = index(argument.handle).ok_or(libc::EINVAL)?;
        let object = self.handles.lock().get_mut(index).and_then(Option::take);
        object.map(drop).ok_or(libc::EINVAL)
    }

    fn handle_to_fd(&self, argument: &mut SyncobjHandleToFd) -> Answer<()> {
        if argument.pad != 0 || argument.flags & !(drm::FD_SYNC_FILE | drm::FD_TIMELINE) != 0 {
            return Err(libc::EINVAL);
        }
        let fd = if argument.flags & drm::FD_SYNC_FILE != 0 {
            let point = if argument.flags & drm::FD_TIMELINE != 0 {
                argument.point
            } else {
                0
            };
            let object = self.find(argument.handle)?;
            let provider = &self.device.provider;
            let fence = provider
                .fence_of(&object, point)
                .map_err(|error| code(&error))?;
            self.device.publish_sync_file(SyncFile::of_object(fence))?
        } else {
            let object = self.find(argument.handle).or(Err(libc::EINVAL))?;
            self.export(&object)?
        };
        argument.fd = fd.into_raw_fd();
        Ok(())
    }

    fn export(&self, object: &P::Object) -> Answer<OwnedFd> {
        match self
            .device
            .provider
            .export(object)
            .map_err(|error| code(&error))?
        {
            Some(fd) => Ok(fd),
            None => self.device.publish(File::Object(object.clone()), true),
        }
    }

    fn fd_to_handle(&self, argument: &mut SyncobjFdToHandle) -> Answer<()> {
        if argument.pad != 0 || argument.flags & !(drm::FD_SYNC_FILE | drm::FD_TIMELINE) != 0 {
            return Err(libc::EINVAL);
        }
        let fd = borrow(argument.fd).ok_or(libc::EINVAL)?;
        if argument.flags & drm::FD_SYNC_FILE != 0 {
            let Some(File::Fences(file)) = self.device.file(fd) else {
                return Err(libc::EINVAL);
            };
            let point = if argument.flags & drm::FD_TIMELINE != 0 {
                argument.point
            } else {
                0
            };
            let object = self.find(argument.handle)?;
            let provider = &self.device.provider;
            return provider
                .attach(&object, point, &file.fence(provider)?)
                .map_err(|error| code(&error));
        }
        let object = match self.device.file(fd) {
            Some(File::Object(object)) => object,
            Some(File::Fences(_) | File::Timeline(_) | File::Client(_)) => {
                return Err(libc::EINVAL);
            }
            None => {
                let found = self.device.provider.import(fd).or(Err(libc::EINVAL))?;
                found.ok_or(libc::EINVAL)?
            }
        };
        argument.handle = self.add(object)?;
        Ok(())
    }

    fn transfer(&self, argument: &mut SyncobjTransfer) -> Answer<()> {
        if argument.pad != 0 || argument.flags & !drm::WAIT_FOR_SUBMIT != 0 {
            return Err(libc::EINVAL);
        }
        let target = self.find(argument.dst_handle)?;
        let source = self.find(argument.src_handle)?;
        let provider = &self.device.provider;
        if argument.flags & drm::WAIT_FOR_SUBMIT != 0 {
            let entry = Entry {
                object: &source,
                point: argument.src_point,
            };
            let what = WaitFor::ALL.for_submit().available().interruptible();
            provider
                .wait(&[entry], what, Deadline::after(TRANSFER_WAIT))
                .map_err(|error| code(&error))?;
        }
        let fence = provider
            .fence_of(&source, argument.src_point)
            .map_err(|error| code(&error))?;
        provider
            .attach(&target, argument.dst_point, &fence)
            .map_err(|error| code(&error))
    }

    fn eventfd(&self, argument: &mut SyncobjEventfd) -> Answer<()> {
        if argument.flags & !drm::WAIT_AVAILABLE != 0 || argument.pad != 0 {
            return Err(libc::EINVAL);
        }
        let object = self.find(argument.handle)?;
        let fd = borrow(argument.fd).ok_or(libc::EBADF)?;
        let copy = fd
            .try_clone_to_owned()
            .map_err(|error| super::files::code_of(&error))?;
        let available = argument.flags & drm::WAIT_AVAILABLE != 0;
        self.device
            .provider
            .watch(&object, argument.point, available, copy)
            .map_err(|error| code(&error))
    }

    fn add(&self, object: P::Object) -> Answer<u32> {
        let mut handles = self.handles.lock();
        let free = handles
            .iter()
            .position(Option::is_none)
            .unwrap_or(handles.len());
        let handle = u32::try_from(free + 1).or(Err(libc::ENOSPC))?;
        match handles.get_mut(free) {
            Some(slot) => *slot = Some(object),
            None => handles.push(Some(object)),
        }
        Ok(handle)
    }

    /// The object of a handle, or `ENOENT`.
    pub(crate) fn find(&self, handle: u32) -> Answer<P::Object> {
        let index = index(handle).ok_or(libc::ENOENT)?;
        self.handles
            .lock()
            .get(index)
            .and_then(Clone::clone)
            .ok_or(libc::ENOENT)
    }

    /// The objects of all handles: one unknown handle and nothing is done.
    pub(crate) fn find_all(&self, handles: &[u32]) -> Answer<Vec<P::Object>> {
        let table = self.handles.lock();
        handles
            .iter()
            .map(|handle| {
                index(*handle)
                    .and_then(|index| table.get(index)?.clone())
                    .ok_or(libc::ENOENT)
            })
            .collect()
    }
}

fn index(handle: u32) -> Option<usize> {
    usize::try_from(handle.checked_sub(1)?).ok()
}

/// Copies the caller's bytes into the struct, zeros beyond, serves, and copies back.
pub(crate) fn serve<T: Layout + Default>(
    argument: &mut [u8],
    serve: impl FnOnce(&mut T) -> Answer<()>,
) -> Answer<()> {
    let mut value = T::default();
    for (to, from) in drm::bytes_mut(&mut value).iter_mut().zip(argument.iter()) {
        *to = *from;
    }
    let answer = serve(&mut value);
    for (to, from) in argument.iter_mut().zip(drm::bytes_mut(&mut value)) {
        *to = *from;
    }
    answer
}

/// A descriptor number that a program passed, if it is open.
#[expect(unsafe_code, reason = "a number becomes a borrowed descriptor")]
pub(crate) fn borrow<'a>(fd: i32) -> Option<BorrowedFd<'a>> {
    if fd < 0 {
        return None;
    }
    // SAFETY: not -1. The program owns the descriptor and passed it for this call; if it closes it
    // meanwhile, calls on it fail or meet another file, as they would in the kernel.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(fd).is_ok().then_some(fd)
}
