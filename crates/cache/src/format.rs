//! The bytes of a segment file. `docs/store.md` describes the same for people.
//!
//! All numbers are little-endian. A segment is a 64-byte segment header, records, and, once it is
//! sealed, an index record and a 64-byte footer.
//!
//! ```text
//! segment header               record header (8-aligned)          footer
//!  0  8 "TPSEG\1\r\n"           0  8 "TPREC\1\r\n" (sync marker)    0  8 "TPEND\1\r\n"
//!  8  4 version                 8  4 CRC-32C                        8  8 offset of the index record
//! 12  4 generation             12  1 kind                          16  8 its whole length
//! 16  8 nonce                  13  1 zero                          24 36 zero
//! 24 16 identity               14  2 key length                    60  4 CRC-32C of 0..60
//! 40 20 zero                   16  8 payload length
//! 60  4 CRC-32C of 0..60       24  8 offset of this header
//!                              32  8 order (Lamport counter)
//!                              40 16 content id, XXH3-128 of the payload
//!                              56  4 day of last use, since 1970
//!                              60  4 zero
//!                              64  k key, then the payload, then zeros to a multiple of 8
//! ```
//!
//! Each CRC starts with the segment's salt (nonce, then identity), so that blocks of a deleted file,
//! a segment inside a payload, or one from another identity's folder yield no record. The record's CRC
//! covers bytes 0..64 with its own field as zero, then the key.

use xxhash_rust::xxh3::xxh3_128;

use crate::bytes::{array_at, len64, padding, put, slice_at, u16_at, u32_at, u64_at};

/// Version of the format; a reader skips segments with a higher one.
pub const VERSION: u32 = 1;

pub(crate) const SEGMENT_HEADER_LEN: usize = 64;
pub(crate) const RECORD_HEADER_LEN: usize = 64;
pub(crate) const FOOTER_LEN: usize = 64;
/// Longest key in bytes.
pub(crate) const KEY_LEN_MAX: usize = 1024;
/// Longest payload in bytes: 4 GiB less one.
pub(crate) const PAYLOAD_LEN_MAX: u64 = 0xffff_ffff;
const ALIGN: u64 = 8;
const SEGMENT_MAGIC: &[u8; 8] = b"TPSEG\x01\r\n";
const RECORD_MAGIC: &[u8; 8] = b"TPREC\x01\r\n";
const FOOTER_MAGIC: &[u8; 8] = b"TPEND\x01\r\n";
const ENTRY_LEN: usize = 48;

/// XXH3-128 of a payload. Guards against accident, not against malice.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// The id of these bytes. About 15 GB/s.
    #[must_use]
    pub fn of(payload: &[u8]) -> Self {
        Self(xxh3_128(payload).to_le_bytes())
    }
}

impl std::fmt::Display for ContentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::bytes::hex(&self.0))
    }
}

impl std::fmt::Debug for ContentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// What a record is. Numbers are never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Kind(pub u8);

impl Kind {
    /// A complete VkPipelineCache blob that holds only what was new when it was saved.
    pub const OVERLAY: Self = Self(1);
    /// Data of one VkPipelineBinaryKHR; the key is the driver's binary key.
    pub const BINARY: Self = Self(2);
    /// The list of binary keys of one pipeline; the key is the driver's pipeline key.
    pub const PIPELINE: Self = Self(3);
    /// One object of Mesa's blob format.
    pub const OBJECT: Self = Self(4);
    /// One content-defined chunk.
    pub const CHUNK: Self = Self(5);
    /// The head of a blob kept as chunks or objects.
    pub const HEAD: Self = Self(6);
    /// A whole opaque blob.
    pub const BLOB: Self = Self(7);
    /// A blob after whose hand-over a process died once; the key is its content id.
    pub const STRIKE: Self = Self(0x80);
    /// A blob that no driver is to see again; the key is its content id.
    pub const QUARANTINE: Self = Self(0x81);
    pub(crate) const INDEX: Self = Self(0xf0);
    pub(crate) const USES: Self = Self(0xf1);
    pub(crate) const REMOVED: Self = Self(0xf2);

    /// Whether the store itself keeps house with records of this kind.
    pub(crate) const fn is_internal(self) -> bool {
        self.0 >= 0xf0
    }

