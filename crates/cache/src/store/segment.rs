//! One segment file, read: by its index where it has one, else by scanning from marker to marker.

use crate::bytes::{len64, slice_at};
use crate::format::{
    Kind, PAYLOAD_LEN_MAX, Record, SEGMENT_HEADER_LEN, Salt, SegmentHeader, VERSION, decode_footer,
    decode_index, next_marker,
};
use crate::storage::Bytes;

/// The ending of segment names; what stands before it is the nonce in hexadecimal.
const SUFFIX: &str = ".seg";

/// Longest segment that is read: 64 GiB.
const SEGMENT_LEN_MAX: u64 = 64 << 30;

pub(crate) fn name_of(nonce: u64) -> String {
    format!("{nonce:016x}{SUFFIX}")
}

/// The nonce in a segment's name; `None` for other files.
pub(crate) fn nonce_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 16)
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

/// A segment as far as it was read.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) salt: Salt,
    pub(crate) generation: u32,
    pub(crate) data: Bytes,
    /// Where the next record will start.
    pub(crate) next: u64,
    pub(crate) is_sealed: bool,
    /// Bytes between sound records that are no record.
    pub(crate) damaged_bytes: u64,
    /// Records that start here or later were never acknowledged and count as lost.
    pub(crate) limit: u64,
}

/// Why a file yields no records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotOurs {
    /// Written by a newer version; left alone.
    Newer,
    /// It belongs to another identity.
    OtherIdentity,
    /// No segment gets so large; a sparse file would take for ever to look through.
    TooLarge,
}

impl Segment {
    /// Reads a segment's records, payloads unseen.
    pub(crate) fn open(
        name: &str,
        nonce: u64,
        data: Bytes,
        identity: [u8; 16],
    ) -> Result<(Self, Vec<Record>), NotOurs> {
        if len64(data.len()) > SEGMENT_LEN_MAX {
            return Err(NotOurs::TooLarge);
        }
        // A damaged header costs nothing: the nonce stands in the name, the identity is the folder's.
        let header = SegmentHeader::decode(&data);
        if let Some(header) = header {
            if header.version > VERSION {
                return Err(NotOurs::Newer);
            }
            if header.identity != identity {
                return Err(NotOurs::OtherIdentity);
            }
        }
        let mut segment = Self {
            name: name.to_owned(),
            salt: Salt::new(header.map_or(nonce, |h| h.nonce), identity),
            generation: header.map_or(0, |h| h.generation),
            data,
            next: len64(SEGMENT_HEADER_LEN),
            is_sealed: false,
            damaged_bytes: 0,
            limit: u64::MAX,
        };
        let records = segment.by_index().unwrap_or_else(|| segment.scan());
        Ok((segment, records))
    }

    /// The records by the footer's index; `None` if there is no sound one.
    fn by_index(&mut self) -> Option<Vec<Record>> {
        let index = decode_footer(&self.data, self.salt)?;
        let payload = index.payload(&self.data)?;
        let records = decode_index(payload, len64(self.data.len()))?;
        self.is_sealed = true;
        self.next = len64(self.data.len());
        Some(records)
    }

    /// Reads on from where the last scan ended; skips damage up to the next sound header.
    pub(crate) fn scan(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        while let Some((record, skipped)) = self.next_record() {
            self.damaged_bytes += skipped;
            self.next = record.end();
            if record.kind != Kind::INDEX {
                records.push(record);
            }
        }
        records
    }

    /// The next sound header, and how many bytes before it are none.
    fn next_record(&self) -> Option<(Record, u64)> {
        let mut at = self.next;
        // No gap is longer than the longest record.
        let len = len64(self.data.len());
        let end = self.next.saturating_add(PAYLOAD_LEN_MAX + 4096).min(len);
        let window = slice_at(&self.data, 0, end)?;
        while at < end {
            if let Some(record) = Record::decode(&self.data, at, self.salt) {
                return Some((record, at - self.next));
            }
            at = next_marker(window, at + 1)?;
        }
        None
    }

    /// Takes newer bytes of the same file and reads on.
    pub(crate) fn grow(&mut self, data: Bytes) -> Vec<Record> {
        self.data = data;
        if !self.is_sealed && decode_footer(&self.data, self.salt).is_some() {
            // Sealed since: the records up to the index are read as before.
            self.is_sealed = true;
        }
        self.scan()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_nonces_round_trip() {
        assert_eq!(nonce_of(&name_of(u64::MAX)), Some(u64::MAX));
        for other in [
            "tidy.lock",
            "1.seg",
            "0000000000000001.tmp",
            "zzzzzzzzzzzzzzzz.seg",
        ] {
            assert_eq!(nonce_of(other), None, "{other}");
        }
    }
}
