//! The disk as the store sees it: five calls that change it, four that look.
//!
//! Everything that this crate keeps goes through [`Disk`], so that tests can cut the power after any
//! of its operations (`testkit/failing-disk`). [`Folder`] is the real one.

mod folder;
mod kernel;
mod map;
mod pace;
mod process_io;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use folder::{Folder, IoCounts};
pub use kernel::{block_signals, idle_io_class};
pub(crate) use map::Page;
pub use pace::{Pace, Pacer, Pressure};
pub use process_io::ProcessIo;

/// Bytes of a file, mapped or copied. Cheap to clone.
#[derive(Clone)]
pub struct Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Bytes {
    /// Wraps anything that is a byte string.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bytes))
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}

/// What is to reach the disk before [`Disk::sync`] returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SyncTarget<'a> {
    /// The data of one file.
    File(&'a str),
    /// The names in the folder: files created, renamed and removed.
    Names,
}

/// One folder of files, named without a path.
///
/// # Invariants that the store relies on
///
/// - After [`sync`](Self::sync) returned, what it names survives a power cut. Nothing else is sure to:
///   unsynced bytes may be there, be missing, or be zero, in any mixture.
/// - A file that was created or claimed stays so until [`release`](Self::release), removal, or the end
///   of the process; meanwhile [`claim`](Self::claim) of anybody else answers `false`.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes an empty file for appending and claims it; `AlreadyExists` if the name is taken.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn create(&self, name: &str) -> io::Result<()>;

    /// Appends all `parts` in order to a file that this object created.
    ///
    /// # Errors
    ///
    /// The kernel's; any prefix of the bytes may then be in the file.
    fn append(&self, name: &str, parts: &[&[u8]]) -> io::Result<()>;

    /// Returns when the disk has it.
    ///
    /// # Errors
    ///
    /// The kernel's. What was unsynced before must then be taken for lost: the kernel marks pages
    /// clean after a failed write.
    fn sync(&self, what: SyncTarget<'_>) -> io::Result<()>;

    /// Puts the file `from` in the place of `to`, in one step.
    ///
    /// # Errors
    ///
    /// The kernel's; `to` is then as before.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a name away; readers that have the file open keep its bytes.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all regular files.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The bytes of a file as they are now.
    ///
    /// # Errors
    ///
    /// The kernel's; `InvalidInput` for what is not a regular file of ours.
    fn read(&self, name: &str) -> io::Result<Bytes>;

    /// Takes a file for oneself, without waiting; `false` if somebody else has it. A name that ends
    /// in `.lock` is made if it is not there.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn claim(&self, name: &str) -> io::Result<bool>;

    /// Gives back what [`create`](Self::create) or [`claim`](Self::claim) took. Unknown names are fine.
    fn release(&self, name: &str);

    /// Where this is, for messages.
    fn place(&self) -> String;
}
