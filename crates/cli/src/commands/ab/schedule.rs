//! The order of runs: a warm-up pair, then pairs in random order until the design says stop.

use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use towpath_measure::{Arm, Clock, Verdict, design};
use towpath_report::result::Stop;
use towpath_report::{ResultFile, Run, RunOutcome};

use super::arm::Setup;

/// Failed runs after which a comparison ends: a program that keeps failing proves nothing.
const FAILURES_MAX: usize = 3;

/// Makes one run of an arm; tests put a program of their own behind it.
pub(super) trait Executor {
    /// One run. What goes wrong in the program is in the run's outcome.
    ///
    /// # Errors
    ///
    /// What keeps towpath from doing its job: a prepare command that fails, a program that is not there.
    fn execute(&mut self, setup: &Setup) -> Result<Run>;

    /// Whether the person has asked to stop.
    fn is_interrupted(&self) -> bool;
}

/// How the pairs ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ended {
    /// As the design says.
    AsDesigned,
    /// By Ctrl-C or SIGTERM; finished pairs count.
    Interrupted,
}

/// Runs the warm-up pair: shown, and discarded.
///
/// # Errors
///
/// As [`Executor::execute`]; also if either warm-up run fails, since nothing better would follow.
pub(super) fn warm_up(
    executor: &mut impl Executor,
    setups: &[Setup],
    say: &dyn Fn(&str),
) -> Result<()> {
    for setup in setups {
        let run = executor.execute(setup)?;
        if executor.is_interrupted() {
            return Ok(());
        }
        if run.outcome != RunOutcome::Finished {
            bail!(
                "the warm-up run of {} {}{}",
                setup.arm,
                run.outcome.text(),
                tail(&run)
            );
        }
        let wall = run.value("wall").unwrap_or_default();
        say(&format!(
            "warm-up, discarded: {} took {wall:.3} s",
            setup.arm
        ));
    }
    Ok(())
}

/// Runs the pairs into `file`, which is rewritten at `keep` after each of them, so that nothing is lost.
///
/// # Errors
///
/// As [`Executor::execute`]; also if runs keep failing, or `keep` cannot be written.
pub(super) fn pairs(
    executor: &mut impl Executor,
    setups: &[Setup],
    file: &mut ResultFile,
    keep: Option<&Path>,
    clock: &dyn Clock,
) -> Result<Ended> {
    let start = clock.now();
    let limit = longest(&file.design.stop);
    let orders = orders(setups.len(), file.design.seed.unwrap_or_default(), limit);
    let progress = progress(&file.design.stop);
    for (pair, order) in orders.into_iter().enumerate() {
        // Also during the warm-up or the calibration.
        if executor.is_interrupted() {
            return Ok(Ended::Interrupted);
        }
        let spent = clock.now().0.saturating_sub(start.0) as f64 / 1e9;
        if is_over(file, pair, spent)? {
            break;
        }
        for arm in order {
            let setup = setups
                .iter()
                .find(|setup| setup.arm == arm)
                .context("an arm is missing")?;
            let mut run = executor.execute(setup)?;
            if executor.is_interrupted() {
                // Half a pair is no pair; the interrupted run is not one either.
                file.runs.retain(|run| run.pair != pair);
                return Ok(Ended::Interrupted);
            }
            run.pair = pair;
            run.started_s.get_or_insert(spent);
            file.runs.push(run);
        }
        progress.inc(1);
        check_failures(file)?;
        if let Some(path) = keep {
            write(file, path)?;
        }
    }
    progress.finish_and_clear();
    Ok(Ended::AsDesigned)
}

/// Writes the result file through a temporary name, so that a reader sees a whole one.
///
/// # Errors
///
/// If it cannot be written.
pub(super) fn write(file: &ResultFile, path: &Path) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let text = file.to_json()?;
    std::fs::write(&part, text).with_context(|| format!("cannot write {}", path.display()))?;
    std::fs::rename(&part, path).with_context(|| format!("cannot write {}", path.display()))
}

/// The arms in each pair, or in each round of three.
fn orders(arms: usize, seed: u64, limit: usize) -> Vec<Vec<Arm>> {
    if arms > 2 {
        let rounds = design::order_of_three(seed, limit);
        return rounds.iter().map(|round| round.to_vec()).collect();
    }
    let pairs = design::order(seed, limit);
    pairs.iter().map(|pair| pair.to_vec()).collect()
}

/// Most pairs that a stop rule can lead to.
fn longest(stop: &Stop) -> usize {
    match stop {
        Stop::Pairs { pairs } => *pairs,
        Stop::UntilProven { pairs_max } => *pairs_max,
        Stop::Budget { .. } | Stop::Given => 100_000,
    }
}

/// Whether the design ends before pair number `pair`.
fn is_over(file: &mut ResultFile, pair: usize, spent_s: f64) -> Result<bool> {
    match file.design.stop {
        Stop::Budget { seconds } => {
            // A pair that would end after the budget is not begun; what it would show plays no part.
            let each = if pair == 0 {
                0.0
            } else {
                spent_s / pair as f64
            };
            Ok(spent_s + each > seconds)
        }
        Stop::UntilProven { .. } => {
            file.judge()?;
            Ok(file
                .deciding()
                .all(|judged| judged.judgement.verdict != Verdict::Inconclusive)
                && file.deciding().next().is_some())
        }
        Stop::Pairs { .. } | Stop::Given => Ok(false),
    }
}

