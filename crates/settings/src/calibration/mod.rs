//! What was measured about this machine and device, kept as one file per key.
//!
//! A [`Store`] is a folder of files, one per [`Key`], each replaced by an atomic rename. A
//! [`Snapshot`] is the whole store at one moment in one file: both arms of a comparison read the same
//! one, so that nothing is learnt between them.
//!
//! What a calibration says is up to the crate that made it: an [`Entry`] carries any JSON value.

mod envelope;
mod error;
mod key;
mod snapshot;
mod store;

pub use error::{Error, Operation};
pub use key::Key;
pub use snapshot::Snapshot;
pub use store::{Store, default_folder};

use serde::{Deserialize, Serialize};

/// Longest calibration file that is read, in bytes: far beyond what is ever written, so that a
/// hostile file cannot take the memory of a program that loads a layer.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// One calibration.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Entry {
    /// What was measured: device, machine and versions.
    pub key: Key,
    /// When, in seconds since 1970.
    pub made_at_s: u64,
    /// The measurement, in the form of the crate that made it.
    pub values: serde_json::Value,
}

impl Entry {
    /// An entry made now.
    ///
    /// # Errors
    ///
    /// [`Error::Form`] if `values` cannot be written as JSON.
    pub fn new<T: Serialize>(key: Key, values: &T) -> Result<Self, Error> {
        let values = serde_json::to_value(values).map_err(|source| Error::Form { source })?;
        let made_at_s = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |age| age.as_secs());
        Ok(Self {
            key,
            made_at_s,
            values,
        })
    }

    /// The measurement as `T`.
    ///
    /// # Errors
    ///
    /// [`Error::Form`] if it has another form.
    pub fn values<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Error> {
        T::deserialize(&self.values).map_err(|source| Error::Form { source })
    }
}
