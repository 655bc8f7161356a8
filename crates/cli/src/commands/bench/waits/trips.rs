//! Round trips between two threads and between two processes.

use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{CpuSet, sched_setaffinity};
use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

use super::Arm;
use super::lanes::{Condition, Eventfd, Futex, Lane, Listened, Local, Waitv};

/// Round trips of one sample.
const TRIPS: u32 = 1000;

pub(super) fn arms() -> Result<Vec<Arm<'static>>> {
    let mut arms = Vec::new();
    // Where the scheduler puts the threads makes more of a difference than how they wait, so both
    // places are measured, each by itself.
    for cores in [1, 2] {
        arms.push(threads("bare futex", cores, <(Futex, Futex)>::default()));
        arms.push(threads(
            "timeline, local",
            cores,
            <(Local, Local)>::default(),
        ));
        arms.push(threads(
            "mutex and condition variable",
            cores,
            <(Condition, Condition)>::default(),
        ));
        arms.push(threads(
            "eventfd and poll",
            cores,
            (Eventfd::new()?, Eventfd::new()?),
        ));
        arms.push(threads("futex_waitv", cores, <(Waitv, Waitv)>::default()));
        arms.push(threads(
            "event-listener",
            cores,
            <(Listened, Listened)>::default(),
        ));
    }
    arms.push(Arm {
        group: "trips",
        name: "timeline, shared, between processes".to_owned(),
        unit: "us",
        sample: Box::new(processes),
    });
    Ok(arms)
}

/// Keeps this thread on one core.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // A machine with one core, or a container that forbids it, measures where it may.
    let _refused = sched_setaffinity(None, &set);
}

/// One sample: a thread answers each value; both on one core, or on two.
fn threads<L: Lane + 'static>(name: &str, cores: usize, lanes: (L, L)) -> Arm<'static> {
    let lanes = Arc::new(lanes);
    let mut base = 0;
    Arm {
        group: "trips",
        name: format!(
            "{name}, threads on {cores} core{}",
            if cores == 1 { "" } else { "s" }
        ),
        unit: "us",
        sample: Box::new(move || {
            let first = base;
            base += TRIPS;
            let answers = Arc::clone(&lanes);
            let asks = Arc::clone(&lanes);
            let answering = std::thread::spawn(move || {
                pin(cores - 1);
                for value in first + 1..=first + TRIPS {
                    answers.0.await_value(value);
                    answers.1.raise(value);
                }
            });
            let asking = std::thread::spawn(move || {
                pin(0);
                let start = Instant::now();
                for value in first + 1..=first + TRIPS {
                    asks.0.raise(value);
                    asks.1.await_value(value);
                }
                start.elapsed()
            });
            let span = asking
                .join()
                .map_err(|_panic| anyhow!("a thread panicked"))?;
            answering
                .join()
                .map_err(|_panic| anyhow!("a thread panicked"))?;
            Ok(span.as_secs_f64() * 1e6 / f64::from(TRIPS))
        }),
    }
}

/// One sample: this program again answers, its standard input the object.
fn processes() -> Result<f64> {
    let shared = Shared::new();
    let object = shared.create(false)?;
    let ticket = shared
        .export(&object)?
        .context("no descriptor for the object")?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["bench", "waits", "--answer"])
        .stdin(Stdio::from(ticket))
        .spawn()?;
    // The first trip waits for the process to start.
    trip(&shared, &object, 0)?;
    let start = Instant::now();
    for round in 1..=u64::from(TRIPS) {
        trip(&shared, &object, round)?;
    }
    let span = start.elapsed();
    child.wait()?;
    Ok(span.as_secs_f64() * 1e6 / f64::from(TRIPS))
}

fn trip(shared: &Shared, object: &Object, round: u64) -> Result<()> {
    shared.signal_point(object, round * 2 + 1)?;
    wait(shared, object, round * 2 + 2)
}

fn wait(shared: &Shared, object: &Object, point: u64) -> Result<()> {
    let entry = Entry { object, point };
    let until = Deadline::after(std::time::Duration::from_secs(30));
    shared.wait(&[entry], WaitFor::ALL.for_submit(), until)?;
    Ok(())
}

/// The other side of [`processes`].
pub(super) fn answer() -> Result<()> {
    let shared = Shared::new();
    let object = shared
        .import(std::io::stdin().as_fd())?
        .context("no object on standard input")?;
    for round in 0..=u64::from(TRIPS) {
        wait(&shared, &object, round * 2 + 1)?;
        shared.signal_point(&object, round * 2 + 2)?;
    }
    Ok(())
}
