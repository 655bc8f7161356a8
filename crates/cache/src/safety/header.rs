//! The header that every VkPipelineCache blob begins with.

use crate::bytes::{array_at, u32_at};
use crate::identity::Identity;

/// `VkPipelineCacheHeaderVersionOne`: 32 bytes, little-endian.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BlobHeader {
    /// Length of the header in bytes; 32 for version one.
    pub header_bytes: u32,
    /// `VkPipelineCacheHeaderVersion`.
    pub version: u32,
    /// Vendor number.
    pub vendor: u32,
    /// Device number.
    pub device: u32,
    /// `pipelineCacheUUID`.
    pub cache_uuid: [u8; 16],
}

impl BlobHeader {
    /// Length of a version-one header in bytes.
    pub const LEN: usize = 32;

    /// Reads the first 32 bytes; `None` if there are fewer.
    #[must_use]
    pub fn read(blob: &[u8]) -> Option<Self> {
        Some(Self {
            header_bytes: u32_at(blob, 0)?,
            version: u32_at(blob, 4)?,
            vendor: u32_at(blob, 8)?,
            device: u32_at(blob, 12)?,
            cache_uuid: array_at(blob, 16)?,
        })
    }
}

/// Why a blob is not given to the driver, or not worth storing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Fewer than 32 bytes; a driver that has nothing to say returns this.
    #[error("it has {bytes} bytes, a header alone has 32")]
    TooShort {
        /// Its length.
        bytes: u64,
    },
    /// Nothing after the header: the driver keeps its data elsewhere.
    #[error("it is a header without data")]
    HeaderOnly,
    /// Not version one with 32 bytes, such as Qualcomm's data-graph header: neither fetched nor merged.
    #[error("its header has version {version} and {header_bytes} bytes")]
    UnknownVersion {
        /// `headerVersion`.
        version: u32,
        /// `headerSize`.
        header_bytes: u32,
    },
    /// Made by another vendor's driver or for another device.
    #[error("it is for device {vendor:#06x}:{device:#06x}")]
    OtherDevice {
        /// The blob's vendor number.
        vendor: u32,
        /// The blob's device number.
        device: u32,
    },
    /// Made by another driver, or another version of it.
    #[error("it is of another driver: its UUID differs")]
    OtherDriver,
}

/// Whether `blob` may go to the driver of `identity`.
///
/// # Errors
///
/// The first thing that does not fit.
pub fn check(blob: &[u8], identity: &Identity) -> Result<(), Refusal> {
    let Some(header) = BlobHeader::read(blob) else {
        let bytes = crate::bytes::len64(blob.len());
        return Err(Refusal::TooShort { bytes });
    };
    if header.version != 1 || header.header_bytes != 32 {
        return Err(Refusal::UnknownVersion {
            version: header.version,
            header_bytes: header.header_bytes,
        });
    }
    if (header.vendor, header.device) != (identity.vendor, identity.device) {
        return Err(Refusal::OtherDevice {
            vendor: header.vendor,
            device: header.device,
        });
    }
    if header.cache_uuid != identity.cache_uuid {
        return Err(Refusal::OtherDriver);
    }
    if blob.len() == BlobHeader::LEN {
        return Err(Refusal::HeaderOnly);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(identity: &Identity) -> Vec<u8> {
        let mut blob = Vec::new();
        for field in [32, 1, identity.vendor, identity.device] {
            blob.extend_from_slice(&u32::to_le_bytes(field));
        }
        blob.extend_from_slice(&identity.cache_uuid);
        blob.extend_from_slice(b"data");
        blob
    }

    #[test]
    fn only_the_devices_own_blobs_pass() {
        let identity = Identity {
            vendor: 1,
            device: 2,
            cache_uuid: [3; 16],
            ..Identity::default()
        };
        let good = blob(&identity);
        assert_eq!(check(&good, &identity), Ok(()));
        for bit in 0..32 * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&bad, &identity).is_err(), "bit {bit}");
        }
        for len in 0..=32 {
            assert!(check(&good[..len], &identity).is_err(), "{len} bytes");
        }
        let other = Identity {
            cache_uuid: [4; 16],
            ..identity
        };
        assert_eq!(check(&good, &other), Err(Refusal::OtherDriver));
    }
}
