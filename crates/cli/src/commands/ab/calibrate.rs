//! Before the pairs: what pays on the devices that the program was seen to use.
//!
//! The warm-up runs tell which devices those are. Each is measured in a process of its own, so that a
//! driver that crashes or hangs there ends nothing here, and then one snapshot is frozen for both arms.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use towpath_settings::calibration::{Entry, Store, default_folder};
use towpath_settings::{Fix, Mode};
use towpath_transfer::policy::Calibration;
use towpath_watch::{Command, End, Input, Output, Supervisor};

use super::arm::{Instruments, Setup};
use crate::session::Session;

/// How a comparison's devices stand: the device, and what was done about it.
pub(super) type Notes = Vec<(String, String)>;

/// Calibrates `devices` where nothing is stored for them and a fix of an arm follows calibrations.
///
/// What was measured is stored for later, unless other layers lie between a program and its driver: it
/// then holds for this comparison only.
///
/// # Errors
///
/// If the snapshot cannot be written. A device that cannot be measured goes by the rule table, and the
/// notes say so.
pub(super) fn devices<'a>(
    session: &mut Session,
    setups: &[Setup],
    devices: impl Iterator<Item = &'a str>,
    budget: Duration,
    say: &dyn Fn(&str),
) -> Result<Notes> {
    let Some(setup) = setups.iter().find(|setup| follows(setup)) else {
        return Ok(Notes::new());
    };
    if session.settings().calibration.is_some() {
        return Ok(Notes::new());
    }
    let measuring = Measuring::new(session, setup)?;
    let mut notes = Notes::new();
    for device in devices {
        let text = measuring.device(device, budget, say);
        notes.push((device.to_owned(), text));
    }
    if !notes.is_empty() {
        session.freeze(measuring.keep())?;
    }
    Ok(notes)
}

/// Whether a fix of the arm asks calibrations.
fn follows(setup: &Setup) -> bool {
    let Instruments::Fixes(fixes) = setup.instruments else {
        return false;
    };
    [Fix::Readback, Fix::Upload]
        .iter()
        .any(|fix| fixes.mode(*fix) == Mode::Auto)
}

/// A state folder for the measuring processes, filled with what is known.
struct Measuring<'a> {
    setup: &'a Setup,
    state: PathBuf,
    own: Store,
    /// Where results are kept for later; `None` if they hold for this comparison only.
    store: Option<Store>,
    known: usize,
}

impl<'a> Measuring<'a> {
    fn new(session: &Session, setup: &'a Setup) -> Result<Self> {
        let state = session.path().join("state");
        std::fs::create_dir_all(&state)
            .with_context(|| format!("cannot make {}", state.display()))?;
        let own = Store::new(state.join("towpath/calibration"));
        let store = default_folder(session.settings()).ok().map(Store::new);
        let has_layers = session.settings().opencl_layers.is_some()
            || setup
                .environment
                .iter()
                .any(|(name, _)| name == "OPENCL_LAYERS");
        let store = store.filter(|_| !has_layers);
        let stored = store.as_ref().map_or_else(Vec::new, |store| store.all().0);
        for entry in &stored {
            own.save(entry).context("cannot copy the calibrations")?;
        }
        Ok(Self {
            setup,
            state,
            own,
            store,
            known: stored.len(),
        })
    }

    /// Has a process measure `device`; gives what to note about it.
    fn device(&self, device: &str, budget: Duration, say: &dyn Fn(&str)) -> String {
        let before = self.own.all().0.len();
        if self.known == 0 || !self.has(device) {
            say(&format!(
                "calibrating {device} first: nothing is stored for it (up to {} s)",
                budget.as_secs()
            ));
        }
        let output = self.state.join("calibrate.log");
        let outcome = self.run(device, budget, &output);
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        let added = self.own.all().0.len() > before;
        let reason = match outcome {
            Ok(None) if added => {
                for line in text.lines().filter(|line| line.starts_with("  ")) {
                    say(line);
                }
                return "measured before the pairs".to_owned();
            }
            Ok(None) if self.has(device) => return "stored before".to_owned(),
            Ok(None) => text
                .lines()
                .last()
                .unwrap_or("no such device")
                .trim()
                .to_owned(),
            Ok(Some(reason)) => reason,
            Err(error) => format!("{error:#}"),
        };
        let note = format!("not calibrated, by the rule table: {reason}");
        say(&note);
        note
    }

    fn has(&self, device: &str) -> bool {
        let entries = self.own.all().0;
        entries
            .iter()
            .any(|entry| entry.key.subject == Calibration::SUBJECT && entry.key.device == device)
    }

    /// Runs `towpath bench calibrate`; a reason if it did not end well.
    fn run(&self, device: &str, budget: Duration, output: &Path) -> Result<Option<String>> {
        let me = std::env::current_exe().context("cannot find this program")?;
        let seconds = budget.as_secs().max(1).to_string();
        let mut command = Command::new(Supervisor::this_program(), me)
            .args([
                "bench",
                "calibrate",
                // In one word, whatever a driver calls its device.
                &format!("--device={device}"),
                "--budget",
                &seconds,
            ])
            .set("XDG_STATE_HOME", &self.state)
            .stdin(Input::Null)
            .stdout(Output::File(output.to_path_buf()))
            .stderr(Output::File(output.to_path_buf()))
            .timeout(budget + SLACK)
            .end_leftovers();
        for (name, value) in &self.setup.environment {
            command = command.set(name, value);
        }
        let exit = command.run()?;
        Ok(match exit.end {
            _ if exit.timed_out => Some(format!(
                "measuring did not end in {} s",
                (budget + SLACK).as_secs()
            )),
            End::Code(0) => None,
            End::Code(code) => {
                let text = std::fs::read_to_string(output).unwrap_or_default();
                let line = text.lines().last().unwrap_or_default().to_owned();
                Some(format!("measuring ended with code {code}: {line}"))
            }
            End::Signal(signal) => Some(format!("measuring was ended by signal {signal}")),
        })
    }

    /// All entries, stored for later where they hold for later.
    fn keep(&self) -> Vec<Entry> {
        let entries = self.own.all().0;
        if let Some(store) = &self.store {
            for entry in &entries {
                // A folder that takes nothing costs the next comparison its time, no more.
                let _refused = store.save(entry);
            }
        }
        entries
    }
}

/// What a measurement may take beyond its budget: a class that has begun, and the driver's start.
const SLACK: Duration = Duration::from_secs(40);
