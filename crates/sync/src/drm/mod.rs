//! The kernel's own sync objects, through a render node.
//!
//! Handles and descriptors are owned; lengths are checked before the kernel sees them
//! (`towpath_sys::drm::calls`).
//!
//! Two things are known without asking the kernel, both only of objects that this process made and
//! never exported, since everyone who has an object may reset it unseen:
//!
//! - An object that was only signalled and reset here has a twin of this process beside it
//!   ([`crate::local`]): a wait on such objects is a wait on their twins, and makes no request. The
//!   first fence from elsewhere, or an export, ends that; who sleeps on a twin then goes on to the
//!   kernel's object.
//! - A point that was seen done is remembered, so that waiting for it again makes no system call.
//!
//! A child after `fork` shares the handles: what was made before it is no longer private in either
//! process, and a wait that sleeps on a twin at that moment does not see what the child does.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use towpath_sys::drm::{self as sys, GetCap, SyncobjEventfd, SyncobjTransfer, calls};

use crate::error::{Error, Result};
use crate::provider::Entry;

mod object;
mod provider;
mod wait;

pub use object::Object;

fn system(operation: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { operation, source }
}

/// An opened render node with timeline objects.
#[derive(Clone, Debug)]
pub struct Drm {
    fd: Arc<OwnedFd>,
}

/// A sync file. A clone is the same fence.
#[derive(Clone, Debug)]
pub struct Fence(Arc<OwnedFd>);

impl From<OwnedFd> for Fence {
    /// The fence of a sync file; that it is one shows at its first use.
    fn from(file: OwnedFd) -> Self {
        Self(Arc::new(file))
    }
}

impl AsFd for Fence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The kernel lets programs end no fences but through its debug interface: there is none of these.
#[derive(Debug)]
pub enum Signaller {}

impl Drm {
    /// Opens a render node.
    ///
    /// # Errors
    ///
    /// [`Error::System`] if it cannot be opened, [`Error::WrongDescriptor`] if it has no timelines.
    pub fn open(path: &Path) -> Result<Self> {
        let file = std::fs::File::options().read(true).write(true).open(path);
        Self::from_fd(file.map_err(system("open the render node"))?.into())
    }

    /// Takes an opened render node.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDescriptor`] if it has no timelines.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let mut cap = GetCap {
            capability: sys::CAP_SYNCOBJ_TIMELINE,
            value: 0,
        };
        #[expect(unsafe_code, reason = "the struct carries no address")]
        // SAFETY: no address in it.
        let answer = unsafe { calls::issue(fd.as_fd(), &mut cap) };
        if answer.is_err() || cap.value == 0 {
            return Err(Error::WrongDescriptor {
                what: "a render node with timeline objects",
            });
        }
        Ok(Self { fd: Arc::new(fd) })
    }

    /// Copies a fence from one object's point to another's; with `for_submit`, waits up to five
    /// seconds for it to be there.
    ///
    /// # Errors
    ///
    /// [`Error::System`] with the kernel's code: `EINVAL` if there is none, `ETIME`.
    pub fn transfer(
        &self,
        to: Entry<'_, Object>,
        from: Entry<'_, Object>,
        for_submit: bool,
    ) -> Result<()> {
        let mut argument = SyncobjTransfer {
            src_handle: from.object.0.number,
            dst_handle: to.object.0.number,
            src_point: from.point,
            dst_point: to.point,
            flags: if for_submit { sys::WAIT_FOR_SUBMIT } else { 0 },
            pad: 0,
        };
        to.object.leave_twin();
        calls::transfer(self.fd.as_fd(), &mut argument).map_err(system("transfer a fence"))?;
        to.object.forget();
        Ok(())
    }

    /// As [`Provider::watch`]; the kernel keeps the eventfd, not its number.
    pub(crate) fn watch_borrowed(
        &self,
        object: &Object,
        point: u64,
        available: bool,
        fd: BorrowedFd<'_>,
    ) -> Result<()> {
        let mut argument = SyncobjEventfd {
            handle: object.0.number,
            flags: if available { sys::WAIT_AVAILABLE } else { 0 },
            point,
            fd: fd.as_raw_fd(),
            pad: 0,
        };
        calls::eventfd(self.fd.as_fd(), &mut argument).map_err(system("register an eventfd"))
    }
}
