//! What stands between stored bytes and a driver that may crash on them.
//!
//! A corrupt payload is undefined behaviour in the driver (VUID-VkPipelineCacheCreateInfo-initialDataSize-00769),
//! and a sound one may crash a driver that has a bug. In order: the store's checksum, the header
//! against the device, quarantine, a canary while the driver reads, and a look at what it kept.

mod bisect;
mod canary;
mod header;
mod quarantine;

pub use bisect::find_bad;
pub use canary::{Canary, Leftover, Stage};
pub use header::{BlobHeader, Refusal, check};
pub use quarantine::{
    Acceptance, acceptance, clear, is_quarantined, note_death, quarantine, quarantined,
};
