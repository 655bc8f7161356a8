//! `towpath report`: judges results again without running anything, and joins blocks.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use towpath_report::{ResultFile, RunOutcome, merge, sentence};

use crate::outputs::Outputs;

/// Judges stored results again; several files of one experiment (before and after a reboot) are joined as blocks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    towpath report result.json --html report.html\n  \
    towpath report before-reboot.json after-reboot.json --margin 2\n  \
    towpath report result.json --exclude '12=the backup ran'")]
pub(crate) struct Args {
    /// Results that ab, compare or frames wrote with --json.
    #[arg(required = true, value_name = "RESULT.json")]
    files: Vec<PathBuf>,
    /// Another margin in percent than the one that was measured with.
    #[arg(long, value_name = "PCT")]
    margin: Option<f64>,
    /// Takes run number N out, for a reason that is recorded; the verdict with it is shown too.
    #[arg(long, value_name = "N=REASON", value_parser = parse_exclusion)]
    exclude: Vec<(usize, String)>,
    #[command(flatten)]
    outputs: Outputs,
}

/// Reads, joins, judges, reports.
///
/// # Errors
///
/// Files that are no results or belong to different experiments.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut files = Vec::new();
    for path in &args.files {
        let bytes = crate::input::read(path)?;
        let file = ResultFile::from_json(&bytes)
            .with_context(|| format!("cannot use {}", path.display()))?;
        files.push(file);
    }
    let Some(mut file) = merge::merge(files)? else {
        bail!("no result was given");
    };
    if let Some(margin) = args.margin {
        let measured = file.design.margin * 100.0;
        file.design.margin = margin / 100.0;
        file.notes.push(format!(
            "the margin was changed afterwards, from {measured} % to {margin} %"
        ));
    }
    file.judge()?;
    exclude(&mut file, &args.exclude)?;
    args.outputs.finish(&file)
}

/// Takes runs out, with the verdict as it was before in the notes.
fn exclude(file: &mut ResultFile, exclusions: &[(usize, String)]) -> Result<()> {
    if exclusions.is_empty() {
        return Ok(());
    }
    let before = file
        .headline()
        .map(|headline| sentence::verdict(file, headline));
    let count = file.runs.len();
    for (number, reason) in exclusions {
        let place = number
            .checked_sub(1)
            .and_then(|place| file.runs.get_mut(place));
        let Some(run) = place else {
            bail!("there is no run {number}; runs are counted from 1 to {count}");
        };
        run.outcome = RunOutcome::Excluded {
            reason: reason.clone(),
        };
        file.notes
            .push(format!("run {number} was excluded: {reason}"));
    }
    if let Some(before) = before {
        file.notes.push(format!("with the excluded runs: {before}"));
    }
    file.judge()?;
    Ok(())
}

fn parse_exclusion(text: &str) -> Result<(usize, String), String> {
    let (number, reason) = text
        .split_once('=')
        .ok_or("not N=REASON: a run is excluded for a reason")?;
    let number = number
        .trim()
        .parse()
        .map_err(|_error| format!("`{number}` is no run number"))?;
    if reason.trim().is_empty() {
        return Err("a run is excluded for a reason: N=REASON".to_owned());
    }
    Ok((number, reason.trim().to_owned()))
}
