//! Blobs of Mesa's common runtime: a header, a count, and objects in the order of a hash set.
//!
//! Not a public format (`src/vulkan/runtime/vk_pipeline_cache.c`), so nothing is believed: [`parse`]
//! succeeds only if the blob, rebuilt from its parts, has the same bytes.
//!
//! ```text
//! 32 header (VkPipelineCacheHeaderVersionOne); u32 count; per object, all little-endian:
//! align 4; i32 type; u32 key size; u32 data size; key; align 8; data
//! ```

use std::ops::Range;

use crate::bytes::{len64, padding, u32_at};
use crate::safety::BlobHeader;

/// One object of a blob.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Object {
    /// Index of the driver's type; negative for raw data.
    pub kind: i32,
    /// Where the key is in the blob.
    pub key: Range<usize>,
    /// Where the data is in the blob.
    pub data: Range<usize>,
}

/// An object as it is kept by itself: type, key length, key, data.
#[must_use]
pub fn detach(blob: &[u8], object: &Object) -> Vec<u8> {
    let key = blob.get(object.key.clone()).unwrap_or_default();
    let data = blob.get(object.data.clone()).unwrap_or_default();
    let mut out = Vec::with_capacity(8 + key.len() + data.len());
    out.extend_from_slice(&object.kind.to_le_bytes());
    out.extend_from_slice(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(data);
    out
}

/// Puts a blob together from its 32-byte header and detached objects, in this order.
///
/// `None` if an object is too short to be one, or there are more than a count can say.
#[must_use]
pub fn rebuild<'a>(header: &[u8], objects: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut out = header.get(..BlobHeader::LEN)?.to_vec();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0_u32;
    for object in objects {
        let key_len = usize::try_from(u32_at(object, 4)?).ok()?;
        let key = object.get(8..8_usize.checked_add(key_len)?)?;
        let data = object.get(8 + key_len..)?;
        pad(&mut out, 4);
        out.extend_from_slice(object.get(..8)?);
        out.extend_from_slice(&u32::try_from(data.len()).ok()?.to_le_bytes());
        out.extend_from_slice(key);
        pad(&mut out, 8);
        out.extend_from_slice(data);
        count = count.checked_add(1)?;
    }
    crate::bytes::put(&mut out, BlobHeader::LEN, &count.to_le_bytes());
    Some(out)
}

/// The objects of a blob, if it is Mesa's and rebuilds to the same bytes.
///
/// # Cost
///
/// Two passes over the blob, one copy of it.
#[must_use]
pub fn parse(blob: &[u8]) -> Option<Vec<Object>> {
    let objects = read(blob)?;
    let detached: Vec<Vec<u8>> = objects.iter().map(|object| detach(blob, object)).collect();
    let again = rebuild(blob, detached.iter().map(Vec::as_slice))?;
    (again == blob).then_some(objects)
}

fn read(blob: &[u8]) -> Option<Vec<Object>> {
    let header = BlobHeader::read(blob)?;
    if header.version != 1 || header.header_bytes != 32 {
        return None;
    }
    let count = usize::try_from(u32_at(blob, BlobHeader::LEN)?).ok()?;
    // An object takes at least 12 bytes; a larger count is another driver's data.
    if count > blob.len() / 12 {
        return None;
    }
    let mut objects = Vec::with_capacity(count);
    let mut at = BlobHeader::LEN + 4;
    for _ in 0..count {
        at = aligned(at, 4)?;
        let kind = u32_at(blob, at)?.cast_signed();
        let key_len = usize::try_from(u32_at(blob, at.checked_add(4)?)?).ok()?;
        let data_len = usize::try_from(u32_at(blob, at.checked_add(8)?)?).ok()?;
        let key = at.checked_add(12)?;
        let key_end = key.checked_add(key_len)?;
        let data = aligned(key_end, 8)?;
        let data_end = data.checked_add(data_len)?;
        if data_end > blob.len() {
            return None;
        }
        objects.push(Object {
            kind,
            key: key..key_end,
            data: data..data_end,
        });
        at = data_end;
    }
    (at == blob.len()).then_some(objects)
}

fn aligned(at: usize, step: u64) -> Option<usize> {
    let extra = usize::try_from(padding(len64(at), step)).ok()?;
    at.checked_add(extra)
}

fn pad(out: &mut Vec<u8>, step: u64) {
    let len = aligned(out.len(), step).unwrap_or(out.len());
    out.resize(len, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Vec<u8> {
        let mut header = vec![32, 0, 0, 0, 1, 0, 0, 0];
        header.resize(32, 7);
        header
    }

    fn object(kind: i32, key: &[u8], data: &[u8]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend_from_slice(&u32::try_from(key.len()).unwrap().to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(data);
        out
    }

    #[test]
    fn a_blob_laid_out_by_hand_is_understood() {
        let mut blob = header();
        blob.extend_from_slice(&2_u32.to_le_bytes());
        // Offset 36: type -1, key 3 bytes, data 5 bytes.
        blob.extend_from_slice(&(-1_i32).to_le_bytes());
        blob.extend_from_slice(&3_u32.to_le_bytes());
        blob.extend_from_slice(&5_u32.to_le_bytes());
        blob.extend_from_slice(b"key");
        blob.resize(56, 0);
        blob.extend_from_slice(b"12345");
        blob.resize(64, 0);
        blob.extend_from_slice(&2_i32.to_le_bytes());
        blob.extend_from_slice(&4_u32.to_le_bytes());
        blob.extend_from_slice(&1_u32.to_le_bytes());
        blob.extend_from_slice(b"abcd");
        blob.extend_from_slice(b"z");
        let objects = parse(&blob).unwrap();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0].kind, -1);
        assert_eq!(&blob[objects[0].key.clone()], b"key");
        assert_eq!(&blob[objects[0].data.clone()], b"12345");
        assert_eq!(&blob[objects[1].data.clone()], b"z");
    }

    #[test]
    fn any_order_of_objects_rebuilds_and_parses() {
        let objects = [
            object(0, b"k", &[1; 9]),
            object(5, b"", b""),
            object(-1, &[3; 20], &[2; 33]),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let blob = rebuild(&header(), order.iter().map(|n| objects[*n].as_slice())).unwrap();
            let parsed = parse(&blob).unwrap();
            let again: Vec<Vec<u8>> = parsed.iter().map(|o| detach(&blob, o)).collect();
            assert_eq!(again, order.map(|n| objects[n].clone()));
        }
    }

    #[test]
    fn cut_flipped_and_random_blobs_never_rebuild_to_other_bytes() {
        let objects = [object(0, b"k", &[1; 9]), object(-1, &[3; 20], &[2; 33])];
        let blob = rebuild(&header(), objects.iter().map(Vec::as_slice)).unwrap();
        for len in 0..blob.len() {
            assert_eq!(parse(&blob[..len]), None);
        }
        for bit in 0..blob.len() * 8 {
            let mut bad = blob.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Some(objects) = parse(&bad) {
                let parts: Vec<Vec<u8>> = objects.iter().map(|o| detach(&bad, o)).collect();
                assert_eq!(rebuild(&bad, parts.iter().map(Vec::as_slice)).unwrap(), bad);
            }
        }
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..1000 {
            let mut bytes = header();
            let len = random.usize(0..200);
            bytes.extend(std::iter::repeat_with(|| random.u8(..4)).take(len));
            let _any = parse(&bytes);
        }
    }
}
