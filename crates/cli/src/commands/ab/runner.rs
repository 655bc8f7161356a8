//! One real run of an arm: prepare, warm the host's memory, run, read, clean up.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Shell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use towpath_measure::Arm;
use towpath_memory::{margin, warm_host};
use towpath_report::{ResultFile, Run, RunOutcome};
use towpath_watch::{Command, End, Exit, Input, Known, Output, Supervisor, Throttle};

use super::Args;
use super::arm::{Instruments, Setup};
use super::calibrate;
use super::collect;
use super::frame_log;
use super::metric::Metric;
use super::schedule::Executor;
use crate::session::Session;
use crate::session::beside::{self, Beside};

/// Share of the memory that can be spared which warming may touch: the program needs the rest.
const WARM_SHARE: usize = 2;

/// Runs the program of an arm.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    session: Session,
    metrics: &'a [Metric],
    folder: PathBuf,
    kept: PathBuf,
    timeout: Option<Duration>,
    warm_bytes: usize,
    warmed: AtomicUsize,
    interrupted: Arc<AtomicBool>,
    runs: usize,
    layers_seen: bool,
    /// Devices to or from which the program moved enough to matter.
    devices: BTreeSet<String>,
    calibrated: calibrate::Notes,
    watch: &'a beside::Options,
    frames: &'a frame_log::Options,
}

impl<'a> Runner<'a> {
    /// A runner whose arms live below `folder`.
    ///
    /// # Errors
    ///
    /// If no folder for ledgers can be made or signals cannot be watched.
    pub(super) fn new(args: &'a Args, metrics: &'a [Metric], folder: &Path) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // SIGHUP: the terminal was closed, or the connection to it lost.
        let ending = [SIGINT, SIGTERM, SIGHUP].into_iter();
        for signal in ending.filter(|signal| !towpath_watch::is_ignored(*signal)) {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .context("cannot watch for Ctrl-C")?;
        }
        let mut session = Session::new()?;
        session.freeze_calibration()?;
        Ok(Self {
            session,
            metrics,
            folder: folder.to_path_buf(),
            kept: std::env::temp_dir().join(format!("towpath-failed-{}", std::process::id())),
            timeout: args.timeout,
            warm_bytes: args.warm_host.saturating_mul(1 << 20),
            warmed: AtomicUsize::new(0),
            interrupted,
            runs: 0,
            layers_seen: false,
            devices: BTreeSet::new(),
            calibrated: calibrate::Notes::new(),
            watch: &args.watch,
            frames: &args.frames,
        })
    }

    /// Calibrates the devices that the warm-up runs used, and freezes what both arms follow.
    ///
    /// # Errors
    ///
    /// If it cannot be frozen.
    pub(super) fn calibrate(
        &mut self,
        setups: &[Setup],
        budget: Option<Duration>,
        say: &dyn Fn(&str),
    ) -> Result<()> {
        let Some(budget) = budget.filter(|_| !self.is_interrupted()) else {
            return Ok(());
        };
        let devices = self.devices.iter().map(String::as_str);
        self.calibrated = calibrate::devices(&mut self.session, setups, devices, budget, say)?;
        Ok(())
    }

    /// Adds to the result what a reader must know of how it was measured.
    pub(super) fn note(&self, file: &mut ResultFile) {
        let warmed = self.warmed.load(Ordering::Relaxed) >> 20;
        file.versions
            .insert("warmed host memory, MiB".to_owned(), warmed.to_string());
        for (device, text) in &self.calibrated {
            let name = format!("calibration of {device}");
            file.versions.insert(name, text.clone());
        }
        for missing in &self.session.layers().missing {
            file.notes.push(format!(
                "{} was not found: its host paths are not seen",
                missing.file_name()
            ));
        }
        for problem in self.session.problems() {
            file.notes.push(problem.to_string());
        }
        if !self.layers_seen {
            file.notes.push(
                "no layer of ours was loaded in any run: the program uses no OpenCL or Vulkan, or a \
                 loader without layers (see towpath doctor)"
                    .to_owned(),
            );
        }
    }

    /// Has the host give the memory that the program is about to touch, in either arm alike.
    fn warm(&self) -> Result<()> {
        let bytes = self.warm_bytes.min(margin::available() / WARM_SHARE);
        if bytes > 0 {
            warm_host(bytes).context("cannot warm the host's memory")?;
        }
        self.warmed.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn command(&self, setup: &Setup, output: &Path) -> Result<Command> {
        let (program, arguments) = setup.command.split_first().context("an empty command")?;
        let mut command = Command::new(Supervisor::this_program(), program)
            .args(arguments)
            .set("TOWPATH_ARM", name(setup.arm))
            .set("TOWPATH_ARM_FOLDER", &setup.state)
            .set("TOWPATH_CACHE_DIR", setup.state.join("cache"))
            .stdin(Input::Null)
            .stdout(Output::File(output.to_path_buf()))
            .stderr(Output::File(output.to_path_buf()))
            .end_leftovers();
        if let Instruments::Fixes(fixes) = setup.instruments {
            command = command.environment(self.session.environment(fixes));
        }
        for (variable, value) in &setup.environment {
            command = command.set(variable, value);
        }
        Ok(match self.timeout {
            Some(limit) => command.timeout(limit),
            None => command,
        })
    }

    /// A failed run's output outlives the comparison, for the person who has to look.
    fn keep(&self, run: &mut Run, output: &Path) {
        let name = format!("{}-{}.log", name(run.arm), self.runs);
        let kept = self.kept.join(name);
        let copied = fs::create_dir_all(&self.kept).and_then(|()| fs::copy(output, &kept));
        if copied.is_ok() {
            run.source = Some(kept.display().to_string());
        }
    }
}

