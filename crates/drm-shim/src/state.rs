//! Settings, ledger and emulated device of this process.

use std::cell::Cell;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use towpath_ledger::{Counter, Writer, within_size_limit};
use towpath_settings::Settings;
use towpath_sync::kernel::{Code, Device};
use towpath_sync::local::Local;
use towpath_sync::shared::Shared;

/// Everything that is read once.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ledger: Option<Writer>,
    pub(crate) emulated: Option<Emulated>,
}

/// The device that is answered for.
#[derive(Debug)]
pub(crate) struct Emulated {
    node: CString,
    device: Kind,
}

#[derive(Debug)]
enum Kind {
    Local(Arc<Device<Local>>),
    Shared(Arc<Device<Shared>>),
}

static STATE: OnceLock<State> = OnceLock::new();

thread_local! {
    /// Set while this library works on this thread: what it calls itself is passed on.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` with our own calls passed on; `None` if we are in it already, or if it panicked.
pub(crate) fn inside<T>(body: impl FnOnce(&'static State) -> T) -> Option<T> {
    let was_inside = IS_INSIDE
        .try_with(|inside| inside.replace(true))
        .unwrap_or(true);
    if was_inside {
        return None;
    }
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        body(STATE.get_or_init(State::from_environment))
    }));
    let _gone = IS_INSIDE.try_with(|inside| inside.set(false));
    match answer {
        Ok(answer) => Some(answer),
        Err(_panic) => {
            if let Some(ledger) = STATE.get().and_then(|state| state.ledger.as_ref()) {
                ledger.count(Counter::PanicsCaught, 1);
            }
            None
        }
    }
}

impl State {
    fn from_environment() -> Self {
        if cfg!(not(test)) {
            towpath_settings::hush_panics();
        }
        let (settings, problems) = Settings::from_environment();
        for problem in problems {
            log(&settings, &problem.to_string());
        }
        let ledger = settings.ledger.as_deref().and_then(|folder| {
            let made = Writer::create(folder, "drm-shim", settings.fix);
            made.inspect_err(|error| log(&settings, &error.to_string()))
                .ok()
        });
        let device = match settings.drm_emulate.as_deref().map(OsStrExt::as_bytes) {
            None => None,
            Some(b"local") => Some(Kind::Local(Arc::new(Device::new(Local)))),
            Some(b"shared") => Some(Kind::Shared(Arc::new(Device::new(Shared::new())))),
            Some(_) => {
                log(&settings, "TOWPATH_DRM_EMULATE is neither local nor shared");
                None
            }
        };
        let node = settings
            .drm_node
            .as_deref()
            .map(|path| path.as_os_str().as_bytes());
        let node = CString::new(node.unwrap_or_default()).unwrap_or_default();
        let emulated = device.map(|device| Emulated { node, device });
        Self { ledger, emulated }
    }
}

impl Emulated {
    /// Opens what a path names, if we answer for it.
    pub(crate) fn open(&self, path: &std::ffi::CStr) -> Option<Result<OwnedFd, Code>> {
        if path == self.node.as_c_str() {
            return Some(match &self.device {
                Kind::Local(device) => device.open_client(),
                Kind::Shared(device) => device.open_client(),
            });
        }
        (path.to_bytes() == towpath_sys::drm::SW_SYNC_PATH.as_bytes()).then(|| match &self.device {
            Kind::Local(device) => device.open_timeline(),
            Kind::Shared(device) => device.open_timeline(),
        })
    }

    /// Serves a request, if the descriptor is one of ours.
    ///
    /// # Safety
    ///
    /// As [`Device::serve_at`].
    #[expect(unsafe_code, reason = "a request carries addresses")]
    pub(crate) unsafe fn serve(
        &self,
        fd: i32,
        request: u32,
        address: u64,
    ) -> Option<Result<(), Code>> {
        match &self.device {
            // SAFETY: the caller's promise.
            Kind::Local(device) => unsafe { device.serve_at(fd, request, address) },
            // SAFETY: the caller's promise.
            Kind::Shared(device) => unsafe { device.serve_at(fd, request, address) },
        }
    }

    /// Ends what hung on descriptors that are closed.
    pub(crate) fn closed(&self) {
        match &self.device {
            Kind::Local(device) => device.sweep(),
            Kind::Shared(device) => device.sweep(),
        }
    }
}

/// Adds a line to the log file, if there is one.
fn log(settings: &Settings, text: &str) {
    let Some(path) = &settings.log else { return };
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        // A log that cannot be written costs its lines, nothing else.
        let _lost = within_size_limit(|| writeln!(file, "towpath-drm-shim: {text}"));
    }
}
