//! The thread that writes back: programs that never destroy their device save too.
//!
//! It sleeps until something is new, waits until creation has been quiet for a moment (or has gone on
//! for long), and saves. All signals are blocked in it; it ends with its device. At the process's end it
//! is stopped before the driver's own handlers run, and makes no further driver call.
//!
//! While the program runs it writes at the pace of [`Pace::IN_PLAY`]; once the program waits for it, at
//! its end, at that of [`Pace::PROMPT`].

#![expect(unsafe_code, reason = "registers a handler for the process's end")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use towpath_cache::storage::{block_signals, idle_io_class};
use towpath_cache::vulkan::{Overlay, Saved};
use towpath_cache::{ContentId, Error, Folder, Kind, Limits, Pace, Result};
use towpath_ledger::Counter;

use crate::fork;
use crate::process;
use crate::record;
use crate::wall;

/// A burst of creations is over after this long.
const QUIET: Duration = Duration::from_millis(100);
/// A burst that does not end is saved this often: a crash costs no more. It begins with the time of a
/// pause and doubles, so that a program that lives for a second and leaves its device has something saved.
const LONGEST: Duration = Duration::from_secs(2);

/// So long after the last thing new the store is tidied, once per device.
const IDLE: Duration = Duration::from_secs(10);
/// What a program's store of one driver may take; the least recently used goes first.
const STORE_BYTES_MAX: u64 = 4 << 30;
/// Above this the store's blobs are not fetched again as one: the copy would lie in the program's memory.
const CONSOLIDATE_BYTES_MAX: u64 = 256 << 20;
/// Above this segments are merged by `towpath cache` only: a program that ends meanwhile would wait.
const COMPACT_BYTES_MAX: u64 = 512 << 20;
/// Segments after which the store is tidied at the program's end, and how many bytes that may move.
const END_SEGMENTS: u64 = 64;
const END_BYTES_MAX: u64 = 64 << 20;

/// Set at the process's end.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Held by whichever thread is saving.
static SAVING: Mutex<()> = Mutex::new(());

/// Devices whose instance is alive.
static LIVE: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());

/// A device's saving thread.
#[derive(Debug)]
pub(crate) struct Saver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    overlay: Arc<Overlay>,
    folder: Option<Arc<Folder>>,
    /// The instance's handle.
    instance: u64,
    /// Set when the driver may be gone.
    is_dead: AtomicBool,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last_new: Option<Instant>,
    /// Saves since creation last paused.
    saves_in_burst: u32,
    imports: Vec<Vec<u8>>,
    ends: bool,
    is_tidied: bool,
}

impl State {
    /// How long a burst goes on before it is saved.
    fn longest(&self) -> Duration {
        let doubled = 1_u32.checked_shl(self.saves_in_burst);
        doubled.map_or(LONGEST, |times| (QUIET * times).min(LONGEST))
    }

    fn saved(&mut self, is_over: bool) {
        self.saves_in_burst = if is_over { 0 } else { self.saves_in_burst + 1 };
    }
}

/// What the thread wakes up for.
enum Work {
    Save,
    Tidy,
    End,
}

impl Saver {
    /// Starts the thread; without one, everything is saved at the end.
    pub(crate) fn start(overlay: Arc<Overlay>, folder: Option<Arc<Folder>>, instance: u64) -> Self {
        fork::watch();
        stop_at_exit();
        if let Some(folder) = &folder {
            folder.set_pace(Pace::IN_PLAY);
        }
        let shared = Arc::new(Shared {
            overlay,
            folder,
            instance,
            is_dead: AtomicBool::new(false),
            state: Mutex::default(),
            wake: Condvar::new(),
        });
        live().push(Arc::clone(&shared));
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("towpath-cache".to_owned())
            .spawn(move || {
                block_signals();
                idle_io_class();
                wall::beside(|| own.work());
            });
        Self {
            shared,
            thread: thread.ok(),
        }
    }