impl Executor for Runner<'_> {
    fn execute(&mut self, setup: &Setup) -> Result<Run> {
        self.runs += 1;
        fs::create_dir_all(&setup.state)
            .with_context(|| format!("cannot make {}", setup.state.display()))?;
        for command in &setup.prepare {
            shell(setup, command).context("prepare")?;
        }
        self.session.clear()?;
        self.warm()?;
        let output = self.folder.join("output.log");
        let throttle = Throttle::now();
        let start = frame_log::now();
        let watched = (!self.watch.is_empty()).then(|| Beside::start(self.watch));
        let exit = self.command(setup, &output)?.run();
        let seen = watched.map(Beside::end);
        let exit = exit?;
        let mut run = Run::new(setup.arm, 0);
        from_exit(&mut run, &exit);
        if Throttle::now()
            .since(&throttle)
            .is_some_and(|events| events > 0)
        {
            run.marks.push("throttled".to_owned());
        }
        if let Some(seen) = seen {
            seen.read_into(&mut run);
        }
        self.frames.read_into(&mut run, start)?;
        let ledgers = self.session.ledgers();
        self.layers_seen |= !ledgers.is_empty();
        self.devices.extend(collect::devices(&ledgers));
        collect::from_ledgers(&mut run, &ledgers);
        let text = fs::read(&output).unwrap_or_default();
        collect::from_output(&mut run, self.metrics, &String::from_utf8_lossy(&text));
        if exit.interrupted_by.is_some() {
            self.interrupted.store(true, Ordering::Relaxed);
        } else if run.outcome != RunOutcome::Finished {
            self.keep(&mut run, &output);
        }
        if let Some(command) = &setup.cleanup {
            shell(setup, command).context("cleanup")?;
        }
        Ok(run)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

fn from_exit(run: &mut Run, exit: &Exit) {
    let seconds = |span: towpath_measure::Nanos| span.0 as f64 / 1e9;
    run.outcome = match exit.end {
        _ if exit.timed_out => RunOutcome::TimedOut,
        End::Code(0) => RunOutcome::Finished,
        End::Code(code) => RunOutcome::Failed {
            code: i32::from(code),
        },
        End::Signal(signal) => RunOutcome::Killed { signal },
    };
    run.read("wall", seconds(exit.wall));
    run.read("user", seconds(exit.user));
    run.read("sys", seconds(exit.sys));
    run.read("cpu", seconds(exit.cpu()));
    run.read("minor-faults", exit.minor_faults as f64);
    known(run, "run-queue", &exit.run_queue_wait, |wait| {
        seconds(*wait)
    });
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    known(run, "disk-read", &exit.disk, |disk| mib(disk.read_bytes));
    known(run, "disk-written", &exit.disk, |disk| {
        mib(disk.write_bytes.saturating_sub(disk.cancelled_bytes))
    });
    run.read("peak-rss", exit.max_rss_bytes as f64 / f64::from(1 << 20));
}

fn known<T>(run: &mut Run, metric: &str, value: &Known<T>, of: impl Fn(&T) -> f64) {
    match value {
        Known::Value(value) => run.read(metric, of(value)),
        Known::Unavailable(reason) => run.cannot_read(metric, reason),
    }
}

/// Runs a person's shell command beside the measurement; its output is shown, on stderr.
fn shell(setup: &Setup, command: &str) -> Result<()> {
    let status = Shell::new("sh")
        .args(["-c", command])
        .env("TOWPATH_ARM", name(setup.arm))
        .env("TOWPATH_ARM_FOLDER", &setup.state)
        .envs(
            setup
                .environment
                .iter()
                .map(|(name, value)| (OsString::from(name), value)),
        )
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("cannot start a shell for {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

const fn name(arm: Arm) -> &'static str {
    match arm {
        Arm::A => "a",
        Arm::B => "b",
        Arm::C => "c",
    }
}
