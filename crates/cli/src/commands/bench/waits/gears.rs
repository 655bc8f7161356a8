//! Frames of a renderer and a compositor: one acquire and one release point for each frame, three
//! frames in flight, nothing else to do. What a frame costs is what its waits cost.

use std::fmt;
use std::time::Instant;

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::compare::Comparison;
use super::cores::{self, Cores};
use super::lanes::{Condition, Eventfd, Lane, Local};

/// Frames that the renderer is ahead.
const IN_FLIGHT: u32 = 3;

/// Pairs of runs and what they prove.
#[derive(Debug, Serialize)]
pub(super) struct Gears {
    frames: u64,
    /// Microseconds per frame.
    pairs: Vec<Comparison>,
}

impl fmt::Display for Gears {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "gears, {} frames a run, {IN_FLIGHT} in flight, per frame",
            self.frames
        )?;
        self.pairs
            .iter()
            .try_for_each(|pair| writeln!(formatter, "{pair}"))
    }
}

/// Runs the pairs, their order turned around every time.
///
/// # Errors
///
/// If a descriptor or thread cannot be had.
pub(super) fn measure(rounds: usize, frames: u64) -> Result<Gears> {
    let count = u32::try_from(frames)?;
    let eventfd = || Ok::<_, anyhow::Error>((Eventfd::new()?, Eventfd::new()?));
    let condition = || Ok::<_, anyhow::Error>(<(Condition, Condition)>::default());
    let mut pairs = Vec::new();
    for cores in Cores::BOTH {
        pairs.push(compare("eventfd and poll", cores, rounds, count, eventfd)?);
        let against = "mutex and condition variable";
        pairs.push(compare(against, cores, rounds, count, condition)?);
    }
    Ok(Gears { frames, pairs })
}

fn compare<L: Lane>(
    against: &'static str,
    cores: Cores,
    rounds: usize,
    frames: u32,
    peer: impl Fn() -> Result<(L, L)>,
) -> Result<Comparison> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let timeline = || run(&<(Local, Local)>::default(), cores, frames);
        let (a, b) = if round % 2 == 0 {
            let a = run(&peer()?, cores, frames)?;
            (a, timeline()?)
        } else {
            let b = timeline()?;
            (run(&peer()?, cores, frames)?, b)
        };
        if round > 0 {
            theirs.push(a);
            ours.push(b);
        }
    }
    Comparison::new(cores.text().to_owned(), against, theirs, ours)
}

/// Microseconds per frame of one run: `lanes.0` carries acquire points, `lanes.1` release points.
fn run<L: Lane>(lanes: &(L, L), cores: Cores, frames: u32) -> Result<f64> {
    let span = std::thread::scope(|scope| {
        let compositor = scope.spawn(|| {
            cores.pin_answering();
            for frame in 1..=frames {
                lanes.0.await_value(frame);
                lanes.1.raise(frame);
            }
        });
        let renderer = scope.spawn(|| {
            cores::pin_asking();
            let start = Instant::now();
            for frame in 1..=frames {
                if frame > IN_FLIGHT {
                    lanes.1.await_value(frame - IN_FLIGHT);
                }
                lanes.0.raise(frame);
            }
            lanes.1.await_value(frames);
            start.elapsed()
        });
        let panicked = |_panic| anyhow!("a thread panicked");
        compositor.join().map_err(panicked)?;
        renderer.join().map_err(panicked)
    })?;
    Ok(span.as_secs_f64() * 1e6 / f64::from(frames))
}
