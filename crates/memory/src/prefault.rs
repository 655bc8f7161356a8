//! Bringing pages in before someone else writes to them.
//!
//! `MADV_POPULATE_WRITE` keeps content and reports errors. It holds the process's memory lock, so the
//! work is cut in chunks (one call over 1 GiB stalled other threads' `mmap` for 0.85 s, 16 MiB stayed
//! below noise). Huge pages are advised only for whole blocks inside the range: every byte of them is
//! about to be written, so resident memory ends up the same.
//!
//! On a virtual machine that gives freed memory back to its host, the first touch of a huge page can
//! cost 20 times what it should while 4 KiB pages are still at hand. So every huge chunk is timed, the
//! first three of them single pages, and the rest goes on in 4 KiB pages once two were slow (one alone
//! may have been the scheduler).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use towpath_sys::madvise::{Advice, advise};

use crate::{Error, Range, Result, faults, fork, threads};

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
    /// Bytes per system call, at least one page; more than 16 MiB stalls other threads' `mmap`.
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
    /// Whether huge pages came too slowly and 4 KiB pages were used instead.
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
/// - [`Error::Prefault`]: not writable, not mapped, driver memory, end of file. Some pages before it
///   may be in.
/// - [`Error::TimeLimit`].
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
    let work = Work::new(&chunks, how.limit, block);
    let threads = how.threads.clamp(1, chunks.len().max(1));
    threads::together(threads - 1, &|_number| work.run());
    let done = work.finish(threads)?;
    for piece in pieces {
        fork::note_written(*piece);
    }
    Ok(done)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Chunk {
    range: Range,
    is_huge: bool,
}

