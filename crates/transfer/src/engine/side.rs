//! The host side of a copy: rows in the program's memory.

#![expect(
    unsafe_code,
    reason = "copies to and from memory that a caller vouched for"
)]

use towpath_memory::prefault::huge_block;
use towpath_memory::{Huge, Prefault, Range, fork, prefault, prefault_all, stream};
use towpath_sys::madvise::{Advice, advise};

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

/// How the workers bring pages in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Bringing {
    /// Not at all.
    Nothing,
    /// In small pages, before they store.
    Small,
    /// Within these whole blocks by the stores themselves: a first store takes a huge page without the
    /// lock of the process's memory, where workers would wait for each other. Elsewhere in small pages.
    Huge(Range),
}

impl Bringing {
    /// After the stores: notes that they wrote these blocks, for [`towpath_memory::fork`].
    pub(super) fn note_written(self) {
        if let Self::Huge(blocks) = self {
            fork::note_written(blocks);
        }
    }

    fn is_by_stores(self, range: Range) -> bool {
        matches!(self, Self::Huge(blocks) if blocks.contains(range))
    }
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

    /// Says, once and before the workers start, how they bring pages in. Asks for huge pages for all
    /// whole blocks in one call: asked for block by block, each call would wait until no worker is
    /// inside the kernel and keep all others out. The first blocks are brought in here and timed.
    ///
    /// What the kernel refuses is left to the stores that follow, which would have met it without this.
    pub(super) fn advise(&self) -> Bringing {
        if self.bring == Bring::Nothing {
            return Bringing::Nothing;
        }
        if self.bring == Bring::Pages || self.linear_start().is_none() {
            return Bringing::Small;
        }
        let blocks = self.footprint.envelope().whole_blocks(huge_block());
        let split = blocks
            .end()
            .min(blocks.address + PROBE_BLOCKS * huge_block());
        let probe = Range::between(blocks.address, split);
        let rest = Range::between(split, blocks.end());
        let probed = prefault(probe, &Prefault::default());
        let is_fast = probed.is_ok_and(|done| done.huge_bytes > 0 && !done.fell_back);
        if !rest.is_empty() && is_fast && advise(rest.address, rest.len, Advice::HugePage).is_ok() {
            Bringing::Huge(blocks)
        } else {
            Bringing::Small
        }
    }

    /// Brings in the pages of `len` packed bytes from `offset`, as was settled before.
    pub(super) fn bring_in(&self, offset: usize, len: usize, bringing: Bringing) {
        if bringing == Bringing::Nothing {
            return;
        }
        let how = Prefault {
            huge: Huge::Never,
            ..Prefault::default()
        };
        let Some(start) = self.linear_start() else {
            let pieces: Vec<Range> = pieces(&self.footprint, offset, len)
                .map(|piece| piece.host)
                .collect();
            let _refused = prefault_all(&pieces, &how);
            return;
        };
        // A last row that is left to the driver's call is brought in as well: without it the last huge
        // page would not be whole.
        let is_last = offset + len == self.bytes;
        let end = if is_last {
            self.footprint.bytes()
        } else {
            offset + len
        };
        let range = Range::between(start + offset, start + end);
        if !bringing.is_by_stores(range) {
            let _refused = prefault(range, &how);
        }
    }

    /// Stores packed bytes from `offset` on.
    pub(super) fn store(&self, offset: usize, bytes: &[u8], bringing: Bringing) {
        for piece in pieces(&self.footprint, offset, bytes.len()) {
            let Some(from) = bytes.get(piece.packed..piece.packed + piece.host.len) else {
                return;
            };
            let to = std::ptr::with_exposed_provenance_mut(piece.host.address);
            if bringing.is_by_stores(piece.host) {
                // The kernel has just left the page's zeros in the cache: past it, they would be
                // written to memory as well.
                // SAFETY: the piece lies in the footprint, which `new`'s caller vouched for; `from` has
                // its length, and is pinned memory of ours, so they do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, piece.host.len) };
            } else {
                // SAFETY: as above.
                unsafe { stream::copy_raw(from.as_ptr(), to, piece.host.len) };
            }
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

/// Huge pages that are brought in before all others, to see how fast they come: as many as a prefault
/// tries.
const PROBE_BLOCKS: usize = 3;

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
                to.bring_in(offset, end - offset, to.advise());
                to.store(offset, &packed[offset..end], to.advise());
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

    #[test]
    fn whole_blocks_come_huge_by_the_stores_and_edges_before_them() {
        let mut host = towpath_memory::Mapping::anonymous(16 << 20).unwrap();
        let start = host.range().address + 4096;
        let bytes = (16 << 20) - 8192;
        let footprint = Footprint::buffer(start, bytes).unwrap();
        // SAFETY: the footprint lies in the mapping, which nothing else uses.
        let to = unsafe { Destination::new(footprint, Bring::HugePages) };
        let bringing = to.advise();
        let packed: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        let chunks = crate::engine::Chunks::new(bytes, 2 << 20, start, 2 << 20);
        let mut in_blocks = 0;
        let before = towpath_memory::faults::of_thread();
        for (offset, len) in (0..chunks.count()).filter_map(|chunk| chunks.at(chunk)) {
            to.bring_in(offset, len, bringing);
            let faults = towpath_memory::faults::of_thread();
            to.store(offset, &packed[offset..offset + len], bringing);
            let faults = towpath_memory::faults::of_thread() - faults;
            if bringing.is_by_stores(Range::between(start + offset, start + offset + len)) {
                in_blocks += faults;
            } else {
                // A few are of code that runs for the first time; an edge not brought in has hundreds.
                assert!(
                    faults <= 16,
                    "stores met {faults} pages that were not there"
                );
            }
        }
        bringing.note_written();
        assert!(towpath_memory::faults::of_thread() - before > 0);
        // One each where huge pages are to be had; where memory is in pieces the kernel gives small ones.
        assert!(in_blocks <= 8 * 512, "{in_blocks}");
        assert_eq!(&host.as_slice()[4096..4096 + bytes], &packed[..]);
        assert_eq!(host.as_mut_slice()[0], 0);
    }
}
