//! `towpath compare`: results that other programs wrote, judged like our own.

mod load;
mod ministat;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use towpath_measure::judge::{Direction, Scale};
use towpath_measure::results::Columns;
use towpath_measure::{Arm, ranks};
use towpath_report::result::{Design, Pairing, SCHEMA_COMPARE, Stop};
use towpath_report::{Machine, Metric, ResultFile, Run, numbers};

use crate::outputs::Outputs;
use load::Side;

/// Compares results of other programs: numbers, hyperfine, Criterion, perf stat, gears, glmark2, vkmark, glbench.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    towpath compare before.txt --vs after.txt\n  \
    towpath compare a1.log a2.log --vs b1.log b2.log --html report.html\n  \
    towpath compare hyperfine.json                 (two commands in one file)\n  \
    towpath compare --ministat iguana chameleon    (as Debian's ministat)")]
pub(crate) struct Args {
    /// Files of A.
    #[arg(required = true, value_name = "A")]
    a: Vec<PathBuf>,
    /// Files of B.
    #[arg(long, value_name = "B", num_args = 1..)]
    vs: Vec<PathBuf>,
    /// Column of number files, from 1.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 1)]
    column: usize,
    /// Characters between columns of number files.
    #[arg(short = 'd', long, value_name = "CHARS", default_value = " \t")]
    delimiters: String,
    /// Numbers without a unit: more is better.
    #[arg(long)]
    higher: bool,
    /// The n-th value of A belongs to the n-th of B: they were measured next to each other, in random order.
    #[arg(long)]
    paired: bool,
    /// Counts each line of a gears log as a run of its own. The interval is then too narrow if runs differ.
    #[arg(long)]
    each_line: bool,
    /// Judges ratios of means instead of differences; always so with --paired.
    #[arg(long)]
    ratio: bool,
    /// Difference in percent that does not matter.
    #[arg(long, value_name = "PCT", default_value_t = 1.0)]
    margin: f64,
    /// Accepted chance of a false alarm.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    level: f64,
    /// The metric that decides; without it all are corrected together.
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    #[command(flatten)]
    ministat: ministat::Options,
    #[command(flatten)]
    outputs: Outputs,
}

/// Reads, judges, reports.
///
/// # Errors
///
/// Files that cannot be read, or that have no metric in common.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let columns = Columns {
        column: args.column,
        delimiters: args.delimiters.clone(),
        better: if args.higher {
            Direction::Higher
        } else {
            Direction::Lower
        },
    };
    if args.ministat.is_asked_for() {
        let files: Vec<PathBuf> = args.a.iter().chain(&args.vs).cloned().collect();
        return ministat::run(&files, &columns, &args.ministat);
    }
    let (a, b) = sides(args, &columns)?;
    let mut file = ResultFile::new(SCHEMA_COMPARE, &format!("{} against {}", a.label, b.label));
    file.machine = Machine::default();
    file.design = Design {
        pairing: if args.paired {
            Pairing::Paired
        } else {
            Pairing::Unpaired
        },
        stop: Stop::Given,
        margin: args.margin / 100.0,
        level: args.level,
        scale: if args.ratio || args.paired {
            Scale::Ratio
        } else {
            Scale::Difference
        },
        primary: args.primary.clone(),
        ..Design::default()
    };
    fill(&mut file, a, b)?;
    if let Some(primary) = &args.primary
        && file.metric(primary).is_none()
    {
        let names: Vec<&str> = file
            .metrics
            .iter()
            .map(|metric| metric.name.as_str())
            .collect();
        bail!(
            "there is no metric `{primary}`; there are: {}",
            names.join(", ")
        );
    }
    file.judge()?;
    robust(&mut file);
    args.outputs.finish(&file)
}

/// Both sides; one file with two commands is A and B at once.
fn sides(args: &Args, columns: &Columns) -> Result<(Side, Side)> {
    let mut a = Side::load(&args.a, columns, args.each_line)?;
    if !args.vs.is_empty() {
        let mut b = Side::load(&args.vs, columns, args.each_line)?;
        load::agree(&mut a, &mut b);
        return Ok((a, b));
    }
    match a.split_in_two() {
        Some((mut first, mut second)) => {
            load::agree(&mut first, &mut second);
            Ok((first, second))
        }
        None => bail!("nothing to compare with: give the files of B after --vs"),
    }
}

/// Puts the metrics that both sides have into the file, and says which are not shared.
fn fill(file: &mut ResultFile, a: Side, b: Side) -> Result<()> {
    let has = |side: &Side, name: &str| side.metrics.iter().any(|metric| metric.name == name);
    let shared: Vec<Metric> = a
        .metrics
        .iter()
        .filter(|metric| has(&b, &metric.name))
        .cloned()
        .collect();
    if shared.is_empty() {
        let names = |side: &Side| -> String {
            let names: Vec<&str> = side
                .metrics
                .iter()
                .map(|metric| metric.name.as_str())
                .collect();
            names.join(", ")
        };
        bail!(
            "A and B have no metric in common: A has {}, B has {}",
            names(&a),
            names(&b)
        );
    }
    for (side, other) in [(&a, &b), (&b, &a)] {
        for metric in side
            .metrics
            .iter()
            .filter(|metric| !has(other, &metric.name))
        {
            file.notes
                .push(format!("{} is only in {}", metric.name, side.label));
        }
    }
    file.metrics = shared;
    for (arm, side) in [(Arm::A, a), (Arm::B, b)] {
        let setup = if arm == Arm::A {
            &mut file.a
        } else {
            &mut file.b
        };
        setup.label.clone_from(&side.label);
        file.notes.extend(side.notes);
        for (number, (source, readings)) in side.runs.into_iter().enumerate() {
            let mut run = Run::new(arm, number);
            run.source = Some(source);
            run.readings = readings;
            file.runs.push(run);
        }
    }
    Ok(())
}

/// Beside the headline: what a test says that looks at order only.
fn robust(file: &mut ResultFile) {
    let Some(metric) = file.headline().map(|judged| judged.metric.clone()) else {
        return;
    };
    let values = file.values(&metric);
    let (Ok(test), Ok(shift)) = (
        ranks::mann_whitney(&values.a, &values.b),
        ranks::hodges_lehmann(&values.a, &values.b),
    ) else {
        return;
    };
    if file.design.pairing == Pairing::Unpaired && values.a.len().min(values.b.len()) > 1 {
        let unit = file
            .metric(&metric)
            .map_or("", |metric| metric.unit.as_str());
        let smallest =
            towpath_measure::judge::smallest_permutation_p(values.a.len(), values.b.len());
        file.notes.push(format!(
            "robust: {metric} shifts by {} (Hodges-Lehmann), Mann-Whitney p = {} (the smallest that {} + {} runs can give is {})",
            numbers::with_unit(shift, unit),
            numbers::p_value(test.p),
            values.a.len(),
            values.b.len(),
            numbers::p_value(smallest),
        ));
    }
}
