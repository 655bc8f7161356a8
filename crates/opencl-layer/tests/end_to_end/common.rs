//! Runs a scene with and without the layer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use towpath_needs::artifact;

/// Which driver is below.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Driver {
    /// The machine's own, which is PoCL.
    Pocl,
    /// The scripted one.
    Fake,
}

/// How the layer is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Arm {
    /// Not loaded.
    Bare,
    /// Loaded, recording, fixes off.
    Off,
    /// Loaded, recording, readback fix forced.
    On,
    /// As before, reads and writes staged wherever they may be.
    Staged,
}

/// What a scene printed.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What the program saw.
    pub(crate) lines: Vec<String>,
    /// What was counted.
    pub(crate) counts: BTreeMap<String, u64>,
    /// Whether it came to its end.
    pub(crate) is_complete: bool,
    /// Exit code or signal.
    pub(crate) status: String,
    /// Ledgers.
    pub(crate) ledgers: Vec<towpath_ledger::LedgerFile>,
    _folder: tempfile::TempDir,
}

impl Seen {
    /// A count, which must be there.
    pub(crate) fn count(&self, name: &str) -> u64 {
        *self.counts.get(name).unwrap_or_else(|| {
            assert!(self.counts.contains_key(name), "no {name} in {self:?}");
            &0
        })
    }

    /// Calls of each outcome, over all sites.
    pub(crate) fn outcomes(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for ledger in &self.ledgers {
            for site in ledger.sites() {
                for outcome in site.outcomes {
                    *all.entry(outcome.text()).or_default() += outcome.calls;
                }
            }
        }
        all
    }
}

/// The command that runs a scene.
pub(crate) fn command(scene: &str, driver: Driver, arm: Arm) -> Command {
    let mut command = Command::new(artifact("examples/scene"));
    command.arg(scene).env_remove("OPENCL_LAYERS");
    if driver == Driver::Fake {
        command.env("OCL_ICD_VENDORS", artifact("libtowpath_fake_opencl.so"));
    }
    if arm != Arm::Bare {
        command.env("OPENCL_LAYERS", layer());
    }
    if arm == Arm::On {
        command.env("TOWPATH_FIX", "readback");
    }
    if arm == Arm::Staged {
        command
            .env("TOWPATH_FIX", "readback,upload")
            .env("TOWPATH_TRANSFER", "staged");
    }
    command
}

/// The layer's path.
pub(crate) fn layer() -> PathBuf {
    artifact("libtowpath_opencl_layer.so")
}

/// Runs a scene.
pub(crate) fn run(scene: &str, driver: Driver, arm: Arm) -> Seen {
    run_with(command(scene, driver, arm))
}

/// Runs a command of [`command`], with a ledger folder of its own.
pub(crate) fn run_with(mut command: Command) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let output = command
        .env("TOWPATH_LEDGER", folder.path())
        .output()
        .unwrap();
    read(&output, folder)
}

fn read(output: &Output, folder: tempfile::TempDir) -> Seen {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = Vec::new();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("count ") {
            let (name, value) = rest.rsplit_once(' ').unwrap();
            counts.insert(name.to_owned(), value.parse().unwrap());
        } else if let Some(rest) = line.strip_prefix("see ") {
            lines.push(rest.to_owned());
        }
    }
    let (ledgers, problems) = towpath_ledger::read_folder(folder.path());
    assert!(problems.is_empty(), "{problems:?}");
    Seen {
        lines,
        counts,
        is_complete: text.ends_with("end\n"),
        status: format!(
            "{} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
        ledgers,
        _folder: folder,
    }
}

/// Runs a scene in every arm and holds that the program sees the same; answers the arms.
pub(crate) fn same(scene: &str, driver: Driver) -> [Seen; 4] {
    let [bare, off, on] = same_unstaged(scene, driver);
    let staged = run(scene, driver, Arm::Staged);
    hold_same(scene, driver, &bare, &staged);
    [bare, off, on, staged]
}

/// As [`same`], without staging.
pub(crate) fn same_unstaged(scene: &str, driver: Driver) -> [Seen; 3] {
    let arms = [Arm::Bare, Arm::Off, Arm::On].map(|arm| run(scene, driver, arm));
    let [bare, off, on] = &arms;
    assert!(bare.is_complete, "{}", bare.status);
    assert!(bare.ledgers.is_empty(), "no layer, no ledger");
    hold_same(scene, driver, bare, off);
    hold_same(scene, driver, bare, on);
    arms
}

fn hold_same(scene: &str, driver: Driver, bare: &Seen, other: &Seen) {
    assert!(other.is_complete, "{}: {other:?}", other.status);
    assert!(!other.lines.is_empty());
    assert_eq!(bare.lines, other.lines, "{scene} on {driver:?}");
    assert_eq!(other.ledgers.len(), 1, "the layer was there");
}
