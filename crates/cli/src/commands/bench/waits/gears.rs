//! Frames of a renderer and a compositor: one acquire and one release point for each frame, three
//! frames in flight, nothing else to do. What a frame costs is what its waits cost.

use std::fmt;
use std::time::Instant;

use anyhow::{Result, anyhow};
use serde::Serialize;
use towpath_measure::judge::{self, Question, Verdict};
use towpath_measure::sample::median;

use super::lanes::{Condition, Eventfd, Lane, Local};

/// Frames that the renderer is ahead.
const IN_FLIGHT: u32 = 3;

/// Pairs of runs and what they prove.
#[derive(Debug, Serialize)]
pub(super) struct Gears {
    frames: u64,
    pairs: Vec<Comparison>,
}

#[derive(Debug, Serialize)]
struct Comparison {
    against: &'static str,
    /// Microseconds per frame with the peer.
    peer: Vec<f64>,
    /// Microseconds per frame with timelines of this process.
    timeline: Vec<f64>,
    verdict: String,
    change_percent: Option<f64>,
    p: f64,
}

impl fmt::Display for Gears {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "gears, {} frames a run, {IN_FLIGHT} in flight",
            self.frames
        )?;
        for pair in &self.pairs {
            writeln!(
                formatter,
                "  timeline {:.2} us a frame, {} {:.2} us: {} ({:+.1} %, p {:.4})",
                median(&pair.timeline),
                pair.against,
                median(&pair.peer),
                pair.verdict,
                pair.change_percent.unwrap_or(f64::NAN),
                pair.p
            )?;
        }
        Ok(())
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
    Ok(Gears {
        frames,
        pairs: vec![
            compare("eventfd and poll", rounds, count, eventfd)?,
            compare("mutex and condition variable", rounds, count, condition)?,
        ],
    })
}

fn compare<L: Lane>(
    against: &'static str,
    rounds: usize,
    frames: u32,
    peer: impl Fn() -> Result<(L, L)>,
) -> Result<Comparison> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let timeline = || run(&<(Local, Local)>::default(), frames);
        let (a, b) = if round % 2 == 0 {
            let a = run(&peer()?, frames)?;
            (a, timeline()?)
        } else {
            let b = timeline()?;
            (run(&peer()?, frames)?, b)
        };
        if round > 0 {
            theirs.push(a);
            ours.push(b);
        }
    }
    let judged = judge::paired(&theirs, &ours, &Question::lower_is_better())?;
    let verdict = match judged.verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "not proven",
    };
    Ok(Comparison {
        against,
        peer: theirs,
        timeline: ours,
        verdict: verdict.to_owned(),
        change_percent: judged.change().map(|change| change * 100.0),
        p: judged.p,
    })
}

/// Microseconds per frame of one run: `lanes.0` carries acquire points, `lanes.1` release points.
fn run<L: Lane>(lanes: &(L, L), frames: u32) -> Result<f64> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let compositor = scope.spawn(|| {
            for frame in 1..=frames {
                lanes.0.await_value(frame);
                lanes.1.raise(frame);
            }
        });
        for frame in 1..=frames {
            if frame > IN_FLIGHT {
                lanes.1.await_value(frame - IN_FLIGHT);
            }
            lanes.0.raise(frame);
        }
        compositor
            .join()
            .map_err(|_panic| anyhow!("the compositor panicked"))
    })?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(frames))
}
