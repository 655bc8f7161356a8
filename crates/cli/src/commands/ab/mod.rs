//! `towpath ab`: proves what fixes are worth, by alternated pairs of runs of an unmodified program.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use towpath_measure::{Arm, MonotonicClock};
use towpath_report::result::SCHEMA_AB;
use towpath_report::{Machine, ResultFile};

use arm::{Instruments, Setup};
use metric::Metric;
use runner::Runner;
use schedule::Ended;

use crate::outputs::Outputs;
use crate::session::beside;

mod arm;
mod calibrate;
mod collect;
mod design;
mod frame_log;
mod metric;
mod runner;
mod schedule;

/// Ten: the exact test can then prove at p = 0.002, and eight further metrics stand Holm's correction.
const PAIRS_DEFAULT: usize = 10;

/// Proves what fixes are worth: runs the program in pairs, fixes off against fixes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    towpath ab -- darktable-cli in.raw out.jpg\n  \
    towpath ab --budget 15m --primary readback-time --json r.json -- ./program\n  \
    towpath ab --a-env THREADS=1 --b-env THREADS=2 \\\n      \
        --metric 'fps=fps: ([0-9.]+):fps:higher' -- ./game\n  \
    towpath ab --describe --pairs 3 --a-fix none --b-env FIXED=1 --b-fix none \\\n      \
        --c-fix cache --frames 'logs/*.csv' -- ./game")]
pub(crate) struct Args {
    /// Pairs of runs (10 if neither this, --budget nor --until-proven is given).
    #[arg(long, value_name = "N", conflicts_with = "budget")]
    pairs: Option<usize>,
    /// As many pairs as fit into this time, such as 90s, 15m or 2h.
    #[arg(long, value_name = "TIME", value_parser = design::parse_time, conflicts_with = "until_proven")]
    budget: Option<Duration>,
    /// Goes on until the e-process has proven something; --pairs is then the most.
    #[arg(long)]
    until_proven: bool,
    /// The metric that decides.
    #[arg(long, value_name = "METRIC", default_value = "wall")]
    primary: String,
    /// Shows every run and the means and tests nothing: for so few pairs that nothing can be proven.
    #[arg(long, conflicts_with = "until_proven")]
    describe: bool,
    /// Metrics that are judged (or described), in place of the usual ones; the others are shown at most.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    judge: Vec<String>,
    #[command(flatten)]
    arms: arm::Options,
    /// Reads a metric from the program's output, such as 'fps=rate: ([0-9.]+):fps:higher'.
    #[arg(long, value_name = "NAME=REGEX:UNIT:lower|higher", value_parser = Metric::parse)]
    metric: Vec<Metric>,
    /// Difference in percent that does not matter.
    #[arg(long, value_name = "PCT", default_value_t = 1.0)]
    margin: f64,
    /// Seed of the order of runs; drawn and recorded if not given.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Both arms as A: shows the machine's own noise.
    #[arg(long)]
    null: bool,
    /// Kills a run after this time and counts it as failed.
    #[arg(long, value_name = "TIME", value_parser = design::parse_time)]
    timeout: Option<Duration>,
    /// MiB of host memory touched and freed before each run, so that a virtual machine has it at hand.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    warm_host: usize,
    /// Time for each OpenCL device that the program uses and nothing is stored for: it is calibrated
    /// before the pairs, if a fix follows calibrations. Or never.
    #[arg(long, value_name = "TIME|never", value_parser = design::parse_time_or_never, default_value = "20s")]
    calibrate: design::TimeOrNever,
    #[command(flatten)]
    frames: frame_log::Options,
    #[command(flatten)]
    watch: beside::Options,
    #[command(flatten)]
    outputs: Outputs,
    /// Program and arguments.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Measures, judges, reports.
///
/// # Errors
///
/// What keeps towpath from doing its job; a program that keeps failing among it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let metrics = choose(metrics(args), args)?;
    let design = design::choose(args, &metrics)?;
    args.outputs.check()?;
    let folder = tempfile::Builder::new()
        .prefix("towpath-ab-")
        .tempdir()
        .context("cannot make a folder for the arms")?;
    let setups = Setup::all(args, folder.path())?;
    let mut file = describe(args, &setups, &metrics);
    file.design = design;
    for line in design::promise(&file.design, judged(&metrics)) {
        say(&line);
    }
    let mut runner = Runner::new(args, &metrics, folder.path())?;
    schedule::warm_up(&mut runner, &setups, &say)?;
    runner.calibrate(&setups, args.calibrate.0, &say)?;
    let ended = schedule::pairs(
        &mut runner,
        &setups,
        &mut file,
        args.outputs.json_path(),
        &MonotonicClock,
    );
    runner.note(&mut file);
    finish(args, &mut file, ended)
}

