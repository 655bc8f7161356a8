//! The tables and the file.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use towpath_report::Machine;

use super::guest::Pieces;
use super::rows::Row;
use super::timing::{Against, Arm};

/// The file that `--json` writes.
#[derive(Debug, Serialize)]
pub(super) struct Document<T> {
    schema: &'static str,
    towpath: &'static str,
    machine: Machine,
    driver: String,
    design: &'static str,
    rounds: usize,
    sample_ms: u64,
    seed: u64,
    #[serde(flatten)]
    pub(super) body: T,
}

impl<T: Serialize> Document<T> {
    pub(super) fn new(
        schema: &'static str,
        driver: String,
        design: &'static str,
        (args, common): (&super::Args, &super::Common),
        body: T,
    ) -> Self {
        Self {
            schema,
            towpath: env!("CARGO_PKG_VERSION"),
            machine: Machine::collect(),
            driver,
            design,
            rounds: common.rounds,
            sample_ms: args.sample_ms,
            seed: common.seed,
            body,
        }
    }

    /// Writes the file, if one is wanted.
    pub(super) fn write(&self, path: Option<&Path>) -> Result<()> {
        let Some(path) = path else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// One row with all arms.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    /// glbench's name, or what it is.
    pub(super) name: String,
    /// The row, if it is one of glbench's.
    pub(super) row: Option<Row>,
    /// Bytes of an upload.
    pub(super) bytes: u64,
    /// How guest memory is cut.
    pub(super) pieces: Pieces,
    /// The arms; the first is what the others are held against.
    pub(super) arms: Vec<Arm>,
    /// The others.
    pub(super) against: Vec<Against>,
}

impl Cell {
    /// Prints glbench's lines, one per arm, and what they mean.
    pub(super) fn print(&self) {
        for arm in &self.arms {
            let nanos = arm.median();
            let line = self.row.map_or_else(
                || {
                    format!(
                        "{:<45} = {:>10.2} MB/s",
                        self.name,
                        self.bytes as f64 * 1000.0 / nanos
                    )
                },
                |row| {
                    let texels = row.true_mtexel(nanos);
                    format!("{}  {texels:>9.1} true Mtexel/s", row.line(nanos))
                },
            );
            let beside = self.against.iter().find(|other| other.arm == arm.name);
            let gain = beside.map_or_else(String::new, |other| {
                format!("  x{:.2} {}", other.speedup, other.verdict)
            });
            let path = arm.path.as_deref().unwrap_or("");
            let (name, time) = (arm.name, nanos / 1000.0);
            say!("{line}  {name:<10} {time:>9.1} us{gain}  {path}");
        }
    }
}

/// Something that the bench is to reach.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Goal {
    /// What, with the bound.
    what: String,
    /// What was seen.
    seen: String,
    /// Whether it was reached.
    is_met: bool,
}

impl Goal {
    pub(super) const fn new(what: String, seen: String, is_met: bool) -> Self {
        Self { what, seen, is_met }
    }
}

/// Prints a line for each goal.
pub(super) fn print_goals(goals: &[Goal]) {
    say!("");
    for goal in goals {
        let word = if goal.is_met { "met" } else { "NOT met" };
        say!("{word:<7}  {}: {}", goal.what, goal.seen);
    }
}
