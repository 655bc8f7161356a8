//! The layer's side: records calls in a mapped file, without lock, allocation or system call.

#![expect(
    unsafe_code,
    reason = "borrows the mapping that fork may have taken away"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use towpath_measure::Nanos;
use towpath_settings::Fixes;

use crate::layout::{self, BUCKETS, FILE_BYTES, FRAMES, Ledger, MAGIC, SITE_BUCKETS, VERSION};
use crate::map::{self, GuardPage};
use crate::process::Process;
use crate::{Call, Counter, Error, Histogram, Operation, Outcome, SiteId, SiteKey};

mod sites;
mod slowest;
mod waits;

/// Records what calls cost, for one library in one process.
///
/// All methods but [`Writer::create`] are safe from any thread and in a forked child; none locks,
/// allocates or enters the kernel, except the first one in a forked child, which makes the child's
/// own file.
#[derive(Debug)]
pub struct Writer {
    guard: GuardPage,
    /// The mapping made at creation. A child finds the sites of its parent here.
    made: NonNull<Ledger>,
    maker: u32,
    folder: PathBuf,
    library: String,
    /// What a child uses until it has its own control word.
    fixes: Fixes,
}

// SAFETY: the mapping holds atomics only and belongs to no thread.
unsafe impl Send for Writer {}
// SAFETY: as above; shared access goes through atomics.
unsafe impl Sync for Writer {}

/// Wall times from here on are in the open bucket of a site's histogram, in nanoseconds.
const OPEN_BUCKET: u64 = 1 << (SITE_BUCKETS - 2);

/// Guard states: a child that has not tried yet, is making its file, has one, cannot have one.
const UNTRIED: u32 = 0;
const MAKING: u32 = 1;
const MADE: u32 = 2;
const FAILED: u32 = 3;

impl Writer {
    /// Makes `<folder>/<pid>-<library>-<random>.ledger` and maps it.
    ///
    /// # Cost
    ///
    /// One file of 540 KiB, fully allocated; a few hundred microseconds. Once per library.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be made, allocated or mapped; nothing is left behind. The
    /// program must go on without a ledger.
    pub fn create(folder: &Path, library: &str, fixes: Fixes) -> Result<Self, Error> {
        let io = |operation| {
            move |source| Error::Io {
                operation,
                path: folder.to_owned(),
                source,
            }
        };
        let guard = GuardPage::new().map_err(io(Operation::WipeOnFork))?;
        let made = make(folder, library, fixes, 0)?;
        guard.get().ledger.store(made.as_ptr(), Ordering::Release);
        guard.get().state.store(MADE, Ordering::Release);
        Ok(Self {
            guard,
            made,
            maker: std::process::id(),
            folder: folder.to_owned(),
            library: library.to_owned(),
            fixes,
        })
    }

    /// The fixes in force: the control word, which `towpath fix` may change at any time.
    ///
    /// # Cost
    ///
    /// Two loads.
    #[must_use]
    #[inline]
    pub fn fixes(&self) -> Fixes {
        self.ledger().map_or(self.fixes, |ledger| {
            // Relaxed: the word stands for itself.
            Fixes::from_bits(ledger.header.fixes.load(Ordering::Relaxed))
        })
    }

    /// The site of `key`, entered if it is new; the site "other" if the table is full.
    ///
    /// # Cost
    ///
    /// Tens of nanoseconds for a known key. A new one costs a look-up of each frame's module. A layer
    /// that can keep the answer should.
    #[must_use]
    pub fn site(&self, key: &SiteKey<'_>) -> SiteId {
        self.ledger()
            .map_or(SiteId::OTHER, |ledger| sites::find(ledger, key, false))
    }

    /// As [`site`](Self::site), for calls that all go to [`wait`](Self::wait).
    #[must_use]
    pub fn wait_site(&self, key: &SiteKey<'_>) -> SiteId {
        self.ledger()
            .map_or(SiteId::OTHER, |ledger| sites::find(ledger, key, true))
    }

    /// Adds one call to `site`.
    ///
    /// # Cost
    ///
    /// Two atomic additions for a call that was only observed, and one each for another outcome, bytes,
    /// faults, cold bytes and savings.
    #[inline]
    pub fn record(&self, site: SiteId, call: &Call) {
        if let Some(ledger) = self.ledger() {
            record(ledger, site, call);
        }
    }

