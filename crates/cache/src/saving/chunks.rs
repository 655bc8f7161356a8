//! Content-defined chunks: an insertion changes the chunks around it and no others.
//!
//! FastCDC with a gear hash. Cut points depend on the 64 bytes before them only. The gear table is
//! made by SplitMix64 from a fixed seed and is part of the format: another table would still read old
//! blobs, but find nothing known in them.

use std::ops::Range;

/// Sizes of chunks, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chunker {
    /// No cut before.
    pub bytes_min: usize,
    /// Where cuts become likelier; a power of two.
    pub bytes_mean: usize,
    /// A cut at the latest.
    pub bytes_max: usize,
}

impl Chunker {
    /// For blobs up to 64 MiB: 6 % more than the new bytes for scattered insertions (research, section 4).
    pub const SMALL: Self = Self::mean(4 << 10);
    /// For larger blobs: a quarter of the index.
    pub const LARGE: Self = Self::mean(16 << 10);

    const fn mean(bytes: usize) -> Self {
        Self {
            bytes_min: bytes / 4,
            bytes_mean: bytes,
            bytes_max: bytes * 4,
        }
    }

    /// The choice for a blob of this length.
    #[must_use]
    pub fn for_len(len: usize) -> Self {
        if len <= 64 << 20 {
            Self::SMALL
        } else {
            Self::LARGE
        }
    }

    /// The length of the first chunk of `bytes`.
    fn first(&self, bytes: &[u8]) -> usize {
        let bits = self.bytes_mean.trailing_zeros();
        // Two bits stricter before the mean, two laxer after it: sizes gather around the mean.
        let strict = u64::MAX << (64 - (bits + 2));
        let lax = u64::MAX << (64 - (bits - 2));
        let mut hash = 0_u64;
        let skip = self.bytes_min.saturating_sub(64);
        for (at, byte) in bytes.iter().enumerate().take(self.bytes_max).skip(skip) {
            let gear = GEAR.get(usize::from(*byte)).copied().unwrap_or(0);
            hash = (hash << 1).wrapping_add(gear);
            let mask = if at < self.bytes_mean { strict } else { lax };
            if at >= self.bytes_min && hash & mask == 0 {
                return at + 1;
            }
        }
        bytes.len().min(self.bytes_max)
    }
}

/// The chunks of `bytes`, in order, without a gap.
pub fn chunks(bytes: &[u8], chunker: Chunker) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let start = at;
        at += chunker.first(rest);
        Some(start..at)
    })
}

const GEAR: [u64; 256] = gear();

#[expect(
    clippy::indexing_slicing,
    reason = "a constant table, filled at compile time"
)]
const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let mut state = 0x746f_7770_6174_6831_u64;
    let mut n = 0;
    while n < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[n] = z ^ (z >> 31);
        n += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn random(len: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(5);
        std::iter::repeat_with(|| random.u8(..)).take(len).collect()
    }

    #[test]
    fn chunks_cover_everything_and_keep_their_sizes() {
        for len in [0, 1, 1023, 4096, 1 << 20] {
            let bytes = random(len);
            let mut at = 0;
            for range in chunks(&bytes, Chunker::SMALL) {
                assert_eq!(range.start, at);
                assert!(range.len() <= Chunker::SMALL.bytes_max);
                assert!(range.len() > Chunker::SMALL.bytes_min || range.end == len);
                at = range.end;
            }
            assert_eq!(at, len);
        }
        let zeros = vec![0; 1 << 20];
        assert!(chunks(&zeros, Chunker::SMALL).count() >= 64);
        let mean = (1 << 20) / chunks(&random(1 << 20), Chunker::SMALL).count();
        assert!((3000..7000).contains(&mean), "{mean}");
    }

    #[test]
    fn an_insertion_changes_only_the_chunks_around_it() {
        let bytes = random(1 << 20);
        let mut longer = bytes.clone();
        longer.splice(500_000..500_000, random(3000));
        let old: HashSet<&[u8]> = chunks(&bytes, Chunker::SMALL).map(|r| &bytes[r]).collect();
        let new: usize = chunks(&longer, Chunker::SMALL)
            .map(|r| &longer[r])
            .filter(|chunk| !old.contains(chunk))
            .map(<[u8]>::len)
            .sum();
        assert!((3000..40_000).contains(&new), "{new}");
    }
}
