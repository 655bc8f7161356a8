//! What the layer knows once per process: settings, ledger, log.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use towpath_ledger::{Counter, Writer, within_size_limit};
use towpath_measure::{Clock as _, MonotonicClock, Nanos};
use towpath_settings::{CacheMode, Fix, Fixes, Mode, Settings};

use crate::abi;
use crate::fork;
use crate::frames::FrameFile;

/// The process's settings and what they opened.
pub(crate) struct Process {
    pub(crate) settings: Settings,
    pub(crate) ledger: Option<Writer>,
    pub(crate) frames: Option<FrameFile>,
    log: Option<File>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Makes this process one that records into `folder`, for tests that call before anything else does.
#[cfg(test)]
pub(crate) fn record_into(folder: &std::path::Path) {
    PROCESS.get_or_init(|| {
        let (settings, _) = Settings::read(|_| None);
        let ledger = Writer::create(folder, "vulkan-layer", settings.fix);
        Process {
            ledger: ledger.ok(),
            frames: None,
            log: None,
            settings,
        }
    });
}

/// Reads the settings at the first instance; later calls give the same.
#[inline]
pub(crate) fn get() -> &'static Process {
    PROCESS.get_or_init(Process::read)
}

/// The moment now, on the monotonic clock.
#[inline]
pub(crate) fn now() -> Nanos {
    MonotonicClock.now()
}

/// Counts a panic of ours, if there is a ledger to count in.
pub(crate) fn count_panic() {
    if let Some(ledger) = PROCESS.get().and_then(|process| process.ledger.as_ref()) {
        ledger.count(Counter::PanicsCaught, 1);
    }
}

impl Process {
    fn read() -> Self {
        if cfg!(not(test)) {
            towpath_settings::hush_panics();
        }
        let (settings, problems) = if abi::is_setuid() {
            // The environment of a setuid process belongs to somebody else; the loader ignores it too.
            Settings::read(|_| None)
        } else {
            Settings::from_environment()
        };
        let mut process = Self {
            ledger: None,
            frames: None,
            log: settings
                .log
                .as_ref()
                .and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok()),
            settings,
        };
        for problem in problems {
            process.log(&problem.to_string());
        }
        fork::watch();
        process.ledger = process.open_ledger();
        process.frames = process.open_frames();
        process
    }

    fn open_ledger(&self) -> Option<Writer> {
        let folder = self.settings.ledger.as_ref()?;
        match Writer::create(folder, "vulkan-layer", self.settings.fix) {
            Ok(writer) => Some(writer),
            Err(error) => {
                self.log(&format!("no ledger: {error}"));
                None
            }
        }
    }

    fn open_frames(&self) -> Option<FrameFile> {
        let path = self.settings.frames_csv.as_ref()?;
        match FrameFile::create(path) {
            Ok(file) => Some(file),
            Err(error) => {
                self.log(&format!("no frame log at {}: {error}", path.display()));
                None
            }
        }
    }

    /// One line in the log file; silent without one.
    pub(crate) fn log(&self, line: &str) {
        if let Some(mut file) = self.log.as_ref() {
            let whole = format!("towpath vulkan-layer [{}]: {line}\n", std::process::id());
            // There is nowhere to complain to about the place for complaints.
            let _written = within_size_limit(|| file.write_all(whole.as_bytes())).is_ok();
        }
    }

    /// The fixes in force now; `towpath fix` may change them.
    pub(crate) fn fixes(&self) -> Fixes {
        self.ledger
            .as_ref()
            .map_or(self.settings.fix, Writer::fixes)
    }

    /// How the cache fix is applied to devices made now; `None` where it is off.
    pub(crate) fn cache_mode(&self) -> Option<CacheMode> {
        match self.fixes().mode(Fix::Cache) {
            Mode::Off => None,
            _ => Some(self.settings.cache_mode),
        }
    }

    /// As [`Self::log`], once per `bit` (of 64) and process.
    pub(crate) fn log_once(&self, bit: u32, line: &str) {
        static SAID: AtomicU64 = AtomicU64::new(0);
        let mask = 1_u64 << (bit % 64);
        if SAID.fetch_or(mask, Ordering::Relaxed) & mask == 0 {
            self.log(line);
        }
    }
}
