//! What every kind of sync object does: the one interface over the kernel's, the process's own and
//! those shared between processes.

use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::error::{Error, Result};
use crate::local::ring::Ring;
use crate::prim::Arc;
use crate::time::Deadline;

/// One object of a wait and the point of it that is waited for; point zero is the current fence.
#[derive(Debug)]
pub struct Entry<'a, O> {
    /// The object.
    pub object: &'a O,
    /// The point.
    pub point: u64,
}

impl<O> Clone for Entry<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Entry<'_, O> {}

/// What a wait waits for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaitFor {
    /// All objects; else any one.
    pub all: bool,
    /// Objects without a fence are waited for as well; else they end the wait with
    /// [`Error::NotSubmitted`](crate::Error::NotSubmitted).
    pub submit: bool,
    /// A fence is enough, done or not. Implies `submit`.
    pub available: bool,
    /// A signal that a handler of this thread took ends the sleep with
    /// [`Error::Interrupted`](crate::Error::Interrupted), unless the handler was set with `SA_RESTART`: as
    /// the kernel's requests do, for programs that leave a wait by a signal. Objects of the kernel are
    /// waited for again all the same.
    pub interruptible: bool,
}

impl WaitFor {
    /// Any one object done, all submitted before.
    pub const ANY: Self = Self {
        all: false,
        submit: false,
        available: false,
        interruptible: false,
    };
    /// All objects done, all submitted before.
    pub const ALL: Self = Self {
        all: true,
        submit: false,
        available: false,
        interruptible: false,
    };

    /// The same, also for points that get their fence later.
    #[must_use]
    pub const fn for_submit(self) -> Self {
        Self {
            submit: true,
            ..self
        }
    }

    /// The same, ended by the fence's arrival.
    #[must_use]
    pub const fn available(self) -> Self {
        Self {
            available: true,
            ..self
        }
    }

    /// The same, ended by a signal as the kernel's requests are.
    #[must_use]
    pub const fn interruptible(self) -> Self {
        Self {
            interruptible: true,
            ..self
        }
    }

    pub(crate) fn takes_absent(self) -> bool {
        self.submit || self.available
    }
}

/// What a wait that succeeded found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waited {
    /// For a wait on any: the lowest index that was ready when the wait looked. For a wait on all:
    /// the lowest one ready at the first look, if there was one.
    pub first: Option<usize>,
}

/// What is told once when a fence is done.
#[derive(Debug)]
pub struct Notice(pub(crate) Arc<Ring>);

impl TryFrom<OwnedFd> for Notice {
    type Error = Error;

    /// One is added to an eventfd; anything else is an [`Error::WrongDescriptor`]. Cost: three system calls.
    fn try_from(fd: OwnedFd) -> Result<Self> {
        Ok(Self(Arc::new(Ring::descriptor(fd)?)))
    }
}

/// How far an object is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Highest point that is done together with all added before it.
    pub reached: u64,
    /// Highest point that was added.
    pub submitted: u64,
}

/// A source of sync objects with the kernel's meaning.
///
/// Not to be implemented elsewhere: operations are added as the kernel adds them.
pub trait Provider: Debug + Send + Sync + 'static {
    /// A sync object. A clone is the same object.
    type Object: Clone + Debug + Send + Sync + 'static;
    /// Something that ends once. A clone is the same fence.
    type Fence: Clone + Debug + Send + Sync + 'static;
    /// The right to end a fence; dropped unused, the fence ends with an error.
    type Signaller: Debug + Send + 'static;

    /// Makes an object, without a fence or with one that is done.
    ///
    /// # Errors
    ///
    /// [`Error::Full`](crate::Error::Full), [`Error::System`](crate::Error::System).
    fn create(&self, signaled: bool) -> Result<Self::Object>;

    /// Makes a fence and the right to end it.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    fn fence(&self) -> Result<(Self::Signaller, Self::Fence)>;

    /// Ends a fence.
    fn end(&self, signaller: Self::Signaller);

    /// Zero while a fence is pending, one when it is done, a negative code when it ended by failure.
    fn status(&self, fence: &Self::Fence) -> i32;

    /// Ends a fence by failure: its status is `-code`.
    fn fail(&self, signaller: Self::Signaller, code: i32);

    /// Gives a notice when the fence is done; at once if it is.
    ///
    /// # Errors
    ///
    /// [`Error::System`](crate::Error::System) where a helper thread is needed and cannot start.
    fn notify(&self, fence: &Self::Fence, notice: Notice) -> Result<()>;

    /// A fence that is done when all are.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    fn join(&self, first: &Self::Fence, second: &Self::Fence) -> Result<Self::Fence>;

    /// Makes the current fence one that is done; a timeline is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`](crate::Error::Damaged) for shared objects only.
    fn signal(&self, object: &Self::Object) -> Result<()>;

    /// Adds a point that is done as soon as all before it are.
    ///
    /// # Errors
    ///
    /// As [`Self::signal`], and [`Error::Full`](crate::Error::Full).
    fn signal_point(&self, object: &Self::Object, point: u64) -> Result<()>;

    /// Takes the fence or the timeline away. Waits under way keep theirs.
    ///
    /// # Errors
    ///
    /// As [`Self::signal`].
    fn reset(&self, object: &Self::Object) -> Result<()>;

    /// Makes `fence` the current fence (point zero), or adds it at a point.
    ///
    /// # Errors
    ///
    /// As [`Self::signal_point`].
    fn attach(&self, object: &Self::Object, point: u64, fence: &Self::Fence) -> Result<()>;

    /// The fence of a point (zero: the current one), which may be done.
    ///
    /// # Errors
    ///
    /// [`Error::NotSubmitted`](crate::Error::NotSubmitted) if there is none.
    fn fence_of(&self, object: &Self::Object, point: u64) -> Result<Self::Fence>;

    /// How far a timeline is.
    ///
    /// # Errors
    ///
    /// As [`Self::signal`].
    fn query(&self, object: &Self::Object) -> Result<Progress>;

    /// Waits.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](crate::Error::TimedOut),
    /// [`Error::NotSubmitted`](crate::Error::NotSubmitted) (even if another object is ready, as in
    /// the kernel), [`Error::SignallerDead`](crate::Error::SignallerDead).
    fn wait(
        &self,
        entries: &[Entry<'_, Self::Object>],
        what: WaitFor,
        deadline: Deadline,
    ) -> Result<Waited>;

    /// A descriptor by which another process finds the object, if this kind has such; a kind without
    /// answers `None`.
    ///
    /// # Errors
    ///
    /// [`Error::System`](crate::Error::System).
    fn export(&self, object: &Self::Object) -> Result<Option<OwnedFd>>;

    /// The object behind a descriptor of [`Self::export`]; `None` if it is not one.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`](crate::Error::Damaged), [`Error::System`](crate::Error::System).
    fn import(&self, fd: BorrowedFd<'_>) -> Result<Option<Self::Object>>;

    /// Adds one to the eventfd `fd` when the point is done, or has a fence (`available`). Never waits, whatever the
    /// eventfd's counter is.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDescriptor`](crate::Error::WrongDescriptor) if it is no eventfd; else as [`Self::notify`].
    fn watch(&self, object: &Self::Object, point: u64, available: bool, fd: OwnedFd) -> Result<()>;
}
