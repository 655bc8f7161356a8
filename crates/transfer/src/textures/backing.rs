//! The list of memory pieces behind a texture or buffer.
//!
//! Pieces that follow each other in memory and file are merged once, when the list is attached; prefix
//! sums then find the piece of an offset in O(log n). A *generation* names one state of the list: whoever
//! keeps something derived from the pieces (a view, an import) keeps the generation beside it.

#![expect(
    unsafe_code,
    reason = "memory behind a trait whose implementors promise that it stays mapped"
)]

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use towpath_memory::volatile::VolatileBytes;

use super::error::{Error, Result};

/// One entry of a backing list, in the addresses that the guest uses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Entry {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
}

/// A run of bytes mapped in this process.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    start: NonNull<u8>,
    len: usize,
    file: Option<FileAt>,
}

/// Where a run lies in a memory file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileAt {
    /// The file, open as long as the memory that resolved the run.
    pub fd: RawFd,
    /// The run's first byte in it.
    pub offset: u64,
}

// SAFETY: a run is an address and a length; who reads through it upholds `Memory`'s promise.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

impl Run {
    /// The `len` bytes at `start`, which lie at `file` if that is known.
    #[must_use]
    pub const fn new(start: NonNull<u8>, len: usize, file: Option<FileAt>) -> Self {
        Self { start, len, file }
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// Where it lies in a memory file.
    #[must_use]
    pub const fn file(&self) -> Option<FileAt> {
        self.file
    }

    /// Whether `next` begins where this ends, in memory and in the file alike.
    fn continues(&self, next: &Self) -> bool {
        let in_file = match (self.file, next.file) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                a.fd == b.fd && a.offset.checked_add(self.len as u64) == Some(b.offset)
            }
            _ => false,
        };
        in_file && self.address().checked_add(self.len) == Some(next.address())
    }
}

/// Memory of a guest: turns its addresses into runs of this process.
///
/// # Safety
///
/// Every run handed out stays mapped, readable and writable, at the same place, and its file open, as long
/// as `self` lives; no Rust reference to its bytes is used meanwhile.
pub unsafe trait Memory: Send + Sync {
    /// Hands the runs of `entry` to `add`, in order. An entry that crosses a border of the memory is
    /// split.
    ///
    /// # Errors
    ///
    /// [`Error::NotGuestMemory`] if a part is not memory; the caller drops what was added.
    fn resolve(&self, entry: Entry, add: &mut dyn FnMut(Run)) -> Result<()>;

    /// The whole mapping in which `run` lies, for a device that is to fetch from it as it is. `None` if that
    /// is not known.
    fn mapping(&self, _run: &Run) -> Option<VolatileBytes<'_>> {
        None
    }
}

