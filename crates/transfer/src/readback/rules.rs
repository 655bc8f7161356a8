//! The numbers and the table by which a read is prefaulted or not. `docs/readback.md` gives the reasons.

use std::time::Duration;

use towpath_memory::vma::{self, Kind};
use towpath_memory::{Huge, Prefault, Range, cpus, margin};

use super::Outcome;

/// The numbers of the rule table, per device.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rules {
    /// Reads of fewer bytes are forwarded unseen.
    pub floor_bytes: usize,
    /// Fewer cold bytes than this count as warm.
    pub cold_bytes_min: usize,
    /// Whether prefault pays on this device; `None` where nobody measured.
    pub prefault_pays: Option<bool>,
    /// Threads at most, the caller's included; 0 for as many as the rule below allows.
    pub threads_max: usize,
    /// Whether huge pages may be asked for.
    pub huge: bool,
    /// Whether memory that gets huge pages by itself is left to the driver: its faults are few, and on
    /// some devices it is faster to take them in the copy.
    pub skip_huge: bool,
    /// Longest time that a prefault may take.
    pub limit: Duration,
}

impl Default for Rules {
    /// Without a calibration: reads of 512 KiB and more, of which 64 KiB are cold.
    fn default() -> Self {
        Self {
            floor_bytes: 512 << 10,
            cold_bytes_min: 64 << 10,
            prefault_pays: None,
            threads_max: 0,
            huge: true,
            skip_huge: false,
            limit: Duration::from_secs(10),
        }
    }
}

impl Rules {
    /// How to bring in `bytes`: at most half the processors, at least 4 MiB for each.
    pub(super) fn prefault(&self, bytes: usize) -> Prefault {
        let by_size = bytes / BYTES_PER_THREAD_MIN;
        let threads = if by_size < 2 {
            1
        } else {
            by_size.min(cpus::usable() / 2)
        };
        let threads = match self.threads_max {
            0 => threads,
            most => threads.min(most),
        };
        Prefault {
            threads: threads.max(1),
            huge: if self.huge {
                Huge::WholeBlocks
            } else {
                Huge::Never
            },
            chunk: if threads > 1 {
                BYTES_PER_THREAD_MIN
            } else {
                CHUNK_BYTES
            },
            limit: self.limit,
        }
    }
}

/// Why the kind of mapping or the machine's memory forbids a prefault; `None` if it may be done.
pub(super) fn forbids(envelope: Range, cold_bytes: usize) -> Option<Outcome> {
    match vma::kind(envelope) {
        Kind::Anonymous | Kind::FilePrivate | Kind::Memfd | Kind::HugeTlb | Kind::Mixed => {}
        Kind::ReadOnly | Kind::NoAccess => return Some(Outcome::ReadOnly),
        Kind::Hole => return Some(Outcome::NotMapped),
        Kind::FileShared => return Some(Outcome::FileBacked),
        Kind::Driver => return Some(Outcome::DriverMapping),
        _ => return Some(Outcome::Failed),
    }
    (!margin::allows(cold_bytes)).then_some(Outcome::LowMemory)
}

/// 4 MiB: below it starting a thread costs more than it saves.
const BYTES_PER_THREAD_MIN: usize = 4 << 20;
/// 16 MiB: other threads' `mmap` waits no longer than noise.
const CHUNK_BYTES: usize = 16 << 20;
