//! `towpath bench waits`: what waiting costs, ours beside what programs use today.
//!
//! *Calls*: a check, a signal, a query, arming and disarming, waits on 1 to 256 objects, per call.
//! *Trips*: round trips between threads. *Blocked*: CPU time of a wait of 20 ms that nobody ends.
//! *Duels*: round trips of threads and of processes against a bare futex, in turns, judged by pairs.
//! *Gears*: frames of a renderer and a compositor with one acquire and one release point each, judged
//! by pairs. *Counts*: allocations, system calls, wake-ups. Arms take turns; every sample is kept.

mod allocations;
mod calls;
mod compare;
mod cores;
mod counts;
mod duels;
mod gears;
mod lanes;
mod lavapipe;
mod tracer;
mod trips;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Serialize;
use towpath_measure::sample::median;
use towpath_report::Machine;

use compare::Comparison;
use cores::Cores;

/// Waits on sync objects.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath bench waits --rounds 20 --json waits.json")]
pub(crate) struct Args {
    /// Samples of each arm; one more round before is thrown away.
    #[arg(long, value_name = "N", default_value_t = 12)]
    rounds: usize,
    /// Frames of one run of gears.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    frames: u64,
    /// Writes every raw sample to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Answers another process's round trips: through the object on standard input, and through the
    /// words of this file.
    #[arg(long, hide = true)]
    answer: Option<String>,
    /// On the same core as the process that asks.
    #[arg(long, hide = true)]
    one_core: bool,
    /// Makes the calls of this name, for a tracer that counts.
    #[arg(long, hide = true)]
    counted: Option<String>,
}

/// The samples of one arm.
#[derive(Debug, Serialize)]
struct Row {
    group: &'static str,
    arm: String,
    unit: &'static str,
    samples: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    towpath: &'static str,
    machine: Machine,
    rounds: usize,
    design: &'static str,
    /// Peers that this machine does not have, and why.
    skipped: Vec<String>,
    counts: counts::Counts,
    rows: Vec<Row>,
    duels: Vec<Comparison>,
    gears: gears::Gears,
}

/// An arm: its name and one sample.
struct Arm<'a> {
    group: &'static str,
    name: String,
    unit: &'static str,
    sample: Box<dyn FnMut() -> Result<f64> + 'a>,
}

/// Runs everything and prints the medians.
///
/// # Errors
///
/// If a thread, process or descriptor cannot be had.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(path) = &args.answer {
        let cores = if args.one_core {
            Cores::One
        } else {
            Cores::Two
        };
        duels::be_the_other(path, cores, u32::try_from(args.rounds)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.counted {
        counts::be_counted(name)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (lavapipe, skipped) = match lavapipe::Device::open() {
        Ok(device) => (Some(device), Vec::new()),
        Err(error) => (None, vec![format!("Mesa lavapipe: {error:#}")]),
    };
    // First, before anything of ours has started a thread.
    let counts = counts::measure(lavapipe.is_some())?;
    let rows = rows(args.rounds, lavapipe.as_ref())?;
    let document = Document {
        schema: "towpath.bench-waits/2",
        towpath: env!("CARGO_PKG_VERSION"),
        machine: Machine::collect(),
        rounds: args.rounds,
        design: "arms take turns, one round before thrown away; calls: mean of a loop; trips: mean \
                 of 1000 round trips; blocked: CPU time of the thread in one wait of 20 ms; duels: \
                 blocks of 100 round trips, the same two threads or processes in turns; counts: \
                 mean of 50 calls",
        skipped,
        counts,
        rows,
        duels: duels::measure(u32::try_from(args.rounds * DUEL_BLOCKS)?)?,
        gears: gears::measure(args.rounds, args.frames)?,
    };
    print(&document);
    if let Some(path) = &args.json {
        let text = serde_json::to_string(&document)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Blocks of a duel for each round: a block is some milliseconds.
const DUEL_BLOCKS: usize = 10;

fn rows(rounds: usize, lavapipe: Option<&Arc<lavapipe::Device>>) -> Result<Vec<Row>> {
    let mut arms = calls::arms(lavapipe)?;
    arms.extend(trips::arms(lavapipe)?);
    arms.extend(lanes::blocked(lavapipe)?);
    let mut samples: Vec<Vec<f64>> = arms.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for (arm, samples) in arms.iter_mut().zip(&mut samples) {
            let sample = (arm.sample)().with_context(|| arm.name.clone())?;
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let rows = arms.iter().zip(samples).map(|(arm, samples)| Row {
        group: arm.group,
        arm: arm.name.clone(),
        unit: arm.unit,
        samples,
    });
    Ok(rows.collect())
}

fn print(document: &Document) {
    for skipped in &document.skipped {
        say!("skipped: {skipped}");
    }
    say!("{}", document.counts);
    let mut group = "";
    for row in &document.rows {
        if row.group != group {
            group = row.group;
            say!("\n{group}");
        }
        say!(
            "  {:<44} {:>12.1} {}",
            row.arm,
            median(&row.samples),
            row.unit
        );
    }
    say!("\nagainst a bare futex");
    for duel in &document.duels {
        say!("{duel}");
    }
    say!("\n{}", document.gears);
}
