//! `towpath compare --ministat`: the output of Debian's ministat.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use towpath_measure::results::{self, Columns};
use towpath_report::ministat::{self, LEVELS, SETS_MAX, Set, VALUES_MIN};

/// Options with ministat's own letters.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Prints what Debian's ministat prints, byte for byte; all files are data sets.
    #[arg(long)]
    ministat: bool,
    /// With --ministat: confidence in percent (80, 90, 95, 98, 99, 99.5).
    #[arg(
        short = 'c',
        long,
        value_name = "PCT",
        default_value_t = 95.0,
        requires = "ministat"
    )]
    confidence: f64,
    /// With --ministat: columns of the plot.
    #[arg(short = 'w', long, value_name = "N", requires = "ministat")]
    width: Option<usize>,
    /// With --ministat: bars on lines of their own.
    #[arg(short = 's', long, requires = "ministat")]
    separate_bars: bool,
    /// With --ministat: summary only.
    #[arg(short = 'n', long, requires = "ministat")]
    summary_only: bool,
    /// With --ministat: no plot.
    #[arg(short = 'A', long, requires = "ministat")]
    no_plot: bool,
}

impl Options {
    pub(super) const fn is_asked_for(&self) -> bool {
        self.ministat
    }
}

/// Prints the data sets and each one's difference from the first.
pub(super) fn run(files: &[PathBuf], columns: &Columns, options: &Options) -> Result<ExitCode> {
    if files.len() > SETS_MAX {
        bail!(
            "ministat compares at most {SETS_MAX} data sets, here are {}",
            files.len()
        );
    }
    let level = LEVELS
        .iter()
        .position(|(percent, _)| (percent - options.confidence).abs() < 1e-9);
    let Some(level) = level else {
        bail!("ministat knows the confidence levels 80, 90, 95, 98, 99 and 99.5 only");
    };
    let width = options.width.unwrap_or_else(terminal_width);
    if width < 2 {
        bail!("a plot needs at least 2 columns");
    }
    let mut sets = Vec::new();
    for path in files {
        let shown = path.display().to_string();
        let bytes = crate::input::read(path)?;
        let found =
            results::read(&bytes, columns).with_context(|| format!("cannot use {shown}"))?;
        if let Some(summary) = found.rejected.summary() {
            bail!("{shown}: {summary}");
        }
        let [series] = &found.series[..] else {
            bail!(
                "{shown} ({}) has {} metrics; ministat knows one",
                found.kind,
                found.series.len()
            );
        };
        if series.values.len() < VALUES_MIN {
            bail!("{shown} must contain at least {VALUES_MIN} data points");
        }
        sets.push(Set::new(&shown, &series.values));
    }
    let options = ministat::Options {
        level,
        width,
        separate_bars: options.separate_bars,
        summary_only: options.summary_only,
        no_plot: options.no_plot,
    };
    say_part!("{}", ministat::render(&sets, &options));
    Ok(ExitCode::SUCCESS)
}

/// 74, or two less than the terminal has.
fn terminal_width() -> usize {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return 74;
    }
    let columns = rustix::termios::tcgetwinsize(&out).map_or(0, |size| usize::from(size.ws_col));
    if columns > 4 { columns - 2 } else { 74 }
}
