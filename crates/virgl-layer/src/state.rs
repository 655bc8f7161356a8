//! Settings, ledger and model of this process.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::OnceLock;

use towpath_ledger::{Counter, HostPath, SiteId, SiteKey, Stack, Writer};
use towpath_settings::{Fix, Fixes, Mode, Settings};
use towpath_transfer::textures::Model;
use towpath_transfer::textures::attached::Renderer;
use towpath_transfer::textures::views::Budget;

/// Everything that is read once.
#[derive(Debug)]
pub(crate) struct State {
    ledger: Option<Writer>,
    fixes: Fixes,
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
        let (settings, problems) = Settings::from_environment();
        for problem in problems {
            log(&settings, &problem.to_string());
        }
        let ledger = settings.ledger.as_deref().and_then(|folder| {
            let made = Writer::create(folder, "virgl-layer", settings.fix);
            made.inspect_err(|error| log(&settings, &error.to_string()))
                .ok()
        });
        Self {
            ledger,
            fixes: settings.fix,
            model: Model::stored(&settings),
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
        self.ledger.is_some() || self.mode().is_on()
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
    let Some(path) = &settings.log else { return };
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        // A log that cannot be written costs its lines, nothing else.
        let _lost = writeln!(file, "towpath-virgl-layer: {text}");
    }
}