    /// Adds a wait for so many objects to `site`, a [`wait_site`](Self::wait_site).
    ///
    /// Readers find it in the totals and histograms of waits too: those are made of such sites' counts,
    /// so that a wait costs no more than another call. It has entered the kernel or driver unless its
    /// outcome is [`Outcome::WaitSkipped`].
    ///
    /// # Cost
    ///
    /// As [`record`](Self::record); one atomic addition more if it is a repeated one, two for several
    /// objects.
    #[inline]
    pub fn wait(&self, site: SiteId, call: &Call, objects: u64, is_repeated: bool) {
        let Some(ledger) = self.ledger() else {
            return;
        };
        record(ledger, site, call);
        if is_repeated {
            count(ledger, Counter::WaitsRepeated, 1);
        }
        let is_wait = |site: &layout::Site| site.is_wait.load(Ordering::Relaxed) == 1;
        let is_derived = ledger.sites.get(usize::from(site.0)).is_some_and(is_wait);
        if !is_derived || objects > 1 || call.wall.0 >= OPEN_BUCKET {
            waits::add(ledger, call, objects, is_derived);
        }
    }

    /// Adds `n` to a named total.
    ///
    /// # Cost
    ///
    /// One atomic addition.
    #[inline]
    pub fn count(&self, counter: Counter, n: u64) {
        if let Some(ledger) = self.ledger() {
            count(ledger, counter, n);
        }
    }

    /// Counts `value` in a histogram of powers of two.
    ///
    /// # Cost
    ///
    /// One atomic addition.
    #[inline]
    pub fn histogram(&self, histogram: Histogram, value: u64) {
        if let Some(ledger) = self.ledger() {
            sort_in(ledger, histogram, value);
        }
    }

    /// Notes a presented frame by its time on the monotonic clock.
    ///
    /// # Cost
    ///
    /// One atomic addition and a store; a page fault every 512 frames until the ring is full.
    #[inline]
    pub fn frame(&self, present: Nanos) {
        let Some(ledger) = self.ledger() else {
            return;
        };
        let number = ledger.header.frames.fetch_add(1, Ordering::Relaxed);
        let ring = u64::try_from(FRAMES).unwrap_or(1);
        let index = usize::try_from(number % ring).unwrap_or(0);
        if let Some(slot) = ledger.frames.get(index) {
            slot.store(present.0, Ordering::Relaxed);
        }
    }

    /// The mapping of this process; a forked child makes its own at its first call.
    #[inline]
    fn ledger(&self) -> Option<&Ledger> {
        // Acquire: pairs with the release that published a complete file.
        let pointer = self.guard.get().ledger.load(Ordering::Acquire);
        if pointer.is_null() {
            return self.child();
        }
        // SAFETY: the pointer came from `map_file` and stays mapped until this writer is dropped.
        unsafe { map::borrow(pointer) }
    }