    /// Its name in reports; unknown numbers are allowed for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OVERLAY => "overlay",
            Self::BINARY => "binary",
            Self::PIPELINE => "pipeline",
            Self::OBJECT => "object",
            Self::CHUNK => "chunk",
            Self::HEAD => "head",
            Self::BLOB => "blob",
            Self::STRIKE => "strike",
            Self::QUARANTINE => "quarantine",
            Self::INDEX => "index",
            Self::USES => "uses",
            Self::REMOVED => "removed",
            _ => "unknown",
        }
    }
}

/// What every CRC of one segment starts with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Salt(u32);

impl Salt {
    pub(crate) fn new(nonce: u64, identity: [u8; 16]) -> Self {
        let start = crc32c::crc32c(&nonce.to_le_bytes());
        Self(crc32c::crc32c_append(start, &identity))
    }
}

/// The first 64 bytes of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SegmentHeader {
    pub(crate) version: u32,
    /// 0 for a program's own segment; compaction adds one.
    pub(crate) generation: u32,
    pub(crate) nonce: u64,
    pub(crate) identity: [u8; 16],
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut out = [0; SEGMENT_HEADER_LEN];
        put(&mut out, 0, SEGMENT_MAGIC);
        put(&mut out, 8, &self.version.to_le_bytes());
        put(&mut out, 12, &self.generation.to_le_bytes());
        put(&mut out, 16, &self.nonce.to_le_bytes());
        put(&mut out, 24, &self.identity);
        let crc = crc32c::crc32c(out.get(..60).unwrap_or_default());
        put(&mut out, 60, &crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let covered = bytes.get(..60)?;
        let sound =
            covered.starts_with(SEGMENT_MAGIC) && u32_at(bytes, 60)? == crc32c::crc32c(covered);
        sound.then_some(Self {
            version: u32_at(bytes, 8)?,
            generation: u32_at(bytes, 12)?,
            nonce: u64_at(bytes, 16)?,
            identity: array_at(bytes, 24)?,
        })
    }
}

/// A record's header and key, without its payload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) key: Box<[u8]>,
    pub(crate) payload_len: u64,
    pub(crate) offset: u64,
    pub(crate) order: u64,
    pub(crate) id: ContentId,
    pub(crate) day: u32,
}

impl Record {
    pub(crate) fn payload_offset(&self) -> u64 {
        self.offset + len64(RECORD_HEADER_LEN) + len64(self.key.len())
    }

    /// Length with header, key, payload and padding.
    pub(crate) fn whole_len(&self) -> u64 {
        let len = len64(RECORD_HEADER_LEN) + len64(self.key.len()) + self.payload_len;
        len + padding(len, ALIGN)
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.whole_len()
    }

    /// Header and key as they stand in the file.
    pub(crate) fn encode(&self, salt: Salt) -> Vec<u8> {
        let mut out = vec![0; RECORD_HEADER_LEN];
        put(&mut out, 0, RECORD_MAGIC);
        put(&mut out, 12, &[self.kind.0]);
        let key_len = u16::try_from(self.key.len()).unwrap_or(u16::MAX);
        put(&mut out, 14, &key_len.to_le_bytes());
        put(&mut out, 16, &self.payload_len.to_le_bytes());
        put(&mut out, 24, &self.offset.to_le_bytes());
        put(&mut out, 32, &self.order.to_le_bytes());
        put(&mut out, 40, &self.id.0);
        put(&mut out, 56, &self.day.to_le_bytes());
        let crc = record_crc(salt, &out, &self.key);
        put(&mut out, 8, &crc.to_le_bytes());
        out.extend_from_slice(&self.key);
        out
    }

