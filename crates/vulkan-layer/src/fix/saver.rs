//! The thread that writes back: programs that never destroy their device save too.
//!
//! It sleeps until something is new, waits until creation has been quiet for a moment (or has gone on
//! for long), and saves. All signals are blocked in it; it ends with its device. At the process's end it
//! is stopped before the driver's own handlers run, and makes no further driver call.

#![expect(unsafe_code, reason = "registers a handler for the process's end")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use towpath_cache::storage::{block_signals, idle_io_class};
use towpath_cache::vulkan::{Overlay, Saved};
use towpath_cache::{ContentId, Folder, Kind, Pace, Result};
use towpath_ledger::Counter;

use crate::fork;
use crate::process;
use crate::record;
use crate::wall;

/// A burst of creations is over after this long.
const QUIET: Duration = Duration::from_millis(100);
/// A burst that does not end is saved this often: a crash costs no more.
const LONGEST: Duration = Duration::from_secs(2);

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
    imports: Vec<Vec<u8>>,
    ends: bool,
}

impl Saver {
    /// Starts the thread; without one, everything is saved at the end.
    pub(crate) fn start(overlay: Arc<Overlay>, folder: Option<Arc<Folder>>, instance: u64) -> Self {
        fork::watch();
        stop_at_exit();
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
        if let Some(folder) = &self.shared.folder {
            // The program waits now: nothing is to be spared any more.
            folder.set_pace(Pace::PROMPT);
        }
        self.shared.lock().ends = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panics were caught inside.
            let _ended = thread.join().is_ok();
        }
        live().retain(|one| !Arc::ptr_eq(one, &self.shared));
        self.shared.save();
        let sealed = self.shared.overlay.store().seal();
        note(sealed.map(|_ticket| ()));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while self.wait_for_work() {
            self.save();
        }
    }

    /// Sleeps until a burst is over; false when it is time to go.
    fn wait_for_work(&self) -> bool {
        let mut state = self.lock();
        let mut burst_began = None;
        loop {
            if state.ends || ENDING.load(Ordering::Acquire) {
                return false;
            }
            let Some(last) = state.last_new else {
                if !state.imports.is_empty() {
                    return true;
                }
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            let began = *burst_began.get_or_insert(now);
            let due = (last + QUIET).min(began + LONGEST);
            if due <= now {
                state.last_new = None;
                return true;
            }
            let woken = self.wake.wait_timeout(state, due - now);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
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
        match self.overlay.save() {
            Ok(Saved::NothingNew | Saved::DriverKeepsItsOwn) => {}
            Ok(Saved::Written { bytes, .. }) => {
                process::get().log(&format!("pipeline cache: {} KB new", bytes.div_ceil(1024)));
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
        if !store.contains(Kind::OVERLAY, &id.0) {
            store.append(Kind::OVERLAY, &id.0, blob)?;
            store.flush()?;
            let size = blob.len().div_ceil(1024);
            process::get().log(&format!(
                "pipeline cache: {size} KB taken over from the program"
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
        shared.lock().ends = true;
        shared.wake.notify_one();
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
        drop(SAVING.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
