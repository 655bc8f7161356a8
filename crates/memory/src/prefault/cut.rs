//! From pieces to chunks: what one thread brings in at a time.

use crate::Range;

/// Whole pages; of a huge chunk whole huge pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Chunk {
    pub(super) range: Range,
    pub(super) is_huge: bool,
}

/// Cuts pieces into chunks of whole pages; chunks of whole blocks of `block` bytes are marked huge.
pub(super) fn cut(pieces: &[Range], chunk_bytes: usize, block: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for piece in pieces {
        let pages = piece.pages();
        // Blocks of the exact bytes, not of the rounded-out pages: neighbours' bytes stay out.
        let mut blocks = piece.whole_blocks(block);
        if blocks.is_empty() {
            blocks = Range::between(pages.end(), pages.end());
        }
        let whole = (chunk_bytes - chunk_bytes % block.max(1)).max(block);
        let before = Range::between(pages.address, blocks.address);
        let after = Range::between(blocks.end(), pages.end());
        push(&mut chunks, before, chunk_bytes, false);
        push(&mut chunks, blocks, whole, true);
        push(&mut chunks, after, chunk_bytes, false);
    }
    chunks
}

fn push(chunks: &mut Vec<Chunk>, range: Range, chunk_bytes: usize, is_huge: bool) {
    let mut start = range.address;
    while start < range.end() {
        let end = start.saturating_add(chunk_bytes.max(1)).min(range.end());
        chunks.push(Chunk {
            range: Range::between(start, end),
            is_huge,
        });
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefault::CHUNK_BYTES_MAX;

    #[test]
    fn chunks_cover_every_page_once_and_blocks_stay_inside() {
        let page = crate::page_size();
        let block = 2 << 20;
        for (address, len) in [
            (block - 10, 3 * block),
            (block + 1, block),
            (block, block),
            (5, 3),
            (block - page, 20 * block + 2 * page + 7),
        ] {
            let piece = Range::new(address, len).unwrap();
            let chunks = cut(&[piece], CHUNK_BYTES_MAX, block);
            let mut huge = chunks.iter().filter(|c| c.is_huge);
            assert!(huge.all(|c| piece.contains(c.range) && c.range.len % block == 0));
            assert!(chunks.iter().all(|c| c.range.len <= CHUNK_BYTES_MAX));
            let mut at = piece.pages().address;
            for chunk in &chunks {
                assert_eq!(chunk.range.address, at);
                at = chunk.range.end();
            }
            assert_eq!(at, piece.pages().end());
        }
    }
}
