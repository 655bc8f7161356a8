//! Crash-safe store of driver blobs: writes only what is new, and never loses or poisons anything.
//!
//! # What this crate does
//!
//! - [`Store`]: entries of kind, key and payload in append-only segments of one folder per
//!   [`Identity`]; many processes write at once, each to a segment of its own. See `docs/store.md`.
//! - [`safety`]: what is checked before a driver sees a stored byte.
//! - [`saving`]: whole blobs of programs that keep one: written when changed, or only their new parts.
//! - [`foreign`]: pipeline cache files of other programs, listed and checked.
//! - [`policy`]: which create calls of a program may be served from the store.
//! - `vulkan`: base cache and session overlay of one device, with ash.
//!
//! # What it does not do
//!
//! - It never prints and reads no environment.
//! - It does not defend against somebody who can write as this user: checksums find accidents.
//!
//! # Invariants
//!
//! - No payload leaves the store unless every byte of it is as it was appended.
//! - What [`Store::flush`] acknowledged survives SIGKILL and power cuts.
//! - A file is only ever appended to, or unlinked; never rewritten, never cut.
//!
//! # Use
//!
//! ```
//! use towpath_cache::{Identity, Kind, Options, open_or_memory};
//!
//! # let root = tempfile::tempdir()?;
//! let identity = Identity { vendor: 0x10de, ..Identity::default() };
//! let options = Options::new(identity.hash());
//! // Never fails: where nothing can be written, the store is empty and takes nothing.
//! let opened = open_or_memory(&[root.path().to_owned()], &identity, &options);
//! for problem in &opened.problems { /* one line each for the log */ }
//! let store = opened.store;
//!
//! // At start: each blob is checked before it is handed out, and stays in the file's map.
//! for entry in store.entries(Some(Kind::OVERLAY)) {
//!     if let Some(blob) = store.lookup(entry.kind, &entry.key) {
//!         // vkCreatePipelineCache(initialData = &blob[..])
//!     }
//! }
//! // In play, off the program's threads: append does not sync.
//! store.append(Kind::OVERLAY, b"key", b"a VkPipelineCache blob of new things only")?;
//! // When idle: one fdatasync; only then is it acknowledged.
//! store.flush()?;
//! // At exit: index, sync. Writes nothing if nothing was appended.
//! store.seal()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod error;
pub mod foreign;
mod format;
pub mod identity;
pub mod policy;
pub mod safety;
pub mod saving;
pub mod storage;
mod store;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use error::{Error, Operation, Result};
pub use format::{ContentId, Kind, VERSION};
pub use identity::Identity;
pub use storage::{Bytes, Disk, Folder, Pace};
pub use store::{
    Absorbed, Blob, Entry, Limits, Opened, Options, SegmentReport, Stats, Store, Ticket, Tidied,
    Verification, open_existing, open_or_memory,
};
