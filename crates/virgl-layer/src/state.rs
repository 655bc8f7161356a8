//! Settings, ledger and model of this process.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use towpath_ledger::{Counter, HostPath, SiteId, SiteKey, Stack, Writer, within_size_limit};
use towpath_settings::{Fix, Fixes, Mode, Problem, Settings};
use towpath_transfer::textures::Model;
use towpath_transfer::textures::attached::Renderer;
use towpath_transfer::textures::trace::{self, Event};
use towpath_transfer::textures::views::Budget;

/// Everything that is read once.
#[derive(Debug)]
pub(crate) struct State {
    ledger: Option<Writer>,
    fixes: Fixes,
    trace: Option<File>,
    log: Option<PathBuf>,
    /// Prices of mappings.
    pub(crate) model: Model,
    /// What a temporary copy costs.
    pub(crate) renderer: Renderer,
    /// Bounds of all mappings.
    pub(crate) budget: Budget,
}

/// The calls that are recorded, each a site.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Site {
    /// `virgl_renderer_transfer_write_iov`.
    Write,
    /// `virgl_renderer_transfer_read_iov`.
    Read,
    /// A transfer inside `virgl_renderer_submit_cmd`.
    Submit,
}

static STATE: OnceLock<State> = OnceLock::new();

/// The state, made at the first call.
pub(crate) fn get() -> &'static State {
    STATE.get_or_init(State::from_environment)
}

impl State {
    fn from_environment() -> Self {
        if cfg!(not(test)) {
            towpath_settings::hush_panics();
        }
        let (settings, problems) = Settings::from_environment();
        Self::of(&settings, problems)
    }

    /// The state that some settings ask for.
    pub(crate) fn of(settings: &Settings, problems: Vec<Problem>) -> Self {
        for problem in problems {
            log(settings, &problem.to_string());
        }
        let ledger = settings.ledger.as_deref().and_then(|folder| {
            let made = Writer::create(folder, "virgl-layer", settings.fix);
            made.inspect_err(|error| log(settings, &error.to_string()))
                .ok()
        });
        let trace = settings.texture_trace.as_deref().and_then(|path| {
            let made = File::create(path).and_then(|mut file| {
                within_size_limit(|| writeln!(file, "{}", trace::HEADER))?;
                Ok(file)
            });
            made.inspect_err(|error| log(settings, &format!("cannot write a trace: {error}")))
                .ok()
        });
        Self {
            ledger,
            fixes: settings.fix,
            trace,
            log: settings.log.clone(),
            model: Model::stored(settings),
            renderer: Renderer::default(),
            budget: Budget::of_this_machine(),
        }
    }

    /// How the upload fix stands now.
    pub(crate) fn mode(&self) -> Mode {
        let fixes = self.ledger.as_ref().map_or(self.fixes, Writer::fixes);
        fixes.mode(Fix::Upload)
    }

    /// Whether resources must be watched: something may be recorded or fixed, now or later.
    pub(crate) fn is_needed(&self) -> bool {
        self.ledger.is_some() || self.trace.is_some() || self.mode().is_on()
    }

    /// Whether a trace is written.
    pub(crate) const fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Adds an event to the trace, if one is asked for. Writes to a file then: a trace is no measurement.
    pub(crate) fn trace(&self, event: impl FnOnce() -> Event) {
        if let Some(mut file) = self.trace.as_ref() {
            // A full disk costs the rest of the trace, nothing else.
            let event = event();
            let _lost = within_size_limit(|| writeln!(file, "{event}"));
        }
    }

    /// Says in the log file, if there is one, what was chosen for a texture and why, when its list goes.
    pub(crate) fn explain(&self, handle: u32, text: impl FnOnce() -> String) {
        if let Some(path) = &self.log {
            append(path, &format!("texture {handle}: {}", text()));
        }
    }

    /// The ledger, if one is kept.
    pub(crate) const fn ledger(&self) -> Option<&Writer> {
        self.ledger.as_ref()
    }

    /// The site of a call in the ledger.
    pub(crate) fn site(&self, site: Site) -> Option<SiteId> {
        static SITES: [OnceLock<SiteId>; 3] = [const { OnceLock::new() }; 3];
        let (index, path, call) = match site {
            Site::Write => (0, HostPath::Upload, "virgl_renderer_transfer_write_iov"),
            Site::Read => (1, HostPath::Readback, "virgl_renderer_transfer_read_iov"),
            Site::Submit => (2, HostPath::Upload, "virgl_renderer_submit_cmd"),
        };
        let ledger = self.ledger.as_ref()?;
        let known = SITES.get(index)?;
        Some(*known.get_or_init(|| {
            ledger.site(&SiteKey {
                path,
                call,
                device: "virglrenderer",
                stack: Stack::NONE,
            })
        }))
    }

    /// Notes a caught panic.
    pub(crate) fn panicked(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.count(Counter::PanicsCaught, 1);
        }
    }
}

/// Adds a line to the log file, if there is one.
fn log(settings: &Settings, text: &str) {
    if let Some(path) = &settings.log {
        append(path, text);
    }
}

fn append(path: &Path, text: &str) {
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        // A log that cannot be written costs its lines, nothing else.
        let _lost = within_size_limit(|| writeln!(file, "towpath-virgl-layer: {text}"));
    }
}
