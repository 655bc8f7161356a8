//! Samples of arms that take turns.

use anyhow::Result;
use serde::Serialize;
use towpath_measure::judge::{self, Question, Verdict};
use towpath_measure::random::Random;
use towpath_measure::sample::median;
use towpath_measure::{Clock as _, MonotonicClock};

/// What one arm showed in one row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Arm {
    /// Its name.
    #[serde(rename = "arm")]
    pub(super) name: &'static str,
    /// Nanoseconds per upload, one value per round.
    pub(super) nanos: Vec<f64>,
    /// Uploads in a sample.
    pub(super) uploads: u64,
    /// Which way the last upload took, where the arm knows.
    pub(super) path: Option<String>,
}

impl Arm {
    /// The middle of the samples.
    pub(super) fn median(&self) -> f64 {
        median(&self.nanos)
    }
}

/// An arm against the first.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Against {
    /// Its name.
    pub(super) arm: &'static str,
    /// Geometric mean of the first arm's time over this one's: above 1 is faster.
    pub(super) speedup: f64,
    /// Ends of the 95 % interval, where the data bound it.
    pub(super) low: Option<f64>,
    /// As above.
    pub(super) high: Option<f64>,
    /// The claim.
    pub(super) verdict: &'static str,
    /// p-value.
    pub(super) p: f64,
}

/// Something that uploads over and over.
pub(super) trait Workload {
    /// Runs `n` uploads and waits for their end.
    fn run(&mut self, n: u64) -> Result<()>;
    /// Uploads before anything is timed: as many as a view needs to pay, where one may be made. What they
    /// cost is measured on its own (`first_use`).
    fn warm_up(&self) -> u64;
    /// Which way the last upload took, where it is known.
    fn path(&self) -> Option<String>;
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Design {
    /// Nanoseconds of a sample, at least.
    pub(super) sample_nanos: u64,
    /// Samples of each arm.
    pub(super) rounds: usize,
}

/// Runs every arm once per round, in random order.
///
/// The number of uploads in a sample is found by doubling, as glbench does, per arm; what was run for
/// that also warms the arm up.
pub(super) fn measure(
    arms: &mut [(&'static str, Box<dyn Workload + '_>)],
    design: Design,
    random: &mut Random,
) -> Result<Vec<Arm>> {
    let mut results = Vec::new();
    for (arm, workload) in arms.iter_mut() {
        let uploads = uploads(workload.as_mut(), design.sample_nanos)?;
        results.push(Arm {
            name: arm,
            nanos: Vec::with_capacity(design.rounds),
            uploads,
            path: None,
        });
    }
    let mut order: Vec<usize> = (0..arms.len()).collect();
    for _round in 0..design.rounds {
        random.shuffle(&mut order);
        for &index in &order {
            let (Some((_, workload)), Some(result)) = (arms.get_mut(index), results.get_mut(index))
            else {
                continue;
            };
            let nanos = time(workload.as_mut(), result.uploads)?;
            result.nanos.push(nanos as f64 / result.uploads as f64);
        }
    }
    for ((_, workload), result) in arms.iter().zip(&mut results) {
        result.path = workload.path();
    }
    Ok(results)
}

/// Every arm but the first, judged against it.
pub(super) fn against_first(arms: &[Arm]) -> Result<Vec<Against>> {
    let Some((first, rest)) = arms.split_first() else {
        return Ok(Vec::new());
    };
    rest.iter().map(|arm| against(first, arm)).collect()
}

/// `arm` against `first`.
pub(super) fn against(first: &Arm, arm: &Arm) -> Result<Against> {
    let judged = judge::paired(&first.nanos, &arm.nanos, &Question::lower_is_better())?;
    let inverse = |ratio: f64| 1.0 / ratio.max(1e-12);
    Ok(Against {
        arm: arm.name,
        speedup: judged.estimate.map_or(f64::NAN, inverse),
        low: judged.high.map(inverse),
        high: judged.low.map(inverse),
        verdict: match judged.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equivalent => "equivalent",
            Verdict::Inconclusive => "inconclusive",
        },
        p: judged.p,
    })
}

/// Geometric mean.
pub(super) fn geomean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    towpath_measure::sample::mean(&logs).exp()
}

fn uploads(workload: &mut dyn Workload, sample_nanos: u64) -> Result<u64> {
    workload.run(workload.warm_up())?;
    let mut n = 1;
    loop {
        let nanos = time(workload, n)?;
        if nanos >= sample_nanos || n >= MOST {
            return Ok(n);
        }
        n *= 2;
    }
}

fn time(workload: &mut dyn Workload, n: u64) -> Result<u64> {
    let clock = MonotonicClock;
    let start = clock.now();
    workload.run(n)?;
    Ok(clock.now().saturating_sub(start).0)
}

const MOST: u64 = 1 << 20;
