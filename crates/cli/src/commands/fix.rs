//! `towpath fix`: switches fixes in a running program.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use towpath_ledger::{LedgerFile, read_folder};
use towpath_settings::{Fix, Fixes, Mode, Settings};

use crate::session::{LEDGERS, folder};

/// Switches fixes on or off in a program that `towpath run` started.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  towpath fix on readback --pid 1234\n  towpath fix off --pid 1234"
)]
pub(crate) struct Args {
    /// Whether to switch them on or off
    #[arg(value_enum)]
    switch: Switch,
    /// Which: readback, upload, cache, waits; without a list, all of them (on: as calibrated)
    #[arg(value_name = "LIST", value_delimiter = ',', value_parser = parse_fix)]
    fixes: Vec<Fix>,
    /// The program's process id
    #[arg(long, value_name = "N")]
    pid: u32,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

fn parse_fix(text: &str) -> Result<Fix, String> {
    Fix::from_name(text)
        .ok_or_else(|| format!("{text:?} is none of readback, upload, cache, waits"))
}

/// Writes the control word of every ledger of the process.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (settings, _problems) = Settings::from_environment();
    let ledgers = live_ledgers(&settings);
    let wanted: Vec<&LedgerFile> = ledgers.iter().filter(|l| l.pid() == args.pid).collect();
    if wanted.is_empty() {
        let others: Vec<String> = ledgers
            .iter()
            .map(|ledger| format!("{} ({})", ledger.pid(), ledger.program()))
            .collect();
        let others = if others.is_empty() {
            "none".to_owned()
        } else {
            others.join(", ")
        };
        bail!(
            "process {} has no ledger of ours; processes that have: {others}",
            args.pid
        );
    }
    for ledger in wanted {
        let fixes = switched(ledger.fixes(), args);
        ledger.set_fixes(fixes)?;
        say!(
            "{} in {} ({}): {fixes}",
            ledger.library(),
            ledger.pid(),
            ledger.program()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn switched(now: Fixes, args: &Args) -> Fixes {
    let mode = match args.switch {
        Switch::On => Mode::Forced,
        Switch::Off => Mode::Off,
    };
    match (args.fixes.is_empty(), args.switch) {
        (true, Switch::On) => Fixes::auto(),
        (true, Switch::Off) => Fixes::none(),
        (false, _) => args
            .fixes
            .iter()
            .fold(now, |fixes, fix| fixes.with(*fix, mode)),
    }
}

/// Ledgers of living processes, in every folder of this user's runs and in `TOWPATH_LEDGER`.
fn live_ledgers(settings: &Settings) -> Vec<LedgerFile> {
    let runs = folder::all(settings)
        .into_iter()
        .map(|run| run.join(LEDGERS));
    let folders: Vec<PathBuf> = runs.chain(settings.ledger.clone()).collect();
    let ledgers = folders.iter().filter(|folder| fs::metadata(folder).is_ok());
    ledgers
        .flat_map(|folder| read_folder(folder).0)
        .filter(LedgerFile::is_alive)
        .collect()
}
