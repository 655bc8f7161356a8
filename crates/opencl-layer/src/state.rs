//! Settings, ledger and rules of this process.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::OnceLock;

use towpath_ledger::{Counter, Writer, within_size_limit};
use towpath_settings::calibration::{Entry, Error, Key, Snapshot, Store, default_folder};
use towpath_settings::{Fix, Fixes, Settings, TransferWay};
use towpath_transfer::policy::Calibration;

/// Everything that is read once.
#[derive(Debug)]
pub(crate) struct State {
    ledger: Option<Writer>,
    fixes: Fixes,
    /// How bytes move where a fix is on.
    pub(crate) way: TransferWay,
    settings: Settings,
}

static STATE: OnceLock<State> = OnceLock::new();

/// The state, made at the first call, which the loader's initialisation makes.
pub(crate) fn get() -> &'static State {
    STATE.get_or_init(State::from_environment)
}

impl State {
    fn from_environment() -> Self {
        if cfg!(not(test)) {
            towpath_settings::hush_panics();
        }
        let (settings, problems) = Settings::from_environment();
        crate::environment::restore(settings.opencl_layers_whole.as_deref());
        for problem in problems {
            log(&settings, &problem.to_string());
        }
        let ledger = settings.ledger.as_deref().and_then(|folder| {
            let made = Writer::create(folder, "opencl-layer", settings.fix);
            made.inspect_err(|error| log(&settings, &error.to_string()))
                .ok()
        });
        towpath_memory::fork::install();
        Self {
            ledger,
            fixes: settings.fix,
            way: settings.transfer,
            settings,
        }
    }

    /// The fixes in force now.
    #[inline]
    pub(crate) fn fixes(&self) -> Fixes {
        self.ledger.as_ref().map_or(self.fixes, Writer::fixes)
    }

    /// What was measured about a device, if anything was and a fix may ask.
    pub(crate) fn calibration(&self, device: &str, driver: &str) -> Option<Calibration> {
        let key = Key::of_this_machine(Calibration::SUBJECT, device, driver);
        let found = self
            .stored(&key)
            .and_then(|entry| entry.map(|entry| entry.values::<Calibration>()).transpose());
        let found = found
            .inspect_err(|error| log(&self.settings, &error.to_string()))
            .ok()
            .flatten();
        if found.as_ref().is_some_and(|found| !found.is_sane()) {
            log(
                &self.settings,
                "a calibration asks for impossible threads or chunks: it is not used",
            );
            return None;
        }
        found
    }

    /// From the frozen snapshot where one is named, else from the store.
    fn stored(&self, key: &Key) -> Result<Option<Entry>, Error> {
        if let Some(file) = &self.settings.calibration {
            return Snapshot::read(file).map(|frozen| frozen.find(key).cloned());
        }
        let folder = default_folder(&self.settings)?;
        Store::new(folder).load(key)
    }

    /// The ledger, if one is kept.
    #[inline]
    pub(crate) fn ledger(&self) -> Option<&Writer> {
        self.ledger.as_ref()
    }

    /// Whether this layer has anything to do in this process.
    pub(crate) fn is_needed(&self) -> bool {
        let transfers = [Fix::Readback, Fix::Upload];
        self.ledger.is_some() || transfers.iter().any(|fix| self.fixes.mode(*fix).is_on())
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
        let _lost = within_size_limit(|| writeln!(file, "towpath-opencl-layer: {text}"));
    }
}
