//! The host side of a copy: rows in the program's memory.

#![expect(
    unsafe_code,
    reason = "copies to and from memory that a caller vouched for"
)]

use std::sync::atomic::{AtomicBool, Ordering};

use towpath_memory::{Huge, Prefault, Range, prefault, prefault_all, stream};

use crate::readback::Footprint;

/// Whether workers bring the destination's pages in before they store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Bring {
    /// No: the pages are there.
    Nothing,
    /// Yes, in small pages.
    Pages,
    /// Yes, in huge pages where a whole one is inside the destination.
    HugePages,
}

/// Rows to write to.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    footprint: Footprint,
    bytes: usize,
    bring: Bring,
}

/// Rows to read from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    footprint: Footprint,
}

impl Destination {
    /// Takes the rows of `footprint` as a destination.
    ///
    /// # Safety
    ///
    /// Each byte of the footprint is valid for writes, by any thread, and accessed by nobody else,
    /// as long as the value or a copy of it is used.
    #[must_use]
    pub const unsafe fn new(footprint: Footprint, bring: Bring) -> Self {
        Self {
            footprint,
            bytes: footprint.bytes(),
            bring,
        }
    }

    /// The same, but only for its first `bytes` packed bytes.
    #[must_use]
    pub const fn first(self, bytes: usize) -> Self {
        Self {
            bytes: if bytes < self.bytes {
                bytes
            } else {
                self.bytes
            },
            ..self
        }
    }

    /// Bytes that it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether workers bring pages in.
    #[must_use]
    pub const fn bring(&self) -> Bring {
        self.bring
    }

    /// Where packed byte 0 lies, if all bytes follow one another.
    pub(super) fn linear_start(&self) -> Option<usize> {
        linear_start(&self.footprint)
    }

    /// Brings in the pages of `len` packed bytes from `offset`; `is_slow` remembers between chunks that
    /// huge pages come slowly. What the kernel refuses is left to the stores that follow, which would
    /// have met it without this.
    pub(super) fn bring_in(&self, offset: usize, len: usize, is_slow: &AtomicBool) {
        let huge = match self.bring {
            Bring::Nothing => return,
            Bring::HugePages if !is_slow.load(Ordering::Relaxed) => Huge::WholeBlocks,
            Bring::Pages | Bring::HugePages => Huge::Never,
        };
        let how = Prefault {
            huge,
            ..Prefault::default()
        };
        let answer = if let Some(start) = self.linear_start() {
            // A last row that is left to the driver's call is brought in as well: without it the last
            // huge page would not be whole.
            let is_last = offset + len == self.bytes;
            let end = if is_last {
                self.footprint.bytes()
            } else {
                offset + len
            };
            prefault(Range::between(start + offset, start + end), &how)
        } else {
            let pieces: Vec<Range> = pieces(&self.footprint, offset, len)
                .map(|piece| piece.host)
                .collect();
            prefault_all(&pieces, &how)
        };
        if answer.is_ok_and(|done| done.fell_back) {
            is_slow.store(true, Ordering::Relaxed);
        }
    }

    /// Stores packed bytes from `offset` on.
    pub(super) fn store(&self, offset: usize, bytes: &[u8]) {
        for piece in pieces(&self.footprint, offset, bytes.len()) {
            let Some(from) = bytes.get(piece.packed..piece.packed + piece.host.len) else {
                return;
            };
            let to = std::ptr::with_exposed_provenance_mut(piece.host.address);
            // SAFETY: the piece lies in the footprint, which `new`'s caller vouched for; `from` has its
            // length, and is pinned memory of ours, so they do not overlap.
            unsafe { stream::copy_raw(from.as_ptr(), to, piece.host.len) };
        }
    }
}

impl Source {
    /// Takes the rows of `footprint` as a source.
    ///
    /// # Safety
    ///
    /// Each byte of the footprint is valid for reads, by any thread, and written by nobody, as long as
    /// the value or a copy of it is used.
    #[must_use]
    pub const unsafe fn new(footprint: Footprint) -> Self {
        Self { footprint }
    }

    /// Bytes of all rows.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.footprint.bytes()
    }

    pub(super) fn linear_start(&self) -> Option<usize> {
        linear_start(&self.footprint)
    }

    /// Loads packed bytes from `offset` on.
    pub(super) fn load(&self, offset: usize, bytes: &mut [u8]) {
        for piece in pieces(&self.footprint, offset, bytes.len()) {
            let Some(to) = bytes.get_mut(piece.packed..piece.packed + piece.host.len) else {
                return;
            };
            let from = std::ptr::with_exposed_provenance(piece.host.address);
            // SAFETY: the piece lies in the footprint, which `new`'s caller vouched for; `to` has its
            // length, and is pinned memory of ours, so they do not overlap.
            unsafe { stream::copy_raw(from, to.as_mut_ptr(), piece.host.len) };
        }
    }
}

/// A run of bytes that is contiguous on both sides.
struct Piece {
    /// Offset from the first packed byte asked for.
    packed: usize,
    host: Range,
}

/// The host runs of `len` packed bytes from `offset`.
fn pieces(footprint: &Footprint, offset: usize, len: usize) -> impl Iterator<Item = Piece> + use<> {
    let footprint = *footprint;
    let end = offset.saturating_add(len).min(footprint.bytes());
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let host = footprint.run_at(at, end - at);
        let piece = Piece {
            packed: at - offset,
            host,
        };
        at += host.len;
        Some(piece)
    })
}

fn linear_start(footprint: &Footprint) -> Option<usize> {
    let envelope = footprint.envelope();
    (envelope.len == footprint.bytes()).then_some(envelope.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bytes_go_to_their_rows_whatever_the_cut() {
        let mut host = vec![0_u8; 4096];
        let start = host.as_mut_ptr().expose_provenance();
        let footprint = Footprint::rect(start, [3, 1, 1], [10, 4, 3], 17, 101).unwrap();
        let packed: Vec<u8> = (1..=120).collect();
        for cut in [1, 7, 10, 64, 120] {
            host.fill(0);
            // SAFETY: the footprint's 120 bytes lie within the vector, which nothing else uses.
            let to = unsafe { Destination::new(footprint, Bring::Pages) };
            for offset in (0..120).step_by(cut) {
                let end = (offset + cut).min(120);
                to.bring_in(offset, end - offset, &AtomicBool::new(false));
                to.store(offset, &packed[offset..end]);
            }
            let mut expected = vec![0_u8; 4096];
            for (row, bytes) in footprint.rows().zip(packed.chunks(10)) {
                expected[row.address - start..][..10].copy_from_slice(bytes);
            }
            assert_eq!(host, expected);
            // SAFETY: as above.
            let from = unsafe { Source::new(footprint) };
            let mut back = vec![0_u8; 120];
            for offset in (0..120).step_by(cut) {
                let end = (offset + cut).min(120);
                from.load(offset, &mut back[offset..end]);
            }
            assert_eq!(back, packed);
        }
    }
}
