//! Round trips between two threads and between two processes.

use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

use super::Arm;
use super::lanes::{Condition, Eventfd, Futex, Lane, Listened, Local, Waitv};

/// Round trips of one sample.
const TRIPS: u32 = 1000;

pub(super) fn arms() -> Result<Vec<Arm<'static>>> {
    Ok(vec![
        threads("bare futex", <(Futex, Futex)>::default()),
        threads("timeline, local", <(Local, Local)>::default()),
        threads(
            "mutex and condition variable",
            <(Condition, Condition)>::default(),
        ),
        threads("eventfd and poll", (Eventfd::new()?, Eventfd::new()?)),
        threads("futex_waitv", <(Waitv, Waitv)>::default()),
        threads("event-listener", <(Listened, Listened)>::default()),
        Arm {
            group: "trips",
            name: "timeline, shared, between processes".to_owned(),
            unit: "us",
            sample: Box::new(processes),
        },
    ])
}

/// One sample: a thread answers each value.
fn threads<L: Lane + 'static>(name: &str, lanes: (L, L)) -> Arm<'static> {
    let lanes = Arc::new(lanes);
    let mut base = 0;
    Arm {
        group: "trips",
        name: format!("{name}, between threads"),
        unit: "us",
        sample: Box::new(move || {
            let first = base;
            base += TRIPS;
            let other = Arc::clone(&lanes);
            let answering = std::thread::spawn(move || {
                for value in first + 1..=first + TRIPS {
                    other.0.await_value(value);
                    other.1.raise(value);
                }
            });
            let start = Instant::now();
            for value in first + 1..=first + TRIPS {
                lanes.0.raise(value);
                lanes.1.await_value(value);
            }
            let span = start.elapsed();
            answering
                .join()
                .map_err(|_panic| anyhow!("the other thread panicked"))?;
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
