//! The store: entries of kind, key and payload in append-only segments of one folder.

mod absorb;
mod open;
mod segment;
mod state;
mod tidy;
mod verify;
mod write;

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard};

pub use absorb::Absorbed;
pub use open::{Opened, open_existing, open_or_memory};
pub use tidy::{Limits, Tidied};
pub use verify::{SegmentReport, Stats, Verification};

use crate::error::Result;
use crate::format::{ContentId, Kind, Record};
use crate::storage::{Bytes, Disk};
use state::State;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The identity whose folder this is: see [`Identity::hash`](crate::Identity::hash).
    pub identity: [u8; 16],
    /// Today as days since 1970. The store never counts back: it takes the newest day it has seen.
    pub day: u32,
    /// Whether to write at all.
    pub is_read_only: bool,
    /// A use is noted again only when the last note is this many days old, so that most starts
    /// write nothing.
    pub use_note_days: u32,
}

impl Options {
    /// The usual choice for an identity: today, writable, uses noted weekly.
    #[must_use]
    pub fn new(identity: [u8; 16]) -> Self {
        Self {
            identity,
            day: crate::identity::today(),
            is_read_only: false,
            use_note_days: 7,
        }
    }
}

/// A position in what this process appended; later appends have higher tickets.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Ticket(pub(crate) u64);

/// A verified payload, still in the file's map. Cheap to clone.
#[derive(Clone)]
pub struct Blob {
    data: Bytes,
    range: Range<usize>,
    id: ContentId,
}

impl Blob {
    fn new(data: Bytes, record: &Record) -> Option<Self> {
        let start = usize::try_from(record.payload_offset()).ok()?;
        let end = start.checked_add(usize::try_from(record.payload_len).ok()?)?;
        (end <= data.len()).then_some(Self {
            data,
            range: start..end,
            id: record.id,
        })
    }

    /// The content id, which was checked against the bytes when the blob was looked up.
    #[must_use]
    pub fn id(&self) -> ContentId {
        self.id
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.data.get(self.range.clone()).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes, {})", self.len(), self.id)
    }
}

/// What the index knows about an entry; its payload is unseen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The entry's kind.
    pub kind: Kind,
    /// The entry's key.
    pub key: Box<[u8]>,
    /// Payload length in bytes.
    pub bytes: u64,
    /// What the payload must hash to.
    pub id: ContentId,
    /// Grows with each append to the store, whatever the clock says.
    pub order: u64,
    /// Day of the last noted use, since 1970.
    pub last_use_day: u32,
}

/// A store of one identity. All calls may come from any thread.
///
/// Writers of several processes may have the same folder open; each appends to a segment of its own.
/// After a fork the child may go on only if no other thread was inside the store.
#[derive(Debug)]
pub struct Store {
    disk: Arc<dyn Disk>,
    options: Options,
    state: Mutex<State>,
}

impl Store {
    /// Opens the store in `disk`. Reads indexes, no payloads.
    ///
    /// # Cost
    ///
    /// One map per segment; for a sealed segment its index is read, for another its headers.
    ///
    /// # Errors
    ///
    /// [`Error::File`](crate::Error::File) if the folder cannot be listed. Damaged or unreadable files are skipped.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Self> {
        let mut state = State::new(&options);
        state.refresh(&*disk, options.identity)?;
        Ok(Self {
            disk,
            options,
            state: Mutex::new(state),
        })
    }

    /// Takes in what other processes appended or compacted since.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn refresh(&self) -> Result<()> {
        self.lock().refresh(&*self.disk, self.options.identity)
    }

    /// The payload under `kind` and `key`, checked; `None` is a miss, damaged entries included.
    ///
    /// # Cost
    ///
    /// One lock, one hash over the payload; no copy.
    pub fn lookup(&self, kind: Kind, key: &[u8]) -> Option<Blob> {
        let mut state = self.lock();
        let blob = state.fetch(&*self.disk, &(kind, key.into()))?;
        state.used_now.insert(blob.id);
        Some(blob)
    }

    /// All entries of a kind, or of all kinds, oldest first.
    pub fn entries(&self, kind: Option<Kind>) -> Vec<Entry> {
        let state = self.lock();
        let mut entries: Vec<Entry> = state
            .index
            .iter()
            .filter(|((k, _), _)| kind.is_none_or(|wanted| wanted == *k))
            .map(|((kind, key), slot)| Entry {
                kind: *kind,
                key: key.clone(),
                bytes: slot.payload_len,
                id: slot.id,
                order: slot.order,
                last_use_day: state.last_use(slot),
            })
            .collect();
        entries.sort_by(|a, b| (a.order, &a.key).cmp(&(b.order, &b.key)));
        entries
    }

    /// Whether there is such an entry; its payload is not checked.
    pub fn contains(&self, kind: Kind, key: &[u8]) -> bool {
        self.lock().index.contains_key(&(kind, key.into()))
    }

    /// The identity's hash that the store was opened with.
    pub fn identity(&self) -> [u8; 16] {
        self.options.identity
    }

    /// Whether appends are refused.
    pub fn is_read_only(&self) -> bool {
        self.options.is_read_only
    }

    /// Where the store is, for messages.
    pub fn place(&self) -> String {
        self.disk.place()
    }

    /// Locks the state, whose invariants hold between any two statements that may panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
