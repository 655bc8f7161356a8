//! `towpath frames`: frame logs with metrics that say what they are, and the same verdict as `ab`.

pub(crate) mod cut;
pub(crate) mod load;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use towpath_measure::Arm;
use towpath_measure::frames::{ReadOptions, Source, Target, Unit};
use towpath_report::result::{Design, Pairing, SCHEMA_FRAMES, Stop};
use towpath_report::{Metric, ResultFile};

use crate::outputs::Outputs;
use load::Log;

/// Reads frame logs: MangoHud, PresentMon, CapFrameX, OCAT, FrameView, MSI Afterburner, Mesa's overlay and HUD,
/// towpath's own, plain columns.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    towpath frames log.csv\n  \
    towpath frames off1.csv off2.csv --vs on1.csv on2.csv --html frames.html\n  \
    towpath frames log.csv --hertz 144 --from 10 --to 70 --over 8")]
pub(crate) struct Args {
    /// Logs; with --vs those of A.
    #[arg(required = true, value_name = "FILE")]
    a: Vec<PathBuf>,
    /// Logs of B. Runs are compared, not frames: give several per side.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    vs: Vec<PathBuf>,
    /// Refresh rate that frames should keep.
    #[arg(long, value_name = "HZ", default_value_t = 60.0)]
    hertz: f64,
    /// Also counts frames longer than this.
    #[arg(long, value_name = "MS")]
    over: Vec<f64>,
    /// Times between changes of the display instead of presents (PresentMon, CapFrameX).
    #[arg(long)]
    display: bool,
    #[command(flatten)]
    cut: cut::Cut,
    /// Column of a file without a header, from 1.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 1)]
    column: usize,
    /// Unit of that column: ms, us, s, fps, or period-fps for averages of equal periods. The files that
    /// GALLIUM_HUD_DUMP_DIR holds are known by their names: ms, and period-fps for `fps`.
    #[arg(long, value_name = "UNIT", value_parser = parse_unit)]
    unit: Option<Unit>,
    /// Metrics that are judged; the others are shown.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "fps,low-1%,over-33.4ms,late"
    )]
    judge: Vec<String>,
    /// The metric that decides; without it all that are judged are corrected together.
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    /// Difference in percent that does not matter.
    #[arg(long, value_name = "PCT", default_value_t = 1.0)]
    margin: f64,
    #[command(flatten)]
    outputs: Outputs,
}

impl Args {
    fn read_options(&self, path: &Path) -> ReadOptions {
        // GALLIUM_HUD_DUMP_DIR: a file per graph, with nothing but numbers in it.
        let is_hud_fps = path.file_name().is_some_and(|name| name == "fps");
        let unit = self.unit.unwrap_or(if is_hud_fps {
            Unit::PeriodFps
        } else {
            Unit::Millis
        });
        let source = if self.display {
            Source::Display
        } else {
            Source::Present
        };
        ReadOptions {
            source,
            column: self.column,
            unit,
        }
    }

    fn target(&self) -> Result<Target> {
        if !(self.hertz > 0.0 && self.hertz.is_finite()) {
            bail!("a refresh rate of {} Hz is none", self.hertz);
        }
        let mut target = Target {
            hertz: self.hertz,
            ..Target::default()
        };
        for over in &self.over {
            if !over.is_finite() {
                bail!("--over {over} is no frame time");
            }
            if !target
                .over_ms
                .iter()
                .any(|known| (known - over).abs() < 1e-9)
            {
                target.over_ms.push(*over);
            }
        }
        Ok(target)
    }
}

/// Reads, measures, judges if there are two sides, reports.
///
/// # Errors
///
/// Logs that cannot be read.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let target = args.target()?;
    let title = if args.vs.is_empty() {
        "frames"
    } else {
        "frames of two sides"
    };
    let mut file = ResultFile::new(SCHEMA_FRAMES, title);
    file.design = Design {
        pairing: Pairing::Unpaired,
        stop: Stop::Given,
        margin: args.margin / 100.0,
        primary: args.primary.clone(),
        ..Design::default()
    };
    let mut caps = Vec::new();
    for (arm, paths) in [(Arm::A, &args.a), (Arm::B, &args.vs)] {
        let mut number = 0;
        for path in paths {
            for log in Log::read(path, args)? {
                caps.extend(log.cap_fps());
                file.notes
                    .extend(log.notes.iter().map(|note| format!("{}: {note}", log.name)));
                file.runs
                    .push(log.run(arm, number, &target, &mut file.metrics));
                number += 1;
            }
        }
    }
    file.notes.extend(different_caps(&caps));
    file.a.label = show::label(&args.a);
    if args.vs.is_empty() {
        say_part!("{}", show::single(&file, args.outputs.style().width));
        args.outputs.write(&file)?;
        return Ok(ExitCode::SUCCESS);
    }
    file.b.label = show::label(&args.vs);
    if file.a.label == file.b.label {
        file.a.label.push_str(" (A)");
        file.b.label.push_str(" (B)");
    }
    choose(&mut file.metrics, args)?;
    file.judge()?;
    let code = args.outputs.finish(&file)?;
    say_part!("{}", show::definitions(&file, args.outputs.style().width));
    Ok(code)
}

/// Logs that are held at different rates come from different displays or limits: late frames of one are none of the other.
fn different_caps(caps: &[f64]) -> Option<String> {
    let slowest = caps.iter().copied().reduce(f64::min)?;
    let fastest = caps.iter().copied().reduce(f64::max)?;
    (fastest > 1.05 * slowest).then(|| {
        format!(
            "logs are held at different rates, {slowest:.1} to {fastest:.1} fps: compare like with like, late frames are \
             counted for one refresh rate (--hertz)"
        )
    })
}

/// Marks the metrics that are judged.
fn choose(metrics: &mut [Metric], args: &Args) -> Result<()> {
    for name in args.judge.iter().chain(&args.primary) {
        if !metrics.iter().any(|metric| metric.name == *name) {
            let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
            bail!(
                "there is no metric `{name}`; there are: {}",
                names.join(", ")
            );
        }
    }
    for metric in metrics {
        let is_primary = args.primary.as_ref() == Some(&metric.name);
        metric.is_informative = !is_primary && !args.judge.contains(&metric.name);
    }
    Ok(())
}

fn parse_unit(text: &str) -> Result<Unit, String> {
    match text {
        "ms" => Ok(Unit::Millis),
        "us" => Ok(Unit::Micros),
        "s" => Ok(Unit::Seconds),
        "fps" => Ok(Unit::Fps),
        "period-fps" => Ok(Unit::PeriodFps),
        _ => Err("one of ms, us, s, fps, period-fps".to_owned()),
    }
}