/// Cuts pieces into chunks of whole pages; chunks of whole huge blocks are marked, and the first few
/// are single blocks, which serve as probes.
fn cut(pieces: &[Range], chunk_bytes: usize, block: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut probes = 0;
    for piece in pieces {
        let pages = piece.pages();
        // Blocks of the exact bytes, not of the rounded-out pages: neighbours' bytes stay out.
        let mut blocks = piece.whole_blocks(block);
        if blocks.is_empty() {
            blocks = Range::between(pages.end(), pages.end());
        }
        push(
            &mut chunks,
            Range::between(pages.address, blocks.address),
            chunk_bytes,
            false,
        );
        while !blocks.is_empty() && probes < PROBES {
            probes += 1;
            let probe = Range::between(blocks.address, blocks.address + block);
            push(&mut chunks, probe, block, true);
            blocks = Range::between(probe.end(), blocks.end());
        }
        push(
            &mut chunks,
            blocks,
            (chunk_bytes - chunk_bytes % block.max(1)).max(block),
            true,
        );
        push(
            &mut chunks,
            Range::between(blocks.end(), pages.end()),
            chunk_bytes,
            false,
        );
    }
    // The first probe goes first, so that it is known before the others start.
    if let Some(probe) = chunks.iter().position(|chunk| chunk.is_huge) {
        chunks.swap(0, probe);
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

/// Chunks handed out to threads.
struct Work<'a> {
    chunks: &'a [Chunk],
    next: AtomicUsize,
    done_bytes: AtomicUsize,
    huge_bytes: AtomicUsize,
    faults: AtomicU64,
    slow_chunks: AtomicUsize,
    has_failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    started: Instant,
    limit: Duration,
    block: usize,
}

impl<'a> Work<'a> {
    fn new(chunks: &'a [Chunk], limit: Duration, block: usize) -> Self {
        let work = Self {
            chunks,
            next: AtomicUsize::new(0),
            done_bytes: AtomicUsize::new(0),
            huge_bytes: AtomicUsize::new(0),
            faults: AtomicU64::new(0),
            slow_chunks: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            started: Instant::now(),
            limit,
            block,
        };
        // The probe, before any helper starts.
        if chunks.first().is_some_and(|chunk| chunk.is_huge) {
            work.step();
        }
        work
    }

    fn run(&self) {
        while !self.has_failed.load(Ordering::Relaxed) && self.started.elapsed() < self.limit {
            if !self.step() {
                return;
            }
        }
    }

    /// Does one chunk; false if there is none left.
    fn step(&self) -> bool {
        let Some(chunk) = self.chunks.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
            return false;
        };
        let faults = faults::of_thread();
        let outcome = if chunk.is_huge && !self.is_slow() {
            self.bring_in_huge(chunk.range)
        } else {
            advise(chunk.range.address, chunk.range.len, Advice::PopulateWrite)
        };
        match outcome {
            Ok(()) => {
                self.done_bytes
                    .fetch_add(chunk.range.len, Ordering::Relaxed);
                self.faults
                    .fetch_add(faults::of_thread() - faults, Ordering::Relaxed);
            }
            Err(source) => self.fail(chunk.range, source),
        }
        true
    }

    fn is_slow(&self) -> bool {
        self.slow_chunks.load(Ordering::Relaxed) >= SLOW_CHUNKS
    }

    fn bring_in_huge(&self, range: Range) -> std::io::Result<()> {
        // Refused where the kernel has no huge pages or the mapping cannot: then small ones come.
        let is_advised = advise(range.address, range.len, Advice::HugePage).is_ok();
        let started = Instant::now();
        advise(range.address, range.len, Advice::PopulateWrite)?;
        if is_advised {
            self.huge_bytes.fetch_add(range.len, Ordering::Relaxed);
            let blocks = u32::try_from(range.len / self.block.max(1)).unwrap_or(u32::MAX);
            if started.elapsed() > SLOW_BLOCK.saturating_mul(blocks) {
                // A large chunk is an average over many blocks and decides alone.
                let weight = if blocks > 1 { SLOW_CHUNKS } else { 1 };
                let _before = self.slow_chunks.fetch_add(weight, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn fail(&self, range: Range, source: std::io::Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        if let Ok(mut failure) = self.failure.lock() {
            let _first = failure.get_or_insert(Error::Prefault {
                address: range.address,
                len: range.len,
                source,
            });
        }
    }

    fn finish(self, threads: usize) -> Result<Prefaulted> {
        let fell_back = self.is_slow();
        if let Ok(Some(error)) = self.failure.into_inner() {
            return Err(error);
        }
        let asked: usize = self.chunks.iter().map(|chunk| chunk.range.len).sum();
        let bytes = self.done_bytes.into_inner();
        if bytes < asked {
            return Err(Error::TimeLimit {
                left_bytes: asked - bytes,
            });
        }
        Ok(Prefaulted {
            bytes,
            huge_bytes: self.huge_bytes.into_inner(),
            faults: self.faults.into_inner(),
            threads,
            fell_back,
        })
    }
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
/// Single blocks at the start.
const PROBES: usize = 3;
/// Slow single blocks before small pages are used.
const SLOW_CHUNKS: usize = 2;
/// A huge page takes 0.1 to 0.3 ms where memory is at hand, 4 ms where the host must give it first.
const SLOW_BLOCK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut chunks = cut(&[piece], CHUNK_BYTES_MAX, block);
            assert!(
                chunks
                    .iter()
                    .filter(|c| c.is_huge)
                    .all(|c| piece.contains(c.range))
            );
            assert!(
                chunks
                    .iter()
                    .filter(|c| c.is_huge)
                    .all(|c| c.range.len % block == 0)
            );
            assert!(chunks.iter().all(|c| c.range.len <= CHUNK_BYTES_MAX));
            chunks.sort_by_key(|chunk| chunk.range.address);
            let mut at = piece.pages().address;
            for chunk in &chunks {
                assert_eq!(chunk.range.address, at);
                at = chunk.range.end();
            }
            assert_eq!(at, piece.pages().end());
        }
    }

    #[test]
    fn the_first_probe_is_one_block_and_comes_first() {
        let block = 2 << 20;
        let piece = Range::new(block - 4096, 9 * block).unwrap();
        let chunks = cut(&[piece], CHUNK_BYTES_MAX, block);
        assert_eq!(
            chunks.first().map(|c| (c.range.len, c.is_huge)),
            Some((block, true))
        );
    }
}
