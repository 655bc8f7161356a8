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
    /// How to bring in `bytes`: by half the processors but two where there are two, at least 4 MiB for
    /// each.
    ///
    /// By one thread where an eighth of them has to be taken away first (`replaced_bytes`): each such page
    /// interrupts every other processor that runs the process, so that two threads take four times as long.
    pub(super) fn prefault(&self, bytes: usize, replaced_bytes: usize) -> Prefault {
        let by_size = bytes / BYTES_PER_THREAD_MIN;
        let threads = if by_size < 2 || replaced_bytes > bytes / 8 {
            1
        } else {
            by_size.min(most_threads(cpus::usable()))
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
                // Four for each thread: none waits long for the last. Not more, since each asks for its
                // huge pages once, which waits until no other thread is bringing any in.
                (bytes / threads / 4).clamp(BYTES_PER_THREAD_MIN, CHUNK_BYTES)
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

/// Two of two processors as well: the program waits for its read, and one thread alone takes as long to
/// bring memory in as the driver to copy.
const fn most_threads(usable: usize) -> usize {
    match usable {
        0..=1 => 1,
        2..=3 => 2,
        more => more / 2,
    }
}

/// 4 MiB: below it starting a thread costs more than it saves.
const BYTES_PER_THREAD_MIN: usize = 4 << 20;
/// 16 MiB: other threads' `mmap` waits no longer than noise.
const CHUNK_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_two_processors_and_half_of_many_bring_pages_in() {
        let threads = [1, 2, 3, 4, 5, 16].map(most_threads);
        assert_eq!(threads, [1, 2, 2, 2, 2, 8]);
        let rules = Rules::default();
        assert_eq!(rules.prefault(BYTES_PER_THREAD_MIN * 2 - 1, 0).threads, 1);
        let most = most_threads(cpus::usable());
        let large = BYTES_PER_THREAD_MIN * 1000;
        assert_eq!(rules.prefault(large, 0).threads, most);
        assert_eq!(rules.prefault(large, large / 8).threads, most);
        assert_eq!(rules.prefault(large, large / 4).threads, 1);
        let one = Rules {
            threads_max: 1,
            ..rules
        };
        assert_eq!(one.prefault(large, 0).threads, 1);
    }
}