fn check_failures(file: &ResultFile) -> Result<()> {
    for &arm in file.arms() {
        let failed: Vec<&Run> = file
            .runs
            .iter()
            .filter(|run| run.arm == arm && run.outcome != RunOutcome::Finished)
            .collect();
        if let (Some(last), true) = (failed.last(), failed.len() >= FAILURES_MAX) {
            bail!(
                "{} runs of {arm} failed; the last one {}{}",
                failed.len(),
                last.outcome.text(),
                tail(last)
            );
        }
    }
    Ok(())
}

/// Where a failed run's output was kept, if it was.
fn tail(run: &Run) -> String {
    run.source
        .as_ref()
        .map_or_else(String::new, |path| format!("; its output is in {path}"))
}

fn progress(stop: &Stop) -> ProgressBar {
    let length = match stop {
        Stop::Pairs { pairs } => Some(*pairs as u64),
        Stop::UntilProven { .. } | Stop::Budget { .. } | Stop::Given => None,
    };
    let Some(length) = length else {
        return ProgressBar::new_spinner();
    };
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("pair {pos} of {len} [{wide_bar}] {eta} left");
    if let Ok(style) = style {
        bar.with_style(style)
    } else {
        bar
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use towpath_measure::ManualClock;
    use towpath_measure::judge::Direction;
    use towpath_report::Metric;
    use towpath_report::result::SCHEMA_AB;

    use super::super::arm::Instruments;
    use super::*;

    /// A program whose B runs take 0.8 s of a second; fails and is interrupted on demand.
    struct Scripted<'a> {
        clock: &'a ManualClock,
        runs: usize,
        interrupt_at: Option<usize>,
        fail_b: bool,
    }

    impl Executor for Scripted<'_> {
        fn execute(&mut self, setup: &Setup) -> Result<Run> {
            self.runs += 1;
            self.clock.advance(towpath_measure::Nanos(1_000_000_000));
            let mut run = Run::new(setup.arm, 0);
            let base = if setup.arm == Arm::A { 1.0 } else { 0.8 };
            run.read("wall", base + self.runs as f64 * 1e-4);
            if self.fail_b && setup.arm == Arm::B {
                run.outcome = RunOutcome::Failed { code: 7 };
            }
            Ok(run)
        }

        fn is_interrupted(&self) -> bool {
            self.interrupt_at.is_some_and(|run| self.runs >= run)
        }
    }

    fn setups() -> [Setup; 2] {
        [Arm::A, Arm::B].map(|arm| Setup {
            arm,
            instruments: Instruments::Bare,
            command: Vec::new(),
            environment: Vec::new(),
            prepare: Vec::new(),
            cleanup: None,
            state: PathBuf::new(),
        })
    }

    fn file(stop: Stop) -> ResultFile {
        let mut file = ResultFile::new(SCHEMA_AB, "scripted");
        file.metrics = vec![Metric::new("wall", "s", Direction::Lower, "")];
        file.design.stop = stop;
        file.design.seed = Some(3);
        file.design.primary = Some("wall".to_owned());
        file
    }

    fn run(stop: Stop, interrupt_at: Option<usize>, fail_b: bool) -> (Result<Ended>, ResultFile) {
        let clock = ManualClock::default();
        let mut executor = Scripted {
            clock: &clock,
            runs: 0,
            interrupt_at,
            fail_b,
        };
        let mut file = file(stop);
        let ended = pairs(&mut executor, &setups(), &mut file, None, &clock);
        (ended, file)
    }

    #[test]
    fn the_number_of_pairs_is_kept_and_each_has_both_arms() {
        let (ended, file) = run(Stop::Pairs { pairs: 5 }, None, false);
        assert_eq!(ended.unwrap(), Ended::AsDesigned);
        assert_eq!(file.runs.len(), 10);
        for pair in 0..5 {
            let arms: Vec<Arm> = file
                .runs
                .iter()
                .filter(|run| run.pair == pair)
                .map(|run| run.arm)
                .collect();
            assert_ne!(arms[0], arms[1]);
        }
    }

    #[test]
    fn a_budget_is_not_overrun_and_a_proof_ends_the_search() {
        let (_, file) = run(Stop::Budget { seconds: 9.0 }, None, false);
        assert_eq!(
            file.runs.len(),
            8,
            "four pairs of two seconds; a fifth would end at ten"
        );
        let (_, file) = run(Stop::UntilProven { pairs_max: 100 }, None, false);
        assert!(
            file.runs.len() < 60,
            "a 20 % effect without noise: {}",
            file.runs.len()
        );
    }

    #[test]
    fn an_interrupt_before_the_first_pair_starts_none() {
        let (ended, file) = run(Stop::Pairs { pairs: 5 }, Some(0), false);
        assert_eq!(ended.unwrap(), Ended::Interrupted);
        assert!(file.runs.is_empty());
    }

    #[test]
    fn an_interrupt_keeps_whole_pairs_only() {
        let (ended, file) = run(Stop::Pairs { pairs: 5 }, Some(4), false);
        assert_eq!(ended.unwrap(), Ended::Interrupted);
        assert_eq!(file.runs.len(), 2);
    }

    #[test]
    fn a_program_that_keeps_failing_ends_it() {
        let (ended, file) = run(Stop::Pairs { pairs: 5 }, None, true);
        let text = ended.unwrap_err().to_string();
        assert_eq!(text, "3 runs of B failed; the last one ended with code 7");
        assert_eq!(file.runs.len(), 6);
    }
}
