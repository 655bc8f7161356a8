//! `towpath bench waits`: what waiting costs, ours beside what programs use today.
//!
//! *Calls*: a check, a signal, arming and disarming, waits on 1 to 256 objects, per call. *Trips*:
//! round trips between threads and between processes. *Blocked*: CPU time of a wait of 20 ms that
//! nobody ends. *Gears*: frames of a renderer and a compositor with one acquire and one release point
//! each, judged by pairs. Arms take turns; every sample is kept.

mod calls;
mod gears;
mod lanes;
mod trips;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use towpath_measure::sample::median;
use towpath_report::Machine;

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
    /// Answers another process's round trips through the object on its standard input.
    #[arg(long, hide = true)]
    answer: bool,
}

/// The samples of one arm.
#[derive(Debug, Serialize)]
struct Row {
    group: &'static str,
    arm: String,
    unit: &'static str,
    /// Heap allocations are counted by the test suite, not here.
    samples: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    towpath: &'static str,
    machine: Machine,
    rounds: usize,
    design: &'static str,
    rows: Vec<Row>,
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
    if args.answer {
        trips::answer()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut arms = calls::arms();
    arms.extend(trips::arms()?);
    arms.extend(lanes::blocked());
    let mut samples: Vec<Vec<f64>> = arms.iter().map(|_| Vec::new()).collect();
    for round in 0..=args.rounds {
        for (arm, samples) in arms.iter_mut().zip(&mut samples) {
            let sample = (arm.sample)().with_context(|| arm.name.clone())?;
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let rows = arms
        .iter()
        .zip(samples)
        .map(|(arm, samples)| Row {
            group: arm.group,
            arm: arm.name.clone(),
            unit: arm.unit,
            samples,
        })
        .collect();
    let document = Document {
        schema: "towpath.bench-waits/1",
        towpath: env!("CARGO_PKG_VERSION"),
        machine: Machine::collect(),
        rounds: args.rounds,
        design: "arms take turns, one round before thrown away; calls: mean of a loop; trips: mean \
                 of 1000 round trips; blocked: CPU time of the thread in one wait of 20 ms",
        rows,
        gears: gears::measure(args.rounds, args.frames)?,
    };
    print(&document);
    if let Some(path) = &args.json {
        let text = serde_json::to_string(&document)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the command's output")]
fn print(document: &Document) {
    let mut group = "";
    for row in &document.rows {
        if row.group != group {
            group = row.group;
            println!("\n{group}");
        }
        println!(
            "  {:<44} {:>12.1} {}",
            row.arm,
            median(&row.samples),
            row.unit
        );
    }
    println!("\n{}", document.gears);
}
