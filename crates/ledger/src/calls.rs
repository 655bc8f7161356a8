//! What a layer says about one call.

use towpath_measure::{Nanos, SignedNanos};

use crate::{HostPath, Outcome, Stack};

/// Names the place of a call; the same key is the same site.
#[derive(Clone, Copy, Debug)]
pub struct SiteKey<'a> {
    /// The host path.
    pub path: HostPath,
    /// The API's function, such as `clEnqueueReadImage`. Kept up to 47 bytes.
    pub call: &'a str,
    /// The device's name. Kept up to 63 bytes.
    pub device: &'a str,
    /// Where the program called from; [`Stack::NONE`] for calls under 1 MiB.
    pub stack: Stack,
}

impl SiteKey<'_> {
    /// The identity of the site, never 0.
    pub(crate) fn hash(&self) -> u64 {
        let seed = u64::from(self.path.number()) ^ self.stack.hash();
        let with_call = mix(seed, self.call.as_bytes());
        let hash = mix(with_call, self.device.as_bytes());
        if hash == 0 { 1 } else { hash }
    }
}

/// Mixes `bytes`, eight at a time, and their number into `state`.
pub(crate) fn mix(state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut tail = [0_u8; 8];
    for (to, from) in tail.iter_mut().zip(rest) {
        *to = *from;
    }
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let all = words.iter().map(|word| u64::from_le_bytes(*word));
    all.chain([u64::from_le_bytes(tail), length])
        .fold(state, mix_word)
}

/// One round of a multiply-and-fold hash (as in wyhash): every bit of both reaches every bit.
pub(crate) fn mix_word(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ 0xa076_1d64_78bd_642f)
        .wrapping_mul(u128::from(word ^ 0xe703_7ed1_a0b4_28db));
    let low = product & u128::from(u64::MAX);
    // Both halves fit: one is masked, the other shifted.
    let fold = |half: u128| u64::try_from(half).unwrap_or(0);
    fold(low) ^ fold(product >> 64)
}

/// A site's place in the ledger's table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SiteId(pub(crate) u16);

/// What one call cost.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// When it began, by the monotonic clock; zero if not known.
    pub start: Nanos,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Its wall time as the program saw it, our own work included.
    pub wall: Nanos,
    /// Minor faults within it, ours included.
    pub faults: u64,
    /// Bytes of the destination whose pages were absent before; [`Call::COLD_UNKNOWN`] if not known.
    pub cold_bytes: u64,
    /// Estimate of what the fix saved; zero if nothing or not known.
    pub saved: SignedNanos,
    /// What was done, or why nothing.
    pub outcome: Outcome,
}

impl Call {
    /// Stands for cold bytes that could not be counted.
    pub const COLD_UNKNOWN: u64 = u64::MAX;
}

impl Default for Call {
    /// Nothing moved in no time, observed.
    fn default() -> Self {
        Self {
            start: Nanos::ZERO,
            bytes: 0,
            wall: Nanos::ZERO,
            faults: 0,
            cold_bytes: 0,
            saved: SignedNanos::ZERO,
            outcome: Outcome::Observed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key<'a>(path: HostPath, call: &'a str, device: &'a str) -> SiteKey<'a> {
        SiteKey {
            path,
            call,
            device,
            stack: Stack::NONE,
        }
    }

    #[test]
    fn keys_that_differ_in_one_place_differ_in_their_hash() {
        let hashes = [
            key(HostPath::Readback, "read", "gpu").hash(),
            key(HostPath::Upload, "read", "gpu").hash(),
            key(HostPath::Readback, "rea", "dgpu").hash(),
            key(HostPath::Readback, "readgpu", "").hash(),
            key(HostPath::Readback, "", "readgpu").hash(),
            key(HostPath::Readback, "read\0", "gpu").hash(),
        ];
        for (i, hash) in hashes.iter().enumerate() {
            assert!(!hashes[i + 1..].contains(hash), "{i}");
        }
        let again = key(HostPath::Readback, "read", "gpu").hash();
        assert_eq!(hashes[0], again);
    }
}
