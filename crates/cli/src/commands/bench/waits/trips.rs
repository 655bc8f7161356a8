//! Round trips between two threads, in every way that programs use.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};

use super::Arm;
use super::cores::{self, Cores};
use super::lanes::{Condition, Eventfd, Futex, Lane, Listened, Local, Waitv};
use super::lavapipe::{Device, Semaphore};

/// Round trips of one sample.
const TRIPS: u32 = 1000;

pub(super) fn arms(lavapipe: Option<&Arc<Device>>) -> Result<Vec<Arm<'static>>> {
    let mut arms = Vec::new();
    for cores in Cores::BOTH {
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
        if let Some(device) = lavapipe {
            let pair = (Semaphore::new(device)?, Semaphore::new(device)?);
            arms.push(threads("Mesa lavapipe", cores, pair));
        }
    }
    Ok(arms)
}

/// One sample: a thread answers each value.
fn threads<L: Lane + 'static>(name: &str, cores: Cores, lanes: (L, L)) -> Arm<'static> {
    let lanes = Arc::new(lanes);
    let mut base = 0;
    Arm {
        group: "trips",
        name: format!("{name}, threads {}", cores.text()),
        unit: "us",
        sample: Box::new(move || {
            let first = base;
            base += TRIPS;
            let answers = Arc::clone(&lanes);
            let asks = Arc::clone(&lanes);
            let answering = std::thread::spawn(move || {
                cores.pin_answering();
                for value in first + 1..=first + TRIPS {
                    answers.0.await_value(value);
                    answers.1.raise(value);
                }
            });
            let asking = std::thread::spawn(move || {
                cores::pin_asking();
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
