//! A handle of the kernel and what is known of it here.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use towpath_sys::drm::{SyncobjDestroy, calls};

use super::Drm;
use crate::forks;
use crate::local;

/// A kernel object. A clone is the same object; the last one gives the handle back.
#[derive(Clone, Debug)]
pub struct Object(pub(super) Arc<Handle>);

#[derive(Debug)]
pub(super) struct Handle {
    fd: Arc<OwnedFd>,
    pub(super) number: u32,
    /// Whether only this process can name it.
    is_private: AtomicBool,
    /// How often this process had forked when the object was made.
    forks: u64,
    /// The process that made it: a child has the same open file, and must not take the handle from its parent.
    maker: u32,
    /// Highest point seen done, while private.
    reached: AtomicU64,
    /// Whether `twin` says what the kernel's object does: private, signalled and reset only.
    has_twin: AtomicBool,
    pub(super) twin: local::Object,
    /// Held while both are changed, so that they are changed in one order.
    order: Mutex<()>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.maker != std::process::id() {
            return;
        }
        let mut argument = SyncobjDestroy {
            handle: self.number,
            pad: 0,
        };
        // Fails only for a handle that is not there; nothing can be done about that here.
        let _destroyed = calls::destroy(self.fd.as_fd(), &mut argument);
    }
}

impl Drm {
    pub(super) fn object(&self, handle: u32, is_private: bool, signaled: bool) -> Object {
        Object(Arc::new(Handle {
            fd: Arc::clone(&self.fd),
            number: handle,
            is_private: AtomicBool::new(is_private),
            forks: forks::count(),
            maker: std::process::id(),
            reached: AtomicU64::new(0),
            has_twin: AtomicBool::new(is_private),
            twin: local::Object::new(signaled),
            order: Mutex::new(()),
        }))
    }
}

impl Object {
    /// Whether a point was seen done and cannot have been taken back since. Cost: some loads.
    #[must_use]
    pub fn is_known_reached(&self, point: u64) -> bool {
        point != 0 && self.is_private() && self.0.reached.load(Ordering::Acquire) >= point
    }

    pub(super) fn is_private(&self) -> bool {
        self.0.is_private.load(Ordering::Acquire) && self.0.forks == forks::count()
    }

    pub(super) fn has_twin(&self) -> bool {
        self.0.has_twin.load(Ordering::Acquire) && self.0.forks == forks::count()
    }

    pub(super) fn remember(&self, point: u64) {
        if self.is_private() {
            self.0.reached.fetch_max(point, Ordering::AcqRel);
        }
    }

    /// After a change that may take points back.
    pub(super) fn forget(&self) {
        self.0.reached.store(0, Ordering::Release);
    }

    /// From now on others may change it.
    pub(super) fn share(&self) {
        self.0.is_private.store(false, Ordering::Release);
        self.leave_twin();
    }

    /// Returns when no change is under way: the twin then knows all that the kernel has shown before.
    pub(super) fn settle(&self) {
        drop(self.0.order.lock());
    }

    /// Makes the same change to the kernel's object and to the twin, in this order.
    pub(super) fn change(
        &self,
        kernel: impl FnOnce() -> std::io::Result<()>,
        twin: impl FnOnce(&local::Object),
    ) -> std::io::Result<()> {
        let _order = self.0.order.lock();
        kernel()?;
        if self.has_twin() {
            twin(&self.0.twin);
        }
        Ok(())
    }

    /// Something that the twin cannot follow comes: who sleeps on it is woken and looks at the kernel's.
    pub(super) fn leave_twin(&self) {
        let _order = self.0.order.lock();
        if self.0.has_twin.swap(false, Ordering::AcqRel) {
            self.0.twin.signal_point(u64::MAX);
        }
    }
}
