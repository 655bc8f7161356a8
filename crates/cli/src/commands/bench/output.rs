//! The bench's table and file.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use towpath_measure::sample::{median, quantile, sorted};
use towpath_report::Machine;

use super::arm::mib;
use super::cell::{ArmResult, CellResult, Kind, PIXEL_READS, WINDOW_PIXELS};
use super::memory::State;
use super::transfer::Args;

/// The file that `--json` writes.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    schema: &'static str,
    towpath: &'static str,
    machine: Machine,
    device: DeviceText,
    rounds: usize,
    seed: u64,
    /// What a sample's times mean.
    design: &'static str,
    cells: Vec<CellResult>,
}

#[derive(Debug, Serialize)]
struct DeviceText {
    name: String,
    platform: String,
    driver: String,
    has_unified_memory: bool,
}

impl Document {
    pub(super) fn new(
        schema: &'static str,
        device: &towpath_transfer::opencl::Device,
        args: &Args,
        cells: Vec<CellResult>,
    ) -> Self {
        Self {
            schema,
            towpath: env!("CARGO_PKG_VERSION"),
            machine: Machine::collect(),
            device: DeviceText {
                name: device.name.clone(),
                platform: device.platform.clone(),
                driver: device.driver.clone(),
                has_unified_memory: device.has_unified_memory,
            },
            rounds: args.rounds(),
            seed: args.seed,
            design: "every arm once per round in random order, one round before thrown away; fresh \
                     memory for each sample of a state that is not warm, host memory touched and \
                     freed right before; wall time of the call with its prefault; bytes checked",
            cells,
        }
    }
}

/// Prints the table and writes the file.
///
/// # Errors
///
/// If the file cannot be written.
pub(super) fn finish(args: &Args, document: &Document) -> Result<ExitCode> {
    say_part!("{}", render(document));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(document)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(document: &Document) -> String {
    let device = &document.device;
    let mut text = format!(
        "{} ({}, driver {}), {} rounds\n",
        device.name, device.platform, device.driver, document.rounds
    );
    for cell in &document.cells {
        text.push_str(&glbench_lines(cell));
        let wall = |arm: &ArmResult| millis(arm, |sample| sample.wall_ns);
        let forward = cell.arms.first().map_or(0.0, |arm| median(&wall(arm)));
        // Writing to a string cannot fail.
        let behind = match cell.overlap {
            times if times > 0.0 => format!(", behind {times} x work"),
            _ => String::new(),
        };
        let _ok = writeln!(
            text,
            "\n{} {}, {}{behind}",
            cell.kind,
            mib(cell.bytes),
            cell.state
        );
        let _ok = writeln!(
            text,
            "  {:<20} {:>9} {:>9} {:>8} {:>9} {:>9} {:>8} {:>9}",
            "", "median ms", "p95 ms", "GB/s", "x forward", "cpu ms", "faults", "unmap ms"
        );
        for arm in &cell.arms {
            let times = wall(arm);
            let middle = median(&times);
            let _ok = writeln!(
                text,
                "  {:<20} {:>9.3} {:>9.3} {:>8.2} {:>9.3} {:>9.3} {:>8.0} {:>9.3}",
                arm.arm,
                middle,
                quantile(&sorted(&times), 0.95),
                cell.bytes as f64 / middle.max(1e-6) / 1e6,
                middle / forward.max(1e-9),
                median(&millis(arm, |sample| sample.cpu_ns)),
                median(&millis(arm, |sample| sample.faults)) * 1e6,
                median(&millis(arm, |sample| sample.free_ns)),
            );
        }
    }
    text
}

/// glbench's lines for its `pixel_read` forms, one for each arm; nothing for other cells.
fn glbench_lines(cell: &CellResult) -> String {
    let is_one = PIXEL_READS.iter().any(|kind| kind.name() == cell.kind);
    let mut text = String::new();
    for arm in cell.arms.iter().filter(|_arm| is_one) {
        let micros = median(&millis(arm, |sample| sample.wall_ns)) * 1e3;
        let name = format!("{}.{}.{}", cell.kind, cell.state, arm.arm.replace(' ', "_"));
        // Writing to a string cannot fail.
        let _ok = writeln!(
            text,
            "@RESULT: {name:<45} = {:>10.2} {:<15} [none]",
            WINDOW_PIXELS as f64 / micros.max(1e-3),
            "mpixels_sec"
        );
    }
    text
}

/// A column of an arm, scaled by a millionth: nanoseconds to milliseconds.
fn millis(arm: &ArmResult, of: impl Fn(&super::arm::Sample) -> u64) -> Vec<f64> {
    arm.samples
        .iter()
        .map(|sample| of(sample) as f64 / 1e6)
        .collect()
}

/// A line on the terminal that says what is being measured.
pub(super) struct Progress {
    bar: Option<indicatif::ProgressBar>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr()
            .is_terminal()
            .then(indicatif::ProgressBar::new_spinner);
        Self { bar }
    }

    pub(super) fn say(&self, kind: Kind, bytes: usize, state: State) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {}, {}", kind.name(), mib(bytes), state.name()));
            bar.tick();
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
