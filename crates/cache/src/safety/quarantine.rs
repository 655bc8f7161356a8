//! Blobs that drivers must not see again, and what drivers made of those that they saw.

use crate::error::Result;
use crate::format::{ContentId, Kind};
use crate::store::Store;

/// Deaths with the same blob in the driver's hands before it goes into quarantine: one may be SIGKILL.
const STRIKES_MAX: u8 = 2;

/// Notes that a process died while the driver read blob `id`; `true` if it is in quarantine now.
///
/// # Errors
///
/// The store's; the blob is then not remembered.
pub fn note_death(store: &Store, id: ContentId) -> Result<bool> {
    let before = store.lookup(Kind::STRIKE, &id.0);
    let strikes = before.and_then(|blob| blob.first().copied()).unwrap_or(0);
    let strikes = strikes.saturating_add(1);
    if strikes >= STRIKES_MAX {
        quarantine(store, id, "the process died twice while the driver read it")?;
        return Ok(true);
    }
    store.append(Kind::STRIKE, &id.0, &[strikes])?;
    store.flush()?;
    Ok(false)
}

/// Takes strikes back after the driver read the blob and lived. Writes nothing if there are none.
///
/// # Errors
///
/// The store's.
pub fn clear(store: &Store, id: ContentId) -> Result<()> {
    store.remove(Kind::STRIKE, &id.0).map(|_ticket| ())
}

/// Puts a blob into quarantine for good, durably.
///
/// # Errors
///
/// The store's.
pub fn quarantine(store: &Store, id: ContentId, reason: &str) -> Result<()> {
    store.append(Kind::QUARANTINE, &id.0, reason.as_bytes())?;
    store.flush()?;
    Ok(())
}

/// Whether no driver is to see the blob.
pub fn is_quarantined(store: &Store, id: ContentId) -> bool {
    store.contains(Kind::QUARANTINE, &id.0)
}

/// The ids in quarantine, each with its reason.
pub fn quarantined(store: &Store) -> Vec<(ContentId, String)> {
    let entries = store.entries(Some(Kind::QUARANTINE));
    let reason = |key: &[u8]| {
        let id = ContentId(key.try_into().ok()?);
        let blob = store.lookup(Kind::QUARANTINE, key)?;
        Some((id, String::from_utf8_lossy(&blob).into_owned()))
    };
    entries
        .iter()
        .filter_map(|entry| reason(&entry.key))
        .collect()
}

/// What a driver made of a blob that it took without an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acceptance {
    /// It kept at least nine tenths.
    Accepted,
    /// It kept something.
    Partly,
    /// It kept less than a tenth: silently rejected.
    Rejected,
}

/// Judges by the size that the driver reports after it was given `given` bytes.
#[must_use]
pub fn acceptance(given: u64, reported: u64) -> Acceptance {
    if reported >= given / 10 * 9 {
        Acceptance::Accepted
    } else if reported < given.div_ceil(10) {
        Acceptance::Rejected
    } else {
        Acceptance::Partly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_rejection_is_told_from_a_partial_one() {
        // The case of vulkan-performance-layers PR 35.
        assert_eq!(acceptance(566_004, 52), Acceptance::Rejected);
        assert_eq!(acceptance(566_004, 566_004), Acceptance::Accepted);
        assert_eq!(acceptance(566_004, 600_000), Acceptance::Accepted);
        assert_eq!(acceptance(566_004, 300_000), Acceptance::Partly);
        assert_eq!(acceptance(33, 0), Acceptance::Rejected);
    }
}