    /// A pipeline was compiled.
    ///
    /// # Cost
    ///
    /// One short lock and perhaps a wake-up, beside a compilation.
    pub(crate) fn something_new(&self) {
        let mut state = self.shared.lock();
        let was_idle = state.last_new.replace(Instant::now()).is_none();
        drop(state);
        if was_idle {
            self.shared.wake.notify_one();
        }
    }

    /// Takes over a blob of the program.
    pub(crate) fn import(&self, blob: Vec<u8>) {
        self.shared.lock().imports.push(blob);
        self.shared.wake.notify_one();
    }

    /// Ends the thread and saves what it left.
    pub(crate) fn stop(mut self) {
        self.shared.end();
        if let Some(thread) = self.thread.take() {
            // Its panics were caught inside.
            let _ended = thread.join().is_ok();
        }
        live().retain(|one| !Arc::ptr_eq(one, &self.shared));
        self.shared.save();
        let sealed = self.shared.overlay.store().seal();
        note(sealed.map(|_ticket| ()));
        self.shared.tidy_at_end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the thread to go. The program waits now: nothing is to be spared any more.
    fn end(&self) {
        if let Some(folder) = &self.folder {
            folder.set_pace(Pace::PROMPT);
        }
        self.lock().ends = true;
        self.wake.notify_one();
    }

    fn work(&self) {
        loop {
            match self.wait_for_work() {
                Work::Save => self.save(),
                Work::Tidy => self.tidy(),
                Work::End => return,
            }
        }
    }

    /// Sleeps until a burst is over, or until long after it.
    fn wait_for_work(&self) -> Work {
        let mut state = self.lock();
        let mut burst_began = None;
        let waiting_since = Instant::now();
        loop {
            if state.ends || ENDING.load(Ordering::Acquire) {
                return Work::End;
            }
            let now = Instant::now();
            let due = match state.last_new {
                Some(last) => {
                    let began = *burst_began.get_or_insert(now);
                    let due = (last + QUIET).min(began + state.longest());
                    if due <= now {
                        state.last_new = None;
                        state.saved(last + QUIET <= now);
                        return Work::Save;
                    }
                    Some(due)
                }
                None if !state.imports.is_empty() => return Work::Save,
                None if state.is_tidied => None,
                None if waiting_since + IDLE <= now => {
                    state.is_tidied = true;
                    return Work::Tidy;
                }
                None => Some(waiting_since + IDLE),
            };
            state = if let Some(due) = due {
                let woken = self.wake.wait_timeout(state, due - now);
                woken.unwrap_or_else(PoisonError::into_inner).0
            } else {
                let woken = self.wake.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// Writes many blobs as one, merges segments, and drops what is over the cap; at the folder's pace.
    fn tidy(&self) {
        let store = self.overlay.store();
        if store.is_read_only() {
            return;
        }
        let before = self.bytes_written();
        let done = self.consolidate().and_then(|()| {
            // No driver call from here on: whoever ends now need not wait, since a store that is
            // compacted may be killed at any moment.
            let bytes = store.stats().bytes;
            if bytes <= COMPACT_BYTES_MAX {
                store.compact()?;
            }
            if bytes > STORE_BYTES_MAX {
                store.prune(&Limits {
                    bytes_max: Some(STORE_BYTES_MAX),
                    ..Limits::default()
                })?;
            }
            Ok(())
        });
        match done {
            // Another process does it.
            Ok(()) | Err(Error::Busy { .. }) => {}
            Err(error) => {
                process::get().log(&format!("store not tidied: {}", error.one_line()));
            }
        }
        record::count(
            Counter::CacheBytesWritten,
            self.bytes_written().saturating_sub(before),
        );
    }

    /// Has the driver write the store's blobs as one, where they are many and small enough.
    fn consolidate(&self) -> Result<()> {
        let _guard = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
        if ENDING.load(Ordering::Acquire) || self.is_dead.load(Ordering::Acquire) {
            return Ok(());
        }
        let blobs = self.overlay.store().entries(Some(Kind::OVERLAY));
        let bytes: u64 = blobs.iter().map(|blob| blob.bytes).sum();
        if bytes <= CONSOLIDATE_BYTES_MAX {
            self.overlay.consolidate()?;
        }
        Ok(())
    }

    /// Tidies a store of many small segments: programs that end within seconds would never do it else.
    fn tidy_at_end(&self) {
        if self.bytes_written() == 0 {
            return;
        }
        let stats = self.overlay.store().stats();
        if stats.segments >= END_SEGMENTS && stats.bytes <= END_BYTES_MAX {
            self.tidy();
        }
    }

    fn save(&self) {
        let guard = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
        if ENDING.load(Ordering::Acquire) || self.is_dead.load(Ordering::Acquire) {
            return;
        }
        let before = self.bytes_written();
        for blob in std::mem::take(&mut self.lock().imports) {
            let kept = self.keep(&blob);
            note(kept);
        }
        let began = Instant::now();
        match self.overlay.save() {
            Ok(Saved::NothingNew | Saved::DriverKeepsItsOwn) => {}
            Ok(Saved::Written { bytes, .. }) => {
                let (size, took) = (bytes.div_ceil(1024), began.elapsed().as_millis());
                process::get().log(&format!("pipeline cache: {size} KB new, {took} ms"));
                record::count(Counter::CacheWrites, 1);
            }
            Ok(refused) => process::get().log(&format!("pipeline cache not saved: {refused:?}")),
            Err(error) => note(Err(error)),
        }
        record::count(
            Counter::CacheBytesWritten,
            self.bytes_written().saturating_sub(before),
        );
        drop(guard);
    }

    fn keep(&self, blob: &[u8]) -> Result<()> {
        let id = ContentId::of(blob);
        let store = self.overlay.store();
        let began = Instant::now();
        if !store.contains(Kind::OVERLAY, &id.0) {
            store.append(Kind::OVERLAY, &id.0, blob)?;
            store.flush()?;
            let size = blob.len().div_ceil(1024);
            let took = began.elapsed().as_millis();
            process::get().log(&format!(
                "pipeline cache: {size} KB taken over from the program, {took} ms"
            ));
        }
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        self.folder
            .as_ref()
            .map_or(0, |folder| folder.counts().bytes_written)
    }
}

fn live() -> MutexGuard<'static, Vec<Arc<Shared>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Saves for the last time for devices that their program leaves behind: the loader unloads the driver
/// with the instance.
pub(crate) fn instance_ends(instance: u64) {
    if fork::is_child() {
        return;
    }
    let left: Vec<_> = live()
        .extract_if(.., |one| one.instance == instance)
        .collect();
    for shared in left {
        shared.end();
        shared.save();
        let _no_save_goes_on = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
        shared.is_dead.store(true, Ordering::Release);
    }
}

fn note(done: Result<()>) {
    if let Err(error) = done {
        process::get().log(&format!("pipeline cache not saved: {}", error.one_line()));
        record::count(Counter::FixesFailed, 1);
    }
}

fn stop_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler touches statics of this library only, and the C library runs it before
        // the library is unloaded.
        let _refused = unsafe { libc::atexit(ending) };
    });
}

/// Waits for a save that is going on, and lets no other begin.
extern "C" fn ending() {
    ENDING.store(true, Ordering::Release);
    if !fork::is_child() {
        for shared in live().iter() {
            if let Some(folder) = &shared.folder {
                folder.set_pace(Pace::PROMPT);
            }
        }
        drop(SAVING.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_saved_at_growing_intervals_and_the_next_one_early_again() {
        let mut state = State::default();
        let mut intervals = Vec::new();
        for _ in 0..40 {
            intervals.push(state.longest().as_millis());
            state.saved(false);
        }
        assert_eq!(intervals[..7], [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(intervals.last(), Some(&2000));
        state.saved(true);
        assert_eq!(state.longest(), QUIET);
    }
}