/// The pieces behind one texture or buffer.
pub struct Backing {
    runs: Vec<Run>,
    /// `ends[i]` is the offset of the first byte after `runs[i]`.
    ends: Vec<u64>,
    entries: usize,
    id: u64,
    generation: AtomicU64,
    memory: Arc<dyn Memory>,
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing")
            .field("entries", &self.entries)
            .field("runs", &self.runs.len())
            .field("bytes", &self.len())
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Backing {
    /// Resolves and merges a list of entries. Entries without bytes are skipped.
    ///
    /// Cost: O(entries), allocates.
    ///
    /// # Errors
    ///
    /// [`Error::NotGuestMemory`] for an address outside; [`Error::TooManyPieces`] for more than
    /// [`ENTRIES_MAX`] entries or 2^63 bytes.
    pub fn attach(memory: &Arc<dyn Memory>, entries: &[Entry]) -> Result<Self> {
        let refused = Error::TooManyPieces {
            entries: entries.len(),
        };
        if entries.len() > ENTRIES_MAX {
            return Err(refused);
        }
        let mut runs: Vec<Run> = Vec::with_capacity(entries.len());
        for &entry in entries.iter().filter(|entry| entry.len > 0) {
            memory.resolve(entry, &mut |run| push_merged(&mut runs, run))?;
        }
        let mut ends = Vec::with_capacity(runs.len());
        let mut end = 0_u64;
        for run in &runs {
            let next = end.checked_add(run.len as u64);
            end = next
                .filter(|&end| i64::try_from(end).is_ok())
                .ok_or(Error::TooManyPieces {
                    entries: entries.len(),
                })?;
            ends.push(end);
        }
        Ok(Self {
            runs,
            ends,
            entries: entries.len(),
            id: next_generation(),
            generation: AtomicU64::new(next_generation()),
            memory: Arc::clone(memory),
        })
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries as given; the guest counts in these.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Runs after merging.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Names the backing as long as it lives, whatever happens to its memory.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The memory behind the pieces.
    #[must_use]
    pub const fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// The state of the pieces, unique in the process; `None` once [revoked](Self::revoke).
    pub fn generation(&self) -> Option<u64> {
        // Acquire: pairs with the release in `renew` and `revoke`.
        let now = self.generation.load(Ordering::Acquire);
        (now != REVOKED).then_some(now)
    }

    /// Notes that pages under the pieces were given back (a balloon, a hole punched, pages replaced):
    /// whatever was derived from them is stale from now on. The bytes can still be copied.
    pub fn discard(&self) {
        let seen = self.generation.load(Ordering::Acquire);
        if seen != REVOKED {
            // Release: who sees the new generation also sees what the caller did before. A revocation
            // that came in between stays.
            let _raced = self.generation.compare_exchange(
                seen,
                next_generation(),
                Ordering::Release,
                Ordering::Relaxed,
            );
        }
    }

    /// Notes that the memory was taken away: every later transfer fails with [`Error::Revoked`].
    /// A transfer in flight ends, since the backing keeps the memory mapped.
    pub fn revoke(&self) {
        // Release: as in `discard`.
        self.generation.store(REVOKED, Ordering::Release);
    }

    /// A cursor at the start.
    #[must_use]
    pub const fn cursor(&self) -> Cursor<'_> {
        Cursor {
            backing: self,
            index: 0,
        }
    }

    /// The runs of `len` bytes from `offset`: how many, and whether all lie in files.
    #[must_use]
    pub fn span(&self, offset: u64, len: u64) -> Span {
        let mut span = Span {
            runs: 0,
            in_files: true,
        };
        let fits = self.cursor().visit(offset, len, |piece| {
            span.runs += 1;
            span.in_files &= piece.file.is_some();
        });
        span.in_files &= fits;
        span
    }

    /// How many runs `len` bytes from `offset` touch, of those that there are.
    ///
    /// Cost: O(log n), as it is asked before every transfer.
    #[must_use]
    pub fn runs_in(&self, offset: u64, len: u64) -> usize {
        let first = self.ends.partition_point(|&end| end <= offset);
        let past = self
            .ends
            .partition_point(|&end| end < offset.saturating_add(len));
        match len {
            0 => 0,
            _ => (past + 1).min(self.ends.len()).saturating_sub(first),
        }
    }

    fn start(&self, index: usize) -> u64 {
        let before = index.checked_sub(1).and_then(|index| self.ends.get(index));
        before.copied().unwrap_or(0)
    }
}

/// What lies under a range of a backing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// Runs touched.
    pub runs: usize,
    /// Whether all of them lie in memory files.
    pub in_files: bool,
}

/// A part of one run.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The bytes.
    pub bytes: VolatileBytes<'a>,
    /// Where they lie in a memory file.
    pub file: Option<FileAt>,
}

/// A place in a backing that moves forward cheaply: the rows of a transfer follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    backing: &'a Backing,
    index: usize,
}

