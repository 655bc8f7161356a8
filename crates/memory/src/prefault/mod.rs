//! Bringing pages in before someone else writes to them.
//!
//! `MADV_POPULATE_WRITE` keeps content and reports errors. It holds the process's memory lock, so the
//! work is cut in chunks (one call over 1 GiB stalled other threads' `mmap` for 0.85 s, 16 MiB stayed
//! below noise). Huge pages are advised only for whole blocks inside the range: every byte of them is
//! about to be written, so resident memory ends up the same.
//!
//! On a virtual machine that gives freed memory back to its host, the first touch of a huge page can
//! cost 20 times what it should while 4 KiB pages are still at hand. So huge pages are brought in one by
//! one, each is timed, and where they come slowly the work goes on in 4 KiB pages for a while (`prefault/pace.rs`).

use std::time::Duration;

use crate::{Range, Result, fork, threads};
use cut::cut;
use machine::Kernel;
use pace::PACE;
use work::Work;

mod cut;
mod machine;
mod pace;
mod work;

/// Whether to ask for huge pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Huge {
    /// Never.
    Never,
    /// For whole blocks inside the range, as long as they come fast.
    WholeBlocks,
}

/// How to prefault.
#[derive(Clone, Copy, Debug)]
pub struct Prefault {
    /// Threads including the caller; 1 starts none.
    pub threads: usize,
    /// Huge pages.
    pub huge: Huge,
    /// Bytes per system call in 4 KiB pages, at least one page; more than 16 MiB stalls other threads' `mmap`.
    pub chunk: usize,
    /// Time after which no further chunk is started.
    pub limit: Duration,
}

impl Default for Prefault {
    /// One thread, huge pages, chunks of 16 MiB, ten seconds.
    fn default() -> Self {
        Self {
            threads: 1,
            huge: Huge::WholeBlocks,
            chunk: CHUNK_BYTES_MAX,
            limit: Duration::from_secs(10),
        }
    }
}

/// What a prefault did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Prefaulted {
    /// Bytes in the pages asked for, present or not before.
    pub bytes: usize,
    /// Of these, bytes that were advised to be in huge pages.
    pub huge_bytes: usize,
    /// Page faults that it took, over all its threads.
    pub faults: u64,
    /// Threads used.
    pub threads: usize,
    /// Whether huge pages came too slowly and 4 KiB pages were used in place of some.
    pub fell_back: bool,
}

/// Brings in all pages of `range`; as [`prefault_all`] with one piece.
///
/// # Errors
///
/// As [`prefault_all`].
pub fn prefault(range: Range, how: &Prefault) -> Result<Prefaulted> {
    prefault_all(&[range], how)
}

/// Brings in all pages that hold a byte of `pieces`, with content unchanged.
///
/// # Cost
///
/// On the machine of `bench/record/vm-2core`, 0.1 to 1.5 microseconds per 4 KiB; allocates a list of
/// chunks; starts and joins `threads - 1` threads.
///
/// # Errors
///
/// - [`crate::Error::Prefault`]: not writable, not mapped, driver memory, end of file. Some pages before it
///   may be in.
/// - [`crate::Error::TimeLimit`].
pub fn prefault_all(pieces: &[Range], how: &Prefault) -> Result<Prefaulted> {
    let block = if how.huge == Huge::WholeBlocks {
        huge_block()
    } else {
        0
    };
    let chunks = cut(
        pieces,
        how.chunk.clamp(crate::page_size(), CHUNK_BYTES_MAX),
        block,
    );
    let kernel = Kernel::new();
    let work = Work::new(&kernel, &PACE, &chunks, how.limit, block);
    let threads = how.threads.clamp(1, chunks.len().max(1));
    threads::together(threads - 1, &|_number| work.run());
    let done = work.finish(threads)?;
    for piece in pieces {
        fork::note_written(*piece);
    }
    Ok(done)
}

/// Size of a huge page in bytes, 0 where the kernel has none or they are switched off.
#[must_use]
pub fn huge_block() -> usize {
    static BLOCK: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *BLOCK.get_or_init(|| {
        let folder = "/sys/kernel/mm/transparent_hugepage";
        let mode = std::fs::read_to_string(format!("{folder}/enabled")).unwrap_or_default();
        if mode.is_empty() || mode.contains("[never]") {
            return 0;
        }
        std::fs::read_to_string(format!("{folder}/hpage_pmd_size"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            // Larger blocks (512 MiB with 64 KiB pages) would hold one system call for too long.
            .filter(|bytes| (1..=CHUNK_BYTES_MAX).contains(bytes))
            .unwrap_or(0)
    })
}

/// 16 MiB: the largest chunk that stalled another thread's `mmap` no longer than noise.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;
