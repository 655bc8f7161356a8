//! Checking every byte, and counting.

use std::collections::BTreeMap;

use super::Store;
use super::segment::{NotOurs, Segment, nonce_of};
use crate::bytes::len64;
use crate::error::{Error, Operation, Result};
use crate::format::{
    FOOTER_LEN, Kind, Record, SEGMENT_HEADER_LEN, SegmentHeader, decode_footer, next_marker,
};

/// What a full check of one segment found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SegmentReport {
    /// The file's name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// How often its content went through compaction.
    pub generation: u32,
    /// Whether it has an index.
    pub is_sealed: bool,
    /// Whether its first 64 bytes are sound; damage there costs nothing.
    pub is_header_sound: bool,
    /// Records whose every byte is sound.
    pub records_sound: u64,
    /// Records with a sound header and a damaged payload.
    pub records_damaged: u64,
    /// Bytes between sound headers that belong to no record.
    pub bytes_skipped: u64,
    /// Bytes after the last sound header's record: a torn tail, or damage to the last records.
    pub bytes_tail: u64,
    /// Why it was not read, if it was not.
    pub not_read: Option<String>,
}

impl SegmentReport {
    /// Whether anything but a torn tail is wrong.
    ///
    /// A file shorter than its first 64 bytes is torn as well: its writer died between making it and
    /// writing them.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        let is_begun = self.bytes >= SEGMENT_HEADER_LEN as u64;
        self.records_damaged > 0
            || self.bytes_skipped > 0
            || is_begun && !self.is_header_sound && self.not_read.is_none()
    }
}

/// What a full check of a store found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verification {
    /// One report per segment.
    pub segments: Vec<SegmentReport>,
}

impl Verification {
    /// Whether every segment is sound, but for torn tails.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.segments.iter().any(SegmentReport::is_damaged)
    }

    /// Bytes looked at.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).sum()
    }

    /// Sound records.
    #[must_use]
    pub fn records_sound(&self) -> u64 {
        self.segments.iter().map(|s| s.records_sound).sum()
    }

    /// Records with a sound header and a damaged payload.
    #[must_use]
    pub fn records_damaged(&self) -> u64 {
        self.segments.iter().map(|s| s.records_damaged).sum()
    }
}

/// Counts of a store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Segment files.
    pub segments: u64,
    /// Of these, with an index.
    pub segments_sealed: u64,
    /// Files left alone: of a newer version, or of another identity.
    pub segments_skipped: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes of records that can be found.
    pub bytes_live: u64,
    /// Bytes that were skipped as damaged when the store was opened.
    pub bytes_skipped: u64,
    /// Records found damaged when they were asked for.
    pub records_bad: u64,
    /// Entries and payload bytes by kind.
    pub kinds: BTreeMap<Kind, (u64, u64)>,
}

impl Store {
    /// Reads and checks every byte of every segment, whether the index knows it or not.
    ///
    /// # Cost
    ///
    /// One pass over the store at the speed of XXH3 or of the disk.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the folder cannot be listed.
    pub fn verify(&self) -> Result<Verification> {
        let place = self.disk.place();
        let names = self
            .disk
            .names()
            .map_err(Error::file(Operation::List, &place))?;
        let mut out = Verification::default();
        for name in names {
            let Some(nonce) = nonce_of(&name) else {
                continue;
            };
            let report = match self.disk.read(&name) {
                Ok(data) => {
                    let is_header_sound = SegmentHeader::decode(&data).is_some();
                    let opened = Segment::open(&name, nonce, data, self.options.identity);
                    check(&name, is_header_sound, opened.map(|(segment, _)| segment))
                }
                Err(error) => SegmentReport {
                    name,
                    not_read: Some(error.to_string()),
                    ..SegmentReport::default()
                },
            };
            out.segments.push(report);
        }
        Ok(out)
    }

    /// Counts what the index knows; reads no payload. Looks at the folder again first.
    pub fn stats(&self) -> Stats {
        let mut state = self.lock();
        // A folder that cannot be listed now leaves the counts of a moment ago.
        let _older = state.refresh(&*self.disk, self.options.identity);
        let mut stats = Stats {
            segments: len64(state.segments.len()),
            segments_skipped: len64(state.skipped.len()),
            records_bad: len64(state.bad.len()),
            ..Stats::default()
        };
        for segment in state.segments.values() {
            let own = state.own.as_ref().filter(|own| own.name == segment.name);
            stats.bytes += own.map_or(len64(segment.data.len()), |own| own.len);
            stats.bytes_skipped += segment.damaged_bytes;
            stats.segments_sealed += u64::from(segment.is_sealed);
        }
        for ((kind, _), slot) in &state.index {
            stats.bytes_live += slot.whole_len;
            let (entries, bytes) = stats.kinds.entry(*kind).or_default();
            *entries += 1;
            *bytes += slot.payload_len;
        }
        stats
    }
}

fn check(name: &str, is_header_sound: bool, segment: Result<Segment, NotOurs>) -> SegmentReport {
    let mut report = SegmentReport {
        name: name.to_owned(),
        is_header_sound,
        ..SegmentReport::default()
    };
    let segment = match segment {
        Ok(segment) => segment,
        Err(why) => {
            report.not_read = Some(match why {
                NotOurs::Newer => "written by a newer version".to_owned(),
                NotOurs::OtherIdentity => "belongs to another identity".to_owned(),
                NotOurs::TooLarge => "larger than any segment".to_owned(),
            });
            return report;
        }
    };
    let data = &segment.data;
    report.bytes = len64(data.len());
    report.generation = segment.generation;
    report.is_sealed = segment.is_sealed;
    let mut at = len64(SEGMENT_HEADER_LEN);
    loop {
        if let Some(record) = Record::decode(data, at, segment.salt) {
            let is_sound = record.payload(data).is_some();
            report.records_sound += u64::from(is_sound && record.kind != Kind::INDEX);
            report.records_damaged += u64::from(!is_sound);
            at = record.end();
            continue;
        }
        let next = std::iter::successors(next_marker(data, at + 1), |m| next_marker(data, m + 1))
            .find(|marker| Record::decode(data, *marker, segment.salt).is_some());
        let Some(next) = next else {
            break;
        };
        report.bytes_skipped += next - at;
        at = next;
    }
    let footer = decode_footer(data, segment.salt).map_or(0, |_| len64(FOOTER_LEN));
    report.bytes_tail = report.bytes.saturating_sub(at).saturating_sub(footer);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_writer_died_before_its_first_bytes_is_torn_not_damaged() {
        let torn = |bytes| SegmentReport {
            bytes,
            ..SegmentReport::default()
        };
        assert!(!torn(0).is_damaged());
        assert!(!torn(63).is_damaged());
        assert!(torn(64).is_damaged());
    }
}