    /// Makes the file of a forked child; of several threads one does, the others go without.
    #[cold]
    fn child(&self) -> Option<&Ledger> {
        let guard = self.guard.get();
        guard
            .state
            .compare_exchange(UNTRIED, MAKING, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let Ok(made) = make(&self.folder, &self.library, self.fixes, self.maker) else {
            guard.state.store(FAILED, Ordering::Release);
            return None;
        };
        // SAFETY: the parent's mapping is inherited and stays until this writer is dropped.
        let parents = unsafe { map::borrow(self.made.as_ptr()) };
        // SAFETY: just mapped, and stays until this writer is dropped.
        let own = unsafe { map::borrow(made.as_ptr()) };
        if let (Some(parents), Some(own)) = (parents, own) {
            sites::copy_names(parents, own);
            let fixes = parents.header.fixes.load(Ordering::Relaxed);
            own.header.fixes.store(fixes, Ordering::Relaxed);
        }
        guard.ledger.store(made.as_ptr(), Ordering::Release);
        guard.state.store(MADE, Ordering::Release);
        own
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let current = self.guard.get().ledger.load(Ordering::Acquire);
        if let Some(own) = NonNull::new(current).filter(|own| *own != self.made) {
            // SAFETY: `&mut self` shows that no borrow of the mapping is left.
            unsafe { map::unmap(own) };
        }
        // SAFETY: as above; `made` is mapped from creation to here, in parent and child.
        unsafe { map::unmap(self.made) };
    }
}

#[inline]
fn record(ledger: &Ledger, site: SiteId, call: &Call) {
    let Some(entry) = ledger.sites.get(usize::from(site.0)) else {
        return;
    };
    let wall = call.wall.0;
    add(&entry.wall_ns, wall);
    if let Some(bucket) = entry.walls.get(layout::bucket(wall, SITE_BUCKETS)) {
        add(bucket, 1);
    }
    if call.outcome != Outcome::Observed
        && let Some(outcome) = entry.outcomes.get(usize::from(call.outcome.number()))
    {
        add(outcome, 1);
    }
    // A call that moves nothing has nothing to say about bytes, cold or warm.
    if call.bytes != 0 {
        add(&entry.bytes, call.bytes);
    }
    match call.cold_bytes {
        Call::COLD_UNKNOWN => add(&entry.cold_unknown, 1),
        0 if call.bytes == 0 => {}
        0 => {
            add(&entry.warm_bytes, call.bytes);
            add(&entry.warm_ns, wall);
        }
        cold => add(&entry.cold_bytes, cold),
    }
    if call.faults != 0 {
        add(&entry.faults, call.faults);
    }
    if call.saved.0 != 0 {
        entry.saved_ns.fetch_add(call.saved.0, Ordering::Relaxed);
    }
    if wall > entry.longest_ns.load(Ordering::Relaxed) {
        entry.longest_ns.fetch_max(wall, Ordering::Relaxed);
    }
    if wall > ledger.header.slowest_above.load(Ordering::Relaxed) {
        slowest::offer(ledger, site, call);
    }
}

#[inline]
fn count(ledger: &Ledger, counter: Counter, n: u64) {
    if let Some(total) = ledger.counters.get(usize::from(counter.number())) {
        add(total, n);
    }
}

/// Counts `value` in its bucket.
#[inline]
fn sort_in(ledger: &Ledger, histogram: Histogram, value: u64) {
    let buckets = ledger.histograms.get(usize::from(histogram.number()));
    if let Some(bucket) = buckets.and_then(|all| all.get(layout::bucket(value, BUCKETS))) {
        add(bucket, 1);
    }
}

#[inline]
fn add(to: &AtomicU64, n: u64) {
    // Relaxed: totals stand for themselves; a reader takes each as it is.
    to.fetch_add(n, Ordering::Relaxed);
}

/// Makes, allocates, maps and heads a file. Removes it again if a step fails.
fn make(folder: &Path, library: &str, fixes: Fixes, parent: u32) -> Result<NonNull<Ledger>, Error> {
    let pid = std::process::id();
    let safe: String = library
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .take(32)
        .collect();
    let path = folder.join(format!("{pid}-{safe}-{:016x}.ledger", random()));
    let io = |operation| {
        let path = path.clone();
        move |source| Error::Io {
            operation,
            path,
            source,
        }
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(io(Operation::Create))?;
    let mapped = crate::within_size_limit(|| allocate(&file))
        .map_err(io(Operation::Allocate))
        .and_then(|()| map::map_file(&file).map_err(io(Operation::Map)));
    match mapped {
        Ok(mapped) => {
            // SAFETY: just mapped; nobody unmaps it before the writer is dropped.
            if let Some(ledger) = unsafe { map::borrow(mapped.as_ptr()) } {
                head(ledger, library, fixes, parent);
            }
            Ok(mapped)
        }
        Err(error) => {
            let _gone = std::fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Allocates every byte, so that no store into the mapping meets a full file system (SIGBUS).
fn allocate(file: &File) -> io::Result<()> {
    let length = u64::try_from(FILE_BYTES).map_err(io::Error::other)?;
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        // A file system without fallocate: write zeros instead.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = [0_u8; 4096];
            let mut to = file;
            (0..FILE_BYTES / zeros.len()).try_for_each(|_| io::Write::write_all(&mut to, &zeros))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Fills in the header; the magic last, so that a reader sees a complete one or none.
fn head(ledger: &Ledger, library: &str, fixes: Fixes, parent: u32) {
    let header = &ledger.header;
    let process = Process::current();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().as_encoded_bytes();
    header.version.store(VERSION, Ordering::Relaxed);
    header.pid.store(process.pid, Ordering::Relaxed);
    let length = u64::try_from(FILE_BYTES).unwrap_or(0);
    header.file_bytes.store(length, Ordering::Relaxed);
    header.process_start.store(process.start, Ordering::Relaxed);
    header
        .pid_namespace
        .store(process.pid_namespace, Ordering::Relaxed);
    header.made_at_ns.store(now, Ordering::Relaxed);
    header.parent_pid.store(parent, Ordering::Relaxed);
    write_bytes(&header.boot_id, &process.boot_id);
    write_bytes(&header.library, library.as_bytes());
    write_bytes(&header.program, program);
    header.fixes.store(fixes.to_bits(), Ordering::Relaxed);
    sites::head(ledger);
    header.magic.store(MAGIC, Ordering::Release);
}

/// Copies as much of `from` as there is room for; the rest stays zero.
fn write_bytes(to: &[AtomicU8], from: &[u8]) {
    for (to, from) in to.iter().zip(from) {
        to.store(*from, Ordering::Relaxed);
    }
}

/// A number that names of files need not repeat; not secret.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    // A forked child has its parent's random keys: its id and the time make the difference.
    hasher.write_u32(std::process::id());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |age| age.as_nanos());
    hasher.write_u128(now);
    hasher.finish()
}
