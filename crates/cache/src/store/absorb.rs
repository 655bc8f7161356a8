//! Taking over the entries of another store.

use super::Store;
use crate::error::Result;
use crate::safety;

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Absorbed {
    /// Entries copied.
    pub copied: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Entries that were here already with the same bytes.
    pub known: u64,
    /// Entries that are here with other bytes; ours stay.
    pub conflicting: u64,
    /// Entries damaged over there.
    pub damaged: u64,
    /// Entries in quarantine on either side; they are not copied.
    pub quarantined: u64,
}

impl Store {
    /// Copies what `other` has and this store lacks, and syncs. Bytes are checked on the way.
    ///
    /// The caller makes sure that both are of one identity, or that the entries do not depend on it.
    ///
    /// # Errors
    ///
    /// The store's; what was copied so far may be there.
    pub fn absorb(&self, other: &Self) -> Result<Absorbed> {
        let mut done = Absorbed::default();
        for entry in other.entries(None) {
            if self.contains(entry.kind, &entry.key) {
                let ours = self.lookup(entry.kind, &entry.key).map(|blob| blob.id());
                if ours == Some(entry.id) {
                    done.known += 1;
                    continue;
                }
                if ours.is_some() {
                    done.conflicting += 1;
                    continue;
                }
            }
            if safety::is_quarantined(self, entry.id) || safety::is_quarantined(other, entry.id) {
                done.quarantined += 1;
                continue;
            }
            let Some(blob) = other.lookup(entry.kind, &entry.key) else {
                done.damaged += 1;
                continue;
            };
            self.append(entry.kind, &entry.key, &blob)?;
            done.copied += 1;
            done.bytes += entry.bytes;
        }
        self.seal()?;
        Ok(done)
    }
}
