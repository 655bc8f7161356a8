//! Pipelines kept as the driver's own binaries: a list of binary keys per pipeline, each binary once.

use crate::error::Result;
use crate::format::Kind;
use crate::store::{Blob, Store};

/// One binary of a pipeline: the driver's key and its data.
#[derive(Clone, Debug)]
pub struct Binary<Data> {
    /// The driver's key, at most 32 bytes.
    pub key: Vec<u8>,
    /// The driver's data.
    pub data: Data,
}

/// Stores a pipeline's binaries in the order in which the driver gave them; returns the bytes that were
/// new. Binaries that another pipeline brought already are not written again.
///
/// # Errors
///
/// The store's.
pub fn save_pipeline<Data: AsRef<[u8]>>(
    store: &Store,
    pipeline_key: &[u8],
    binaries: &[Binary<Data>],
) -> Result<u64> {
    let mut list = Vec::new();
    let mut new = 0;
    for binary in binaries {
        let data = binary.data.as_ref();
        if !store.contains(Kind::BINARY, &binary.key) {
            new += crate::bytes::len64(data.len());
        }
        store.append(Kind::BINARY, &binary.key, data)?;
        list.push(u8::try_from(binary.key.len()).unwrap_or(u8::MAX));
        list.extend_from_slice(&binary.key);
    }
    // The list last: whoever sees it finds the binaries.
    store.append(Kind::PIPELINE, pipeline_key, &list)?;
    Ok(new)
}

/// A pipeline's binaries in order; `None` if one of them is missing or damaged.
pub fn load_pipeline(store: &Store, pipeline_key: &[u8]) -> Option<Vec<Binary<Blob>>> {
    let list = store.lookup(Kind::PIPELINE, pipeline_key)?;
    let mut rest = &list[..];
    let mut binaries = Vec::new();
    while let Some((len, after)) = rest.split_first() {
        let (key, next) = after.split_at_checked(usize::from(*len))?;
        binaries.push(Binary {
            key: key.to_vec(),
            data: store.lookup(Kind::BINARY, key)?,
        });
        rest = next;
    }
    (!binaries.is_empty()).then_some(binaries)
}
