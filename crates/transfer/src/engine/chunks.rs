//! Cutting a copy in chunks.

/// How `bytes` are cut: a first chunk that ends at a boundary of the host memory, then equal ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chunks {
    bytes: usize,
    first: usize,
    chunk: usize,
}

impl Chunks {
    /// Cuts `bytes` that lie at `address` in the host's memory in chunks of at most `chunk` bytes, whose
    /// inner boundaries are multiples of `align` in the host's memory: no page, small or huge, is then
    /// brought in by two threads.
    #[must_use]
    pub const fn new(bytes: usize, chunk: usize, address: usize, align: usize) -> Self {
        let chunk = if chunk == 0 { 1 } else { chunk };
        let align = if align == 0 || !chunk.is_multiple_of(align) {
            1
        } else {
            align
        };
        let over = address % align;
        let first = if over == 0 { chunk } else { chunk - over };
        Self {
            bytes,
            first: if first < bytes { first } else { bytes },
            chunk,
        }
    }

    /// How many chunks.
    #[must_use]
    pub const fn count(&self) -> usize {
        if self.bytes == 0 {
            0
        } else {
            1 + (self.bytes - self.first).div_ceil(self.chunk)
        }
    }

    /// Offset and length of a chunk; `None` past the end.
    #[must_use]
    pub const fn at(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.count() {
            return None;
        }
        if index == 0 {
            return Some((0, self.first));
        }
        let offset = self.first + (index - 1) * self.chunk;
        let left = self.bytes - offset;
        Some((offset, if left < self.chunk { left } else { self.chunk }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_bytes_in_order_and_end_at_boundaries() {
        for bytes in [0, 1, 4095, 4096, 100_000, 1 << 20] {
            for chunk in [0, 1 << 12, 1 << 14, 1 << 21] {
                for address in [0, 1, 4095, 0x7000_0040] {
                    if bytes / chunk.max(1) > 1000 {
                        continue;
                    }
                    let chunks = Chunks::new(bytes, chunk, address, 4096);
                    let mut at = 0;
                    for index in 0..chunks.count() {
                        let (offset, len) = chunks.at(index).unwrap();
                        assert_eq!(offset, at);
                        assert!(len > 0 && len <= chunk.max(1));
                        at += len;
                        assert!(at == bytes || chunk == 0 || (address + at).is_multiple_of(4096));
                    }
                    assert_eq!(at, bytes);
                    assert_eq!(chunks.at(chunks.count()), None);
                }
            }
        }
    }
}
