//! `towpath bench layer`: our OpenCL layer against the driver alone, cell by cell, with a verdict.
//!
//! A process of its own runs with the layer as any program would. There each read goes in turn through
//! loader and layer, and past both: the driver's own functions stand in the table with which every
//! OpenCL object begins. This process judges what that one measured, and counts in the layer's ledger
//! that every read of the one arm, and none of the other, went through it.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use towpath_ledger::HostPath;
use towpath_measure::judge::Judgement;
use towpath_report::Machine;
use towpath_settings::Fixes;
use towpath_transfer::policy::Policy;

use super::cell::Kind;
use super::memory::State;
use crate::session::Session;
use inside::{Measured, Samples};

mod inside;
mod verdict;

/// Options of `bench layer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath bench layer --device pthread --json layer.json")]
pub(super) struct Args {
    /// The first device whose name or platform has this in it, whatever the case.
    #[arg(long, value_name = "NAME", default_value = "")]
    device: String,
    /// Rounds: in each, every cell is read by either arm as often, in random order.
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: usize,
    /// Sizes in bytes, with K, M or G [default: 64 to 1G].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = super::transfer::bytes)]
    sizes: Vec<usize>,
    /// States of the destination [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    states: Vec<State>,
    /// Kinds of device memory [default: buffer; rect and image too at 1M, 16M and 154M].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Fixes in force in the layer's arm.
    #[arg(long, value_name = "LIST", default_value = "auto", value_parser = parse_fixes)]
    fix: Fixes,
    /// Seconds for a calibration, if nothing is stored for the device; 0: none.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    calibrate: u64,
    /// Seed of the order of the arms.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also writes every sample and verdict to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Is the process with the layer, and writes its samples there.
    #[arg(long, hide = true, value_name = "FILE")]
    inside: Option<PathBuf>,
}

fn parse_fixes(text: &str) -> Result<Fixes, String> {
    Fixes::parse(text).map_err(|error| error.to_string())
}

/// The file that `--json` writes.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    towpath: &'static str,
    machine: Machine,
    device: &'a str,
    fix: String,
    /// Whether the device's calibration was in force.
    is_calibrated: bool,
    rounds: usize,
    seed: u64,
    design: &'static str,
    verdicts: &'a verdict::Verdicts,
    cells: Vec<Cell<'a>>,
}

#[derive(Debug, Serialize)]
struct Cell<'a> {
    #[serde(flatten)]
    samples: &'a Samples,
    judgement: &'a Judgement,
}

const DESIGN: &str = "A: the driver's own functions, B: the same reads through loader and layer, in one \
    process; warm cells: calls of A and B in turn, in random order within each pair, a sample is the mean \
    of a round's calls, of which each counts for at most three times the median of all calls of that round \
    (how many were cut is said); other states: fresh memory for each sample, host memory touched and freed \
    right before, the arms in random order in each round, small reads many to a sample; one round before \
    thrown away; wall time per call; bytes checked; every call of B counted in the layer's ledger";

/// Measures and judges, prints, writes.
///
/// # Errors
///
/// No layer, no such device, wrong bytes, or reads that did not go where they should.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(path) = &args.inside {
        inside::run(args, path)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.calibrate > 0 {
        super::calibrate::ensure(&args.device, args.calibrate)?;
    }
    let mut session = Session::new()?;
    ensure!(
        session.layers().opencl.is_some(),
        "the OpenCL layer is not built or not installed"
    );
    session.freeze_calibration()?;
    let measured = measure(args, &session)?;
    check_calls(&session, &measured)?;
    let calibration = session.transfer_calibrations().remove(&measured.device);
    let is_calibrated = calibration.is_some();
    let policy = Policy::new(calibration);
    let (judgements, verdicts) = verdict::judge(&measured.cells, &policy, args.fix)?;
    print(&measured, &judgements, &verdicts);
    if let Some(path) = &args.json {
        let cells = measured.cells.iter().zip(&judgements);
        let document = Document {
            schema: "towpath.bench-layer/1",
            towpath: env!("CARGO_PKG_VERSION"),
            machine: Machine::collect(),
            device: &measured.device,
            fix: args.fix.to_string(),
            is_calibrated,
            rounds: args.rounds,
            seed: args.seed,
            design: DESIGN,
            verdicts: &verdicts,
            cells: cells
                .map(|(samples, judgement)| Cell { samples, judgement })
                .collect(),
        };
        let text = serde_json::to_string(&document)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the process with the layer.
fn measure(args: &Args, session: &Session) -> Result<Measured> {
    let me = std::env::current_exe().context("cannot find this program")?;
    let path = session.path().join("samples.json");
    let list = |items: Vec<String>| items.join(",");
    let mut command = Command::new(me);
    command.args(["bench", "layer", "--device", &args.device]);
    command.args(["--rounds", &args.rounds.to_string()]);
    command.args(["--seed", &args.seed.to_string()]);
    command.arg("--inside").arg(&path);
    let sizes = list(args.sizes.iter().map(ToString::to_string).collect());
    let states = list(
        args.states
            .iter()
            .map(|state| state.name().to_owned())
            .collect(),
    );
    let kinds = list(
        args.kinds
            .iter()
            .map(|kind| kind.name().to_owned())
            .collect(),
    );
    for (option, value) in [("--sizes", sizes), ("--states", states), ("--kinds", kinds)] {
        if !value.is_empty() {
            command.arg(option).arg(value);
        }
    }
    for (name, value) in session.environment(args.fix) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let status = command
        .status()
        .context("cannot start the measuring process")?;
    if !status.success() {
        bail!("the measuring process failed: {status}");
    }
    let text = std::fs::read(&path).context("no samples were written")?;
    serde_json::from_slice(&text).context("the samples cannot be read")
}

/// The layer must have seen exactly the reads of its own arm.
fn check_calls(session: &Session, measured: &Measured) -> Result<()> {
    let ledgers = session.ledgers();
    let sites = ledgers.iter().flat_map(towpath_ledger::LedgerFile::sites);
    let seen: u64 = sites
        .filter(|site| site.path == Some(HostPath::Readback))
        .map(|site| site.calls)
        .sum();
    ensure!(
        seen == measured.layer_calls,
        "the layer saw {seen} of {} reads: the loader loads no layers, or the other arm went through it",
        measured.layer_calls
    );
    Ok(())
}

fn print(measured: &Measured, judgements: &[Judgement], verdicts: &verdict::Verdicts) {
    say_part!("{}", verdict::render(measured, judgements, verdicts));
}
