//! What the program's own cache becomes when the store takes it over.
//!
//! Its data goes to the store once. From then on the program gets an empty cache of the driver, its
//! pipelines come from the overlay, and its own saves get a header without entries, which is what
//! lavapipe always gives: valid, and as good as nothing to write.

use std::collections::HashSet;

use towpath_cache::vulkan::Overlay;
use towpath_cache::{ContentId, Kind};

/// Bytes of `VkPipelineCacheHeaderVersionOne`.
pub(crate) const HEADER: usize = 32;

/// The blobs that the driver has from the store.
#[derive(Debug, Default)]
pub(crate) struct Loaded(HashSet<ContentId>);

impl Loaded {
    /// What was loaded: everything, or nothing that could be named where the driver did not take all.
    pub(crate) fn of(overlay: &Overlay) -> Self {
        let report = overlay.report();
        // A blob that the driver refused must not be kept from it a second time without a try.
        if report.blobs_rejected > 0 || report.blobs_kept_back > 0 || report.blobs_failed > 0 {
            return Self::default();
        }
        let blobs = overlay.store().entries(Some(Kind::OVERLAY));
        Self(blobs.into_iter().map(|blob| blob.id).collect())
    }

    /// Whether this blob was among them. Asks no store, which may be writing.
    pub(crate) fn has(&self, blob: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains(&ContentId::of(blob))
    }
}

/// Vulkan's answer for a cache without entries: bytes to write, the size to report, whether it is all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    /// Bytes of the header that are written.
    pub(crate) written: usize,
    /// What the size becomes.
    pub(crate) size: usize,
    /// Whether that is all there is.
    pub(crate) is_whole: bool,
}

/// What `vkGetPipelineCacheData` answers; `room` is `None` where the size is asked for.
pub(crate) fn answer(room: Option<usize>) -> Answer {
    match room {
        None => Answer {
            written: 0,
            size: HEADER,
            is_whole: true,
        },
        Some(room) if room >= HEADER => Answer {
            written: HEADER,
            size: HEADER,
            is_whole: true,
        },
        Some(_) => Answer {
            written: 0,
            size: 0,
            is_whole: false,
        },
    }
}

/// The header of a driver's caches.
pub(crate) fn header(vendor: u32, device: u32, uuid: [u8; 16]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let length = u32::try_from(HEADER).unwrap_or(0);
    let words = [length, 1, vendor, device];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).chain(uuid);
    for (slot, byte) in header.iter_mut().zip(bytes) {
        *slot = byte;
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_headers_and_a_smaller_buffer_gets_nothing() {
        assert_eq!(answer(None).size, 32);
        let all = Answer {
            written: 32,
            size: 32,
            is_whole: true,
        };
        assert_eq!(answer(Some(32)), all);
        assert_eq!(answer(Some(1 << 30)), all);
        for room in [0, 9, 31] {
            let none = Answer {
                written: 0,
                size: 0,
                is_whole: false,
            };
            assert_eq!(answer(Some(room)), none);
        }
    }

    #[test]
    fn the_header_is_vulkans_version_one() {
        let header = header(0x10de, 0x2684, [7; 16]);
        assert_eq!(&header[..8], &[32, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(&header[8..16], &[0xde, 0x10, 0, 0, 0x84, 0x26, 0, 0]);
        assert_eq!(&header[16..], &[7; 16]);
    }
}
