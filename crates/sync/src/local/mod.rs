//! Sync objects of one process.
//!
//! A check of a reached object is one load; a wait on up to [`INLINE`] objects allocates nothing and
//! sleeps in one system call. Objects must not be used in a child after `fork`: a lock held by
//! another thread of the parent would stay taken there.

use crate::error::Result;
use crate::prim::Arc;
use crate::provider::{Entry, WaitFor};
use crate::time::Deadline;

#[doc(hidden)]
pub mod blocking;
pub(crate) mod fence;
pub(crate) mod future;
pub(crate) mod object;
mod provider;
pub(crate) mod ring;
pub(crate) mod wait;

pub use blocking::wait;
use object::Standing;

/// Objects that a wait holds in its own frame: as many as the widest user is known to pass (64, the
/// limit of `WaitForMultipleObjects`). Beyond it a wait allocates once.
pub const INLINE: usize = 64;

/// Makes objects that live in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

/// A sync object of this process. A clone is the same object.
#[derive(Clone, Debug)]
pub struct Object(pub(crate) Arc<object::Object>);

/// A fence of this process. A clone is the same fence.
#[derive(Clone, Debug)]
pub struct Fence(pub(crate) Option<Arc<fence::Fence>>);

impl Fence {
    /// A fence that is done.
    pub const DONE: Self = Self(None);
}

impl Object {
    /// Makes an object, without a fence or with one that is done.
    #[must_use]
    pub fn new(signaled: bool) -> Self {
        Self(object::Object::new(signaled))
    }

    /// Whether `point` (zero: the current fence) is done. Cost: one load if it was seen done before,
    /// else a lock of a few instructions. No system call.
    #[must_use]
    #[inline]
    pub fn is_reached(&self, point: u64) -> bool {
        self.0.is_known_reached(point) || matches!(self.0.standing(point), Standing::Reached)
    }

    /// Adds a done point; as [`Provider::signal_point`](crate::Provider::signal_point). Cost: a lock of a few instructions, one
    /// system call for each sleeper that this satisfies.
    pub fn signal_point(&self, point: u64) {
        self.0.add(point, None);
    }

    /// Waits for one point, also for one not submitted yet.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](crate::Error::TimedOut).
    pub fn wait(&self, point: u64, deadline: Deadline) -> Result<()> {
        wait(
            &[Entry {
                object: self,
                point,
            }],
            WaitFor::ALL.for_submit(),
            deadline,
        )
        .map(|_| ())
    }
}
