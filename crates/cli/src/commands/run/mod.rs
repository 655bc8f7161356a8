//! `towpath run`: what does the host side cost a program, and what would each fix save?

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use towpath_report::ledger::{self, Basis, Observed};
use towpath_settings::{Fixes, Settings};
use towpath_watch::{Command, End, Exit, Supervisor};

use crate::outputs::can_be_written;
use crate::session::layers::Library;
use crate::session::{Session, beside};

mod bundle;
mod libraries;
mod notes;
mod outputs;
mod program;
mod rates;

/// Finds what the host side of a program's GPU work costs.
///
/// Observes and predicts what each fix would save; with --fix, applies fixes. The report goes to
/// standard error, so that the program's own output stays its own. Ends with the program's exit code:
/// 126 if it cannot be executed, 127 if it is not there, 128 + N if signal N ended it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  towpath run -- darktable-cli in.raw out.jpg\n  \
    towpath run --fix readback --json cost.json -- ./program --its-option"
)]
pub(crate) struct Args {
    /// Fixes to apply: none, auto, or a list of readback, upload, cache, waits
    #[arg(long, value_name = "LIST", default_value = "none")]
    fix: Fixes,
    /// Write everything as JSON (schema towpath.run/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Pack ledgers, versions and calibrations for a bug report (tar)
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Also watch texture uploads of programs that use libvirglrenderer (by LD_PRELOAD)
    #[arg(long)]
    virgl: bool,
    /// Also watch DRM sync object calls (by LD_PRELOAD)
    #[arg(long)]
    drm: bool,
    #[command(flatten)]
    beside: beside::Options,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Sites that the text shows; JSON and HTML have all.
const SITES_SHOWN: usize = 20;

/// Runs the program, then reports.
#[expect(clippy::unnecessary_wraps, reason = "every command has one signature")]
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut preload = Vec::new();
    preload.extend(args.virgl.then_some(Library::Virgl));
    preload.extend(args.drm.then_some(Library::Drm));
    let (settings, problems) = Settings::from_environment();
    for problem in &problems {
        say(&format!("towpath: {problem}"));
    }
    let session = match Session::with((settings.clone(), Vec::new()), &preload) {
        Ok(mut session) => {
            // Without stored calibrations there is nothing to freeze, and `auto` goes by its rules.
            let _frozen = session.freeze_calibration();
            Some(session)
        }
        Err(error) => {
            say(&format!("towpath: nothing is recorded: {error:#}"));
            None
        }
    };
    for path in [&args.json, &args.html, &args.bundle].into_iter().flatten() {
        // The program runs all the same: it may be one that runs once only.
        if let Err(error) = can_be_written(path) {
            say(&format!("towpath: {error:#}"));
        }
    }
    for note in notes::before(args, session.as_ref(), &settings) {
        say(&format!("towpath: {note}"));
    }
    match start(args, session.as_ref()) {
        Ok(ran) => {
            report(args, session.as_ref(), &ran);
            Ok(ExitCode::from(ran.exit.code()))
        }
        Err(error) => {
            say(&format!("towpath: {:#}", anyhow::Error::from(error.source)));
            Ok(ExitCode::from(error.code))
        }
    }
}

/// Why the program did not run, with the exit code for it.
struct NotRun {
    source: towpath_watch::Error,
    code: u8,
}

/// How the program ended, and what was seen of it meanwhile.
struct Ran {
    exit: Exit,
    libraries: libraries::Seen,
    beside: beside::Seen,
}

fn start(args: &Args, session: Option<&Session>) -> Result<Ran, NotRun> {
    let not_run = |source: towpath_watch::Error| NotRun {
        code: source.exit_code(),
        source,
    };
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => (OsString::new(), &[][..]),
    };
    let mut command = Command::new(Supervisor::this_program(), program).args(arguments);
    if let Some(session) = session {
        command = command.environment(session.environment(args.fix));
    }
    let beside = beside::Beside::start(&args.beside);
    let running = command.start().map_err(not_run)?;
    let watcher = libraries::Watcher::start(running.pid());
    let exit = running.wait().map_err(not_run)?;
    Ok(Ran {
        exit,
        libraries: watcher.end(),
        beside: beside.end(),
    })
}

fn report(args: &Args, session: Option<&Session>, ran: &Ran) {
    let exit = &ran.exit;
    say(&headline(args, exit));
    if exit.left_running > 0 {
        say(&format!(
            "towpath: processes that it started and that run on: {}; what they do now is not recorded",
            exit.left_running
        ));
    }
    for line in ran.beside.lines() {
        say(&format!("towpath: {line}"));
    }
    let Some(session) = session else {
        let files = [&args.json, &args.html, &args.bundle];
        for path in files.into_iter().flatten() {
            say(&format!(
                "towpath: {} is not written: nothing was recorded",
                path.display()
            ));
        }
        return;
    };
    let (ledgers, problems) = session.read();
    let observed = Observed::sum(&ledgers);
    let basis = Basis {
        rates: needs_rates(&observed).then(rates::measure).flatten(),
        calibrations: session.transfer_calibrations(),
    };
    for problem in &problems {
        say(&format!("towpath: {problem}"));
    }
    let notes = notes::after(args, session, &observed, &ran.libraries);
    for note in &notes {
        say(&format!("towpath: {note}"));
    }
    let text = ledger::text(&observed, &basis, SITES_SHOWN);
    if !text.is_empty() {
        say(text.trim_end());
    }
    let whole = outputs::Whole {
        args,
        session,
        exit,
        beside: &ran.beside,
        observed: &observed,
        basis: &basis,
        notes: &notes,
        headline: headline(args, exit),
    };
    // The program has run: a report that cannot be written does not change its exit code.
    for failure in whole.write() {
        say(&format!("towpath: {failure:#}"));
    }
}

/// Only cold bytes need the machine's rates.
fn needs_rates(observed: &Observed) -> bool {
    observed.sites.iter().any(|site| site.cold_bytes > 0)
}

/// How the program ended and what it used.
fn headline(args: &Args, exit: &Exit) -> String {
    use towpath_report::numbers::with_unit;
    let name = args
        .command
        .first()
        .map_or(String::new(), |name| name.display().to_string());
    let end = match exit.end {
        End::Code(code) => format!("ended with code {code}"),
        End::Signal(signal) => format!("was ended by signal {signal}"),
    };
    let time = |nanos: towpath_measure::Nanos| with_unit(nanos.as_secs_f64(), "s");
    format!(
        "towpath: {name} {end} after {} (user {}, sys {}, {} minor faults, peak {})",
        time(exit.wall),
        time(exit.user),
        time(exit.sys),
        exit.minor_faults,
        with_unit(exit.max_rss_bytes as f64, "bytes"),
    )
}

/// A line on standard error. Nobody may be there to read it.
fn say(line: &str) {
    tell!("{line}");
}
