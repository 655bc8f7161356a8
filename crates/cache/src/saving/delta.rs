//! A whole blob kept as parts in the store, of which only new ones are written.

use crate::bytes::{array_at, len64, u64_at};
use crate::error::Result;
use crate::format::{ContentId, Kind};
use crate::saving::chunks::{Chunker, chunks};
use crate::saving::mesa;
use crate::store::Store;

/// How a blob is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Objects of Mesa's format. Loading gives all objects ever saved, in the order of saving.
    MesaObjects,
    /// Content-defined chunks. Loading gives the bytes of the last save.
    Chunks,
}

/// What a save came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeltaSaved {
    /// How it is kept.
    pub form: Form,
    /// Parts of the blob.
    pub parts: u64,
    /// Parts that the store did not have.
    pub parts_new: u64,
    /// Bytes of these.
    pub bytes_new: u64,
}

const MESA: u8 = 1;
const CHUNKS: u8 = 2;
/// Lists of chunk ids up to this length stand in the head itself.
const LIST_BYTES_MAX: usize = 4096;
/// Nested lists: each level is at least 30 times shorter, so that four name more than any blob has.
const LEVELS_MAX: u8 = 6;

/// Stores `blob` under `name`, appending only parts that are new. Call [`Store::flush`] afterwards.
///
/// # Cost
///
/// One pass to cut (about 1 GB/s for chunks), one hash over each part, and one over its stored copy.
///
/// # Errors
///
/// The store's; the blob saved before is then still whole.
pub fn save_blob(store: &Store, name: &[u8], blob: &[u8]) -> Result<DeltaSaved> {
    match mesa::parse(blob) {
        Some(objects) if !objects.is_empty() => save_mesa(store, name, blob, &objects),
        _ => save_chunks(store, name, blob),
    }
}

fn save_mesa(
    store: &Store,
    name: &[u8],
    blob: &[u8],
    objects: &[mesa::Object],
) -> Result<DeltaSaved> {
    let mut saved = DeltaSaved {
        form: Form::MesaObjects,
        parts: len64(objects.len()),
        parts_new: 0,
        bytes_new: 0,
    };
    for object in objects {
        put_part(store, Kind::OBJECT, &mesa::detach(blob, object), &mut saved)?;
    }
    let mut head = vec![MESA];
    head.extend_from_slice(blob.get(..32).unwrap_or_default());
    store.append(Kind::HEAD, name, &head)?;
    Ok(saved)
}

fn save_chunks(store: &Store, name: &[u8], blob: &[u8]) -> Result<DeltaSaved> {
    let mut saved = DeltaSaved {
        form: Form::Chunks,
        parts: 0,
        parts_new: 0,
        bytes_new: 0,
    };
    let mut level = 0;
    let mut list = cut(store, blob, Chunker::for_len(blob.len()), &mut saved)?;
    while list.len() > LIST_BYTES_MAX && level < LEVELS_MAX {
        list = cut(store, &list, Chunker::SMALL, &mut saved)?;
        level += 1;
    }
    let mut head = vec![CHUNKS, level];
    head.extend_from_slice(&len64(blob.len()).to_le_bytes());
    head.extend_from_slice(&ContentId::of(blob).0);
    head.extend_from_slice(&list);
    store.append(Kind::HEAD, name, &head)?;
    Ok(saved)
}

/// Stores the chunks of `bytes` and returns the list of their ids.
fn cut(store: &Store, bytes: &[u8], chunker: Chunker, saved: &mut DeltaSaved) -> Result<Vec<u8>> {
    let mut list = Vec::new();
    for range in chunks(bytes, chunker) {
        let chunk = bytes.get(range).unwrap_or_default();
        saved.parts += 1;
        let id = put_part(store, Kind::CHUNK, chunk, saved)?;
        list.extend_from_slice(&id.0);
    }
    Ok(list)
}

fn put_part(store: &Store, kind: Kind, part: &[u8], saved: &mut DeltaSaved) -> Result<ContentId> {
    let id = ContentId::of(part);
    if !store.contains(kind, &id.0) {
        saved.parts_new += 1;
        saved.bytes_new += len64(part.len());
    }
    store.append(kind, &id.0, part)?;
    Ok(id)
}

/// The blob under `name`; `None` if there is none or a part of its chunks is missing or damaged.
///
/// A damaged Mesa object costs that object only.
pub fn load_blob(store: &Store, name: &[u8]) -> Option<Vec<u8>> {
    let head = store.lookup(Kind::HEAD, name)?;
    match *head.first()? {
        MESA => load_mesa(store, head.get(1..)?),
        CHUNKS => load_chunks(store, &head),
        _ => None,
    }
}

fn load_mesa(store: &Store, header: &[u8]) -> Option<Vec<u8>> {
    let entries = store.entries(Some(Kind::OBJECT));
    let objects: Vec<_> = entries
        .iter()
        .filter_map(|entry| store.lookup(Kind::OBJECT, &entry.key))
        .collect();
    mesa::rebuild(header, objects.iter().map(|object| &object[..]))
}

fn load_chunks(store: &Store, head: &[u8]) -> Option<Vec<u8>> {
    let level = *head.get(1)?;
    let len = usize::try_from(u64_at(head, 2)?).ok()?;
    let id = ContentId(array_at(head, 10)?);
    let mut bytes = head.get(26..)?.to_vec();
    if level > LEVELS_MAX {
        return None;
    }
    for _ in 0..=level {
        let mut next = Vec::new();
        for id in bytes.chunks(16) {
            next.extend_from_slice(&store.lookup(Kind::CHUNK, id)?);
        }
        bytes = next;
    }
    (bytes.len() == len && ContentId::of(&bytes) == id).then_some(bytes)
}