    /// The zeros after the payload.
    pub(crate) fn padding(&self) -> &'static [u8] {
        let len = len64(self.key.len()) + self.payload_len;
        let zeros: &'static [u8] = &[0; 8];
        slice_at(zeros, 0, padding(len, ALIGN)).unwrap_or_default()
    }

    /// Reads the record at `offset`; `None` if there is none, or it does not end within `file`.
    ///
    /// The payload is not looked at: see [`payload`](Self::payload).
    pub(crate) fn decode(file: &[u8], offset: u64, salt: Salt) -> Option<Self> {
        let header = slice_at(file, offset, len64(RECORD_HEADER_LEN))?;
        if !header.starts_with(RECORD_MAGIC) || u64_at(header, 24)? != offset {
            return None;
        }
        let key_len = u16_at(header, 14)?;
        let payload_len = u64_at(header, 16)?;
        if usize::from(key_len) > KEY_LEN_MAX || payload_len > PAYLOAD_LEN_MAX {
            return None;
        }
        let key = slice_at(file, offset + len64(RECORD_HEADER_LEN), u64::from(key_len))?;
        if u32_at(header, 8)? != record_crc(salt, header, key) {
            return None;
        }
        let record = Self {
            kind: Kind(*header.get(12)?),
            key: key.into(),
            payload_len,
            offset,
            order: u64_at(header, 32)?,
            id: ContentId(array_at(header, 40)?),
            day: u32_at(header, 56)?,
        };
        (record.end() <= len64(file.len())).then_some(record)
    }

    /// The payload, if every byte of it is as it was written.
    pub(crate) fn payload<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let payload = slice_at(file, self.payload_offset(), self.payload_len)?;
        (ContentId::of(payload) == self.id).then_some(payload)
    }
}

fn record_crc(salt: Salt, header: &[u8], key: &[u8]) -> u32 {
    let before = header.get(..8).unwrap_or_default();
    let after = header.get(12..RECORD_HEADER_LEN).unwrap_or_default();
    let crc = crc32c::crc32c_append(salt.0, before);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, after), key)
}

/// The next place at or after `from`, aligned, where a record header may start.
pub(crate) fn next_marker(file: &[u8], from: u64) -> Option<u64> {
    let mut at = from + padding(from, ALIGN);
    loop {
        let bytes = slice_at(file, at, 8)?;
        if bytes == RECORD_MAGIC {
            return Some(at);
        }
        at += ALIGN;
    }
}

/// The footer: where the index record is.
pub(crate) fn encode_footer(index: &Record, salt: Salt) -> [u8; FOOTER_LEN] {
    let mut out = [0; FOOTER_LEN];
    put(&mut out, 0, FOOTER_MAGIC);
    put(&mut out, 8, &index.offset.to_le_bytes());
    put(&mut out, 16, &index.whole_len().to_le_bytes());
    let crc = crc32c::crc32c_append(salt.0, out.get(..60).unwrap_or_default());
    put(&mut out, 60, &crc.to_le_bytes());
    out
}

/// The index record of a sealed segment, payload checked; `None` if it is unsealed or damaged.
pub(crate) fn decode_footer(file: &[u8], salt: Salt) -> Option<Record> {
    let start = len64(file.len()).checked_sub(len64(FOOTER_LEN))?;
    let footer = slice_at(file, start, len64(FOOTER_LEN))?;
    let covered = footer.get(..60)?;
    let sound = covered.starts_with(FOOTER_MAGIC)
        && u32_at(footer, 60)? == crc32c::crc32c_append(salt.0, covered);
    if !sound {
        return None;
    }
    let index = Record::decode(file, u64_at(footer, 8)?, salt)?;
    let whole = index.kind == Kind::INDEX && index.end() == start;
    (whole && index.payload(file).is_some()).then_some(index)
}

/// The payload of an index record.
pub(crate) fn encode_index(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * (ENTRY_LEN + 32));
    for record in records {
        let mut entry = [0; ENTRY_LEN];
        put(&mut entry, 0, &[record.kind.0]);
        let key_len = u16::try_from(record.key.len()).unwrap_or(u16::MAX);
        put(&mut entry, 2, &key_len.to_le_bytes());
        put(&mut entry, 4, &record.day.to_le_bytes());
        put(&mut entry, 8, &record.offset.to_le_bytes());
        put(&mut entry, 16, &record.payload_len.to_le_bytes());
        put(&mut entry, 24, &record.order.to_le_bytes());
        put(&mut entry, 32, &record.id.0);
        out.extend_from_slice(&entry);
        out.extend_from_slice(&record.key);
    }
    out
}

