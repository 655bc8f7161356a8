//! Settings, ledger and emulated device of this process.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use towpath_ledger::{Counter, Writer, within_size_limit};
use towpath_settings::Settings;
use towpath_sync::kernel::{self, Code, Description, Device};
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

/// What a look at an emulated path or descriptor finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Looked {
    /// The render node of that minor number.
    Node(u32),
    /// The file that software timelines are opened by.
    Timeline,
    /// An object or a sync file.
    Anonymous,
    /// The folder of one of the first two.
    Folder,
}

impl Looked {
    /// Type and permissions, as the kernel has them.
    pub(crate) fn mode(self) -> u32 {
        match self {
            Self::Node(_) => libc::S_IFCHR | 0o666,
            Self::Timeline => libc::S_IFREG | 0o644,
            Self::Anonymous => 0o600,
            Self::Folder => libc::S_IFDIR | 0o755,
        }
    }

    /// Major and minor number of a device.
    pub(crate) fn device(self) -> Option<(u32, u32)> {
        match self {
            Self::Node(minor) => Some((DRM_MAJOR, minor)),
            Self::Timeline | Self::Anonymous | Self::Folder => None,
        }
    }
}

/// The major number of DRM devices, and the minor one of the first render node.
const DRM_MAJOR: u32 = 226;
const FIRST_RENDER_NODE: u32 = 128;

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

/// Runs `body` with our own calls passed on; `None` if we are in it already, or if it panicked. A signal
/// handler of a thread that sleeps in a wait of ours is not in it: its calls are the program's.
pub(crate) fn inside<T>(body: impl FnOnce(&'static State) -> T) -> Option<T> {
    let was_inside = IS_INSIDE
        .try_with(|inside| inside.replace(true))
        .unwrap_or(true);
    let is_handler = was_inside && kernel::wakes_for_handler();
    if was_inside && !is_handler {
        return None;
    }
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        body(STATE.get_or_init(State::from_environment))
    }));
    if is_handler {
        kernel::sleeps_again();
    } else {
        let _gone = IS_INSIDE.try_with(|inside| inside.set(false));
    }
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
    pub(crate) fn open(&self, path: &CStr) -> Option<Result<OwnedFd, Code>> {
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

    /// What a path names, if we answer for it.
    pub(crate) fn at(&self, path: &CStr) -> Option<Looked> {
        let (path, node) = (path.to_bytes(), self.node.to_bytes());
        let timeline = towpath_sys::drm::SW_SYNC_PATH.as_bytes();
        if path == node {
            return Some(self.looked_node());
        }
        if path == timeline {
            return Some(Looked::Timeline);
        }
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let is_folder_of = |file: &[u8]| {
            let end = file.iter().rposition(|byte| *byte == b'/');
            end.is_some_and(|end| end > 0 && file.get(..end) == Some(path))
        };
        (is_folder_of(node) || is_folder_of(timeline)).then_some(Looked::Folder)
    }

    /// What a descriptor is, if it is one of ours.
    pub(crate) fn of(&self, fd: i32) -> Option<Looked> {
        let description = match &self.device {
            Kind::Local(device) => device.describe(fd),
            Kind::Shared(device) => device.describe(fd),
        };
        Some(match description? {
            Description::Node => self.looked_node(),
            Description::Timeline => Looked::Timeline,
            _ => Looked::Anonymous,
        })
    }

    /// The node with the number that its name ends in.
    fn looked_node(&self) -> Looked {
        let name = self.node.to_string_lossy();
        let digits = name
            .trim_end_matches(|letter: char| letter.is_ascii_digit())
            .len();
        let minor = name.get(digits..).and_then(|digits| digits.parse().ok());
        Looked::Node(minor.unwrap_or(FIRST_RENDER_NODE))
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
