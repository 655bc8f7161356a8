//! How a blob grew: appended, content moved, or written anew.

use std::collections::{HashMap, HashSet};

use crate::bytes::len64;
use crate::format::ContentId;
use crate::saving::{Chunker, chunks, mesa};

/// What lies between two versions of a blob.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Difference {
    /// Bytes of the old one.
    pub bytes_old: u64,
    /// Bytes of the new one.
    pub bytes_new: u64,
    /// Equal bytes at the start.
    pub prefix: u64,
    /// Bytes of the new one in chunks that the old one has too, anywhere.
    pub bytes_known: u64,
    /// For Mesa's blobs: objects kept, added and gone.
    pub objects: Option<Objects>,
}

/// Objects of two Mesa blobs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Objects {
    /// In both.
    pub kept: u64,
    /// Only in the new one.
    pub added: u64,
    /// Only in the old one.
    pub gone: u64,
    /// Bytes of the added ones.
    pub bytes_added: u64,
}

impl Difference {
    /// One sentence: which way of saving only what is new would work.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        if self.bytes_old == self.bytes_new && self.prefix == self.bytes_old {
            "unchanged"
        } else if self.prefix == self.bytes_old {
            "append-only: the old blob is the start of the new one"
        } else if self.objects.is_some() {
            "Mesa objects in another order: an object-aware difference is exact"
        } else if self.bytes_known >= self.bytes_old.min(self.bytes_new) / 10 * 9 {
            "content moved whole: chunks find it again, a prefix difference does not"
        } else {
            "written anew: only a session overlay saves little"
        }
    }
}

/// Compares two versions of a blob.
#[must_use]
pub fn diff(old: &[u8], new: &[u8]) -> Difference {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let known: HashSet<ContentId> = ids(old).map(|(id, _)| id).collect();
    let bytes_known = ids(new)
        .filter(|(id, _)| known.contains(id))
        .map(|(_, len)| len)
        .sum();
    Difference {
        bytes_old: len64(old.len()),
        bytes_new: len64(new.len()),
        prefix: len64(prefix),
        bytes_known,
        objects: objects(old, new),
    }
}

/// Content ids and lengths of small chunks.
fn ids(bytes: &[u8]) -> impl Iterator<Item = (ContentId, u64)> + '_ {
    chunks(bytes, Chunker::SMALL).map(|range| {
        let chunk = bytes.get(range).unwrap_or_default();
        (ContentId::of(chunk), len64(chunk.len()))
    })
}

fn objects(old: &[u8], new: &[u8]) -> Option<Objects> {
    let set = |blob: &[u8]| -> Option<HashMap<ContentId, u64>> {
        let parts = mesa::parse(blob).filter(|objects| !objects.is_empty())?;
        let part = |object| {
            let detached = mesa::detach(blob, object);
            (ContentId::of(&detached), len64(detached.len()))
        };
        Some(parts.iter().map(part).collect())
    };
    let (old, new) = (set(old)?, set(new)?);
    let added = new.iter().filter(|(id, _)| !old.contains_key(*id));
    let bytes_added = added.clone().map(|(_, len)| len).sum();
    let added = len64(added.count());
    Some(Objects {
        kept: len64(new.len()) - added,
        added,
        gone: len64(old.keys().filter(|id| !new.contains_key(*id)).count()),
        bytes_added,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(len: usize, seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        std::iter::repeat_with(|| random.u8(..)).take(len).collect()
    }

    #[test]
    fn four_ways_of_growing_are_told_apart() {
        let old = random(400_000, 1);
        assert_eq!(diff(&old, &old).verdict(), "unchanged");
        let longer = [&old[..], &random(9000, 2)].concat();
        assert!(diff(&old, &longer).verdict().starts_with("append-only"));
        let moved = [
            &old[..32],
            &random(9000, 2),
            &old[200_000..],
            &old[32..200_000],
        ]
        .concat();
        let found = diff(&old, &moved);
        assert!(found.verdict().starts_with("content moved"), "{found:?}");
        assert!(
            diff(&old, &random(400_000, 3))
                .verdict()
                .starts_with("written anew")
        );
        let empty = diff(b"", b"");
        assert_eq!(empty.verdict(), "unchanged");
    }
}