/// Reads an index; `None` if any entry does not make sense for a file of `file_len` bytes.
pub(crate) fn decode_index(mut payload: &[u8], file_len: u64) -> Option<Vec<Record>> {
    let mut records = Vec::with_capacity(payload.len() / (ENTRY_LEN + 16));
    while !payload.is_empty() {
        let key_len = usize::from(u16_at(payload, 2)?);
        let end = ENTRY_LEN + key_len;
        let record = Record {
            kind: Kind(*payload.first()?),
            key: payload.get(ENTRY_LEN..end)?.into(),
            payload_len: u64_at(payload, 16)?,
            offset: u64_at(payload, 8)?,
            order: u64_at(payload, 24)?,
            id: ContentId(array_at(payload, 32)?),
            day: u32_at(payload, 4)?,
        };
        let fits = record.payload_len <= PAYLOAD_LEN_MAX
            && record.offset <= file_len
            && record.end() <= file_len;
        if !fits {
            return None;
        }
        records.push(record);
        payload = payload.get(end..)?;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(payload: &[u8]) -> (Record, Salt) {
        let record = Record {
            kind: Kind::BLOB,
            key: b"key".as_slice().into(),
            payload_len: len64(payload.len()),
            offset: 0,
            order: 7,
            id: ContentId::of(payload),
            day: 20_000,
        };
        (record, Salt::new(1, [2; 16]))
    }

    fn file_of(record: &Record, salt: Salt, payload: &[u8]) -> Vec<u8> {
        let mut file = record.encode(salt);
        file.extend_from_slice(payload);
        file.extend_from_slice(record.padding());
        file
    }

    #[test]
    fn any_flipped_bit_of_a_record_is_a_miss() {
        let (record, salt) = sample(b"payload of a record");
        let file = file_of(&record, salt, b"payload of a record");
        assert_eq!(len64(file.len()), record.whole_len());
        assert_eq!(Record::decode(&file, 0, salt).unwrap(), record);
        let used = RECORD_HEADER_LEN + 3 + b"payload of a record".len();
        for bit in 0..used * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = Record::decode(&damaged, 0, salt).and_then(|r| {
                let payload = r.payload(&damaged)?;
                Some(payload.to_vec())
            });
            assert_eq!(found, None, "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_another_segment_or_place_is_none() {
        let (record, salt) = sample(b"x");
        let file = file_of(&record, salt, b"x");
        assert!(Record::decode(&file, 0, Salt::new(2, [2; 16])).is_none());
        assert!(Record::decode(&file, 0, Salt::new(1, [3; 16])).is_none());
        let mut moved = vec![0; 8];
        moved.extend_from_slice(&file);
        assert!(Record::decode(&moved, 8, salt).is_none());
        assert_eq!(next_marker(&moved, 1), Some(8));
    }

    #[test]
    fn any_cut_and_flip_of_index_footer_and_header_is_noticed() {
        let (mut record, salt) = sample(b"x");
        record.offset = 64;
        let payload = encode_index(&[record.clone(), record.clone()]);
        assert_eq!(decode_index(&payload, 1 << 20).unwrap().len(), 2);
        for cut in 1..payload.len() {
            let one = decode_index(&payload[..cut], 1 << 20);
            assert!(one.is_none_or(|records| records.len() == 1 && cut == payload.len() / 2));
        }
        let header = SegmentHeader {
            version: VERSION,
            generation: 3,
            nonce: 4,
            identity: [5; 16],
        };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&damaged), None, "bit {bit}");
        }
        assert!(decode_footer(&encode_footer(&record, salt), salt).is_none());
    }

    #[test]
    fn random_bytes_are_never_a_panic() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let mut bytes = vec![0; random.usize(0..300)];
            random.fill(&mut bytes);
            if random.bool() {
                put(&mut bytes, 0, RECORD_MAGIC);
            }
            let salt = Salt::new(random.u64(..), [0; 16]);
            assert!(Record::decode(&bytes, random.u64(..), salt).is_none());
            assert!(Record::decode(&bytes, 0, salt).is_none());
            assert!(SegmentHeader::decode(&bytes).is_none());
            assert!(decode_footer(&bytes, salt).is_none());
            let _any = decode_index(&bytes, random.u64(..1000));
            let _any = next_marker(&bytes, random.u64(..400));
        }
    }
}