impl<'a> Cursor<'a> {
    /// Hands the parts of `len` bytes from `offset` to `part`, in order.
    ///
    /// Says whether all bytes are inside; if not, none was handed out.
    ///
    /// # Cost
    ///
    /// O(parts) if `offset` lies at or shortly after the last visit's end, else O(log n + parts).
    pub fn visit(&mut self, offset: u64, len: u64, mut part: impl FnMut(Part<'a>)) -> bool {
        let Some(end) = offset.checked_add(len) else {
            return false;
        };
        if end > self.backing.len() {
            return false;
        }
        if len == 0 {
            return true;
        }
        self.seek(offset);
        let mut at = offset;
        while at < end {
            let Some(run) = self.backing.runs.get(self.index) else {
                return false;
            };
            let start = self.backing.start(self.index);
            let run_end = start + run.len as u64;
            let stop = run_end.min(end);
            part(cut(run, at - start, stop - at));
            at = stop;
            if stop == run_end && at < end {
                self.index += 1;
            }
        }
        true
    }

    fn seek(&mut self, offset: u64) {
        let backing = self.backing;
        let holds = |index: usize| {
            let end = backing.ends.get(index);
            backing.start(index) <= offset && end.is_some_and(|&end| offset < end)
        };
        if holds(self.index) {
            return;
        }
        if holds(self.index + 1) {
            self.index += 1;
            return;
        }
        self.index = backing.ends.partition_point(|&end| end <= offset);
    }
}

/// The part of `run` from `offset`; the caller keeps it inside.
fn cut<'a>(run: &Run, offset: u64, len: u64) -> Part<'a> {
    // SAFETY: the backing keeps the memory that resolved the run alive, by `Memory`'s promise the bytes
    // stay mapped with it, and `'a` is the borrow of the backing.
    let whole = unsafe { VolatileBytes::new(run.start, run.len) };
    let inside = |value: u64| usize::try_from(value).ok();
    let bytes = inside(offset)
        .zip(inside(len))
        .and_then(|(offset, len)| whole.get(offset, len))
        .unwrap_or(VolatileBytes::empty());
    let file = run.file.map(|file| FileAt {
        offset: file.offset + offset,
        ..file
    });
    Part { bytes, file }
}

fn push_merged(runs: &mut Vec<Run>, run: Run) {
    if run.is_empty() {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.continues(&run) => last.len += run.len,
        _ => runs.push(run),
    }
}

/// Most entries of one list; QEMU takes 16 384, a 4 GiB buffer in 4 KiB pages has this many.
pub const ENTRIES_MAX: usize = 1 << 20;

const REVOKED: u64 = 0;

fn next_generation() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only uniqueness counts. 2^64 attachments do not happen.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests {
    use super::super::ram::Ram;
    use super::*;

    fn entries(list: &[(u64, u64)]) -> Vec<Entry> {
        list.iter()
            .map(|&(address, len)| Entry { address, len })
            .collect()
    }

    fn ram(pages: u64) -> Arc<dyn Memory> {
        Arc::new(Ram::new(pages * 4096).unwrap())
    }

    #[test]
    fn neighbours_merge_and_empty_entries_vanish() {
        let list = entries(&[(0, 4096), (4096, 4096), (9, 0), (8192, 100), (4096, 4096)]);
        let backing = Backing::attach(&ram(4), &list).unwrap();
        assert_eq!(backing.runs().len(), 2);
        assert_eq!(backing.entries(), 5);
        assert_eq!(backing.len(), 8192 + 100 + 4096);
    }

    #[test]
    fn a_cursor_finds_every_offset_forwards_and_backwards() {
        let list = entries(&[(4096, 10), (0, 7), (100, 1), (50, 20)]);
        let backing = Backing::attach(&ram(4), &list).unwrap();
        let mut addresses = Vec::new();
        for &Entry { address, len } in &list {
            addresses.extend(address..address + len);
        }
        let base = backing.runs()[1].address();
        let mut cursor = backing.cursor();
        for start in (0..addresses.len()).chain((0..addresses.len()).rev()) {
            let mut seen = Vec::new();
            let rest = (addresses.len() - start) as u64;
            let fits = cursor.visit(start as u64, rest, |part| {
                let first = part.bytes.as_ptr().addr() - base;
                seen.extend((first..first + part.bytes.len()).map(|at| at as u64));
            });
            assert!(fits);
            assert_eq!(seen, addresses[start..], "from {start}");
        }
        assert!(!cursor.visit(30, 9, |_part| ()), "one past the end");
        assert!(!cursor.visit(u64::MAX, 2, |_part| ()));
    }

    #[test]
    fn hostile_lists_are_errors() {
        let ram = ram(1);
        for (address, len) in [
            (4096, 1),
            (0, 4097),
            (u64::MAX, 1),
            (u64::MAX, u64::MAX),
            (5, u64::MAX),
        ] {
            let answer = Backing::attach(&ram, &entries(&[(address, len)]));
            assert!(
                matches!(answer, Err(Error::NotGuestMemory { .. })),
                "{address} {len}"
            );
        }
        let many = vec![Entry { address: 0, len: 1 }; ENTRIES_MAX + 1];
        let answer = Backing::attach(&ram, &many);
        assert!(matches!(answer, Err(Error::TooManyPieces { .. })));
    }

    #[test]
    fn a_discard_changes_the_generation_and_a_revocation_ends_it() {
        let backing = Backing::attach(&ram(1), &entries(&[(0, 10)])).unwrap();
        let first = backing.generation().unwrap();
        backing.discard();
        assert_ne!(backing.generation().unwrap(), first);
        backing.revoke();
        backing.discard();
        assert_eq!(backing.generation(), None);
    }
}