/// Judges what there is, also after Ctrl-C or an error, shows it and writes it.
fn finish(args: &Args, file: &mut ResultFile, ended: Result<Ended>) -> Result<ExitCode> {
    let stopped = matches!(ended, Ok(Ended::Interrupted));
    if stopped {
        file.notes
            .push(format!("stopped by hand after {} runs", file.runs.len()));
    }
    drop_unread(file);
    file.judge()?;
    if file.runs.is_empty() {
        ended?;
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let code = args.outputs.finish(file)?;
    ended?;
    Ok(if stopped {
        ExitCode::from(INTERRUPTED)
    } else {
        code
    })
}

/// What a shell says of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// towpath's own metrics, then the program's.
fn metrics(args: &Args) -> Vec<Metric> {
    let own = metric::BUILT_IN.iter().map(|(name, unit, definition)| {
        let mut metric = Metric::built_in(name, unit, definition);
        metric.shown.is_informative = is_informative(name) && *name != args.primary;
        metric
    });
    let mut all: Vec<Metric> = own.collect();
    if !args.watch.is_empty() {
        let beside = beside::METRICS.iter();
        all.extend(beside.map(|(name, unit, text)| Metric::built_in(name, unit, text)));
    }
    all.extend(args.frames.metrics(&args.primary));
    all.extend(args.metric.iter().cloned());
    all
}

/// With `--judge` exactly its metrics and the primary one are judged, in its order.
///
/// # Errors
///
/// If there is no such metric.
fn choose(mut metrics: Vec<Metric>, args: &Args) -> Result<Vec<Metric>> {
    let mut chosen = Vec::new();
    for name in &args.judge {
        let Some(place) = metrics.iter().position(|metric| metric.name() == name) else {
            let known = metrics.iter().chain(&chosen);
            let known: Vec<&str> = known.map(Metric::name).collect();
            bail!(
                "--judge {name}: no such metric; there are {}",
                known.join(", ")
            );
        };
        let mut metric = metrics.remove(place);
        metric.shown.is_informative = false;
        chosen.push(metric);
    }
    let only_chosen = !chosen.is_empty();
    for mut metric in metrics {
        metric.shown.is_informative |= only_chosen && metric.name() != args.primary;
        chosen.push(metric);
    }
    Ok(chosen)
}

/// Metrics of host paths, which many programs do not use.
const HOST_PATHS: [&str; 6] = [
    "readback-time",
    "readback-bytes",
    "readback-cold",
    "upload-time",
    "cache-time",
    "waits-time",
];

/// CPU is judged as one; its two halves would only cost the others power.
fn is_informative(name: &str) -> bool {
    matches!(
        name,
        "user"
            | "sys"
            | "readback-bytes"
            | "readback-cold"
            | "run-queue"
            | "disk-read"
            | "disk-written"
    )
}

fn judged(metrics: &[Metric]) -> usize {
    metrics
        .iter()
        .filter(|metric| !metric.shown.is_informative)
        .count()
}

/// A host path that no run of any arm has used is no metric of this program, nor is one without any reading. What was
/// asked for and could not be read stays, as unavailable.
fn drop_unread(file: &mut ResultFile) {
    let runs = std::mem::take(&mut file.runs);
    let primary = file.design.primary.clone();
    file.metrics.retain(|metric| {
        let is_host_path = HOST_PATHS.contains(&metric.name.as_str());
        primary.as_ref() == Some(&metric.name)
            || runs.iter().any(|run| {
                run.value(&metric.name).is_some()
                    || (!is_host_path && run.readings.contains_key(&metric.name))
            })
    });
    file.runs = runs;
}

fn describe(args: &Args, setups: &[Setup], metrics: &[Metric]) -> ResultFile {
    let words: Vec<String> = args
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut file = ResultFile::new(SCHEMA_AB, &words.join(" "));
    file.machine = Machine::collect();
    file.command = words;
    file.metrics = metrics.iter().map(|metric| metric.shown.clone()).collect();
    file.notes.extend(args.frames.note());
    for setup in setups {
        let place = match setup.arm {
            Arm::A => &mut file.a,
            Arm::B => &mut file.b,
            Arm::C => &mut file.c,
        };
        *place = setup.describe(args);
    }
    if setups
        .iter()
        .any(|setup| setup.instruments == Instruments::Bare)
    {
        file.notes
            .push("a bare arm has no ledger: host paths are not compared".to_owned());
    }
    file
}

/// Progress goes to stderr, so that the report alone is in a pipe.
fn say(line: &str) {
    tell!("{line}");
}
