//! The whole store at one moment in one file.

use std::path::Path;

use super::{Entry, Error, Key, envelope, store};

/// Calibrations frozen for both arms of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    entries: Vec<Entry>,
}

impl Snapshot {
    /// A snapshot of `entries`.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// Reads a snapshot file.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be read, [`Error::Damaged`] or [`Error::Form`] if it is not a
    /// snapshot as this version writes it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&store::read_bounded(path)?, path)
    }

    /// Reads the bytes of a snapshot; `path` is for the error's text.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::read`], without the file.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        envelope::open(SCHEMA, bytes, path).map(Self::new)
    }

    /// Writes the snapshot, whole or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the kernel refuses; what was at `path` is then unchanged.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        store::publish(path, &envelope::seal(SCHEMA, &self.entries)?)
    }

    /// The calibration of `key`, if it was frozen.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == *key)
    }

    /// All of them.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

const SCHEMA: &str = "towpath.calibration-snapshot/1";
