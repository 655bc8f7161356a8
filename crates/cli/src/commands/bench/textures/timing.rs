//! Samples of arms that take turns.

use anyhow::Result;
use serde::Serialize;
use towpath_measure::judge::{self, Judgement, Question};
use towpath_measure::random::Random;
use towpath_measure::sample::{geometric_mean, median};
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
    /// The claim: of this comparison alone, or after [`holm`] of all that were made together.
    pub(super) verdict: &'static str,
    /// p-value.
    pub(super) p: f64,
    /// p-value after [`holm`].
    pub(super) p_adjusted: f64,
    /// Smallest relative difference that would have been found with 80 % probability, of this comparison
    /// alone.
    pub(super) detectable: Option<f64>,
    #[serde(skip)]
    judged: Judgement,
}

/// Something that uploads over and over.
pub(super) trait Workload {
    /// Runs `n` uploads and waits for their end.
    fn run(&mut self, n: u64) -> Result<()>;
    /// Uploads before anything is timed: as many as a view needs to pay, where one may be made. What they
    /// cost is measured on its own (`first_use`).
    fn warm_up(&self) -> u64;
    /// Uploads that belong together: a sample is a multiple of them.
    fn least(&self) -> u64 {
        1
    }
    /// Which way the last upload took, where it is known.
    fn path(&self) -> Option<String>;
}

impl<W: Workload + ?Sized> Workload for &mut W {
    fn run(&mut self, n: u64) -> Result<()> {
        (**self).run(n)
    }

    fn warm_up(&self) -> u64 {
        (**self).warm_up()
    }

    fn least(&self) -> u64 {
        (**self).least()
    }

    fn path(&self) -> Option<String> {
        (**self).path()
    }
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Design {
    /// Nanoseconds of a sample, at least.
    pub(super) sample_nanos: u64,
    /// Samples of each arm.
    pub(super) rounds: usize,
    /// Uploads in a sample, if they are known already.
    pub(super) uploads: Option<u64>,
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
        workload.run(workload.warm_up())?;
        let uploads = match design.uploads {
            Some(uploads) => uploads,
            None => uploads(workload.as_mut(), design.sample_nanos)?,
        };
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

/// `arm` against `first`, sample by sample.
pub(super) fn against(first: &Arm, arm: &Arm) -> Result<Against> {
    judge(arm.name, &first.nanos, &arm.nanos)
}

/// `arm` against `first`, measured in two halves between which they changed places: one value of each half
/// makes a pair, so that what belongs to a place and not to an arm cancels.
pub(super) fn against_crossed(first: &Arm, arm: &Arm) -> Result<Against> {
    judge(arm.name, &crossed(&first.nanos), &crossed(&arm.nanos))
}

fn crossed(nanos: &[f64]) -> Vec<f64> {
    let (before, after) = nanos.split_at(nanos.len() / 2);
    let pairs = before.iter().zip(after);
    pairs.map(|(a, b)| (a * b).sqrt()).collect()
}

/// `second` against `first`, pair by pair.
pub(super) fn judge(arm: &'static str, first: &[f64], second: &[f64]) -> Result<Against> {
    let judged = judge::paired(first, second, &Question::lower_is_better())?;
    let inverse = |ratio: f64| 1.0 / ratio.max(1e-12);
    Ok(Against {
        arm,
        speedup: judged.estimate.map_or(f64::NAN, inverse),
        low: judged.high.map(inverse),
        high: judged.low.map(inverse),
        verdict: judged.verdict.name(),
        p: judged.p,
        p_adjusted: judged.p_adjusted,
        detectable: judged.detectable,
        judged,
    })
}

/// Corrects the verdicts of comparisons that were made together.
pub(super) fn holm<'a>(comparisons: impl Iterator<Item = &'a mut Against>) {
    let mut all: Vec<&mut Against> = comparisons.collect();
    let mut judged: Vec<Judgement> = all.iter().map(|one| one.judged.clone()).collect();
    judge::holm(&mut judged);
    for (one, judged) in all.iter_mut().zip(judged) {
        one.verdict = judged.verdict.name();
        one.p_adjusted = judged.p_adjusted;
        one.judged = judged;
    }
}

/// Rounds after which one of `rows` comparisons can be proven after [`holm`]: all of n pairs leaning one way have a
/// p-value of 2 in 2^n.
pub(super) fn rounds_to_prove(rows: usize) -> usize {
    let least = 2.0 * rows.max(1) as f64 / 0.05;
    (1..64).find(|n| (1_u64 << n) as f64 >= least).unwrap_or(64)
}

/// Geometric mean.
pub(super) fn geomean(values: impl Iterator<Item = f64>) -> f64 {
    geometric_mean(&values.collect::<Vec<f64>>())
}

fn uploads(workload: &mut dyn Workload, sample_nanos: u64) -> Result<u64> {
    let mut n = workload.least();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(name: &'static str, nanos: Vec<f64>) -> Arm {
        Arm {
            name,
            nanos,
            uploads: 1,
            path: None,
        }
    }

    /// A place that is 10 % slower shows as a loss in halves that are not crossed, and not in those that are.
    #[test]
    fn what_belongs_to_a_place_cancels() {
        let noise = |at: u32| 1.0 + 0.001 * f64::from(at % 5);
        let slow = |at: u32| 110.0 * noise(at);
        let fast = |at: u32| 100.0 * noise(at + 2);
        let first: Vec<f64> = (0..9).map(fast).chain((0..9).map(slow)).collect();
        let second: Vec<f64> = (0..9).map(slow).chain((0..9).map(fast)).collect();
        let (first, second) = (arm("first", first), arm("second", second));
        let crossed = against_crossed(&first, &second).unwrap();
        assert!((crossed.speedup - 1.0).abs() < 0.003, "{crossed:?}");
        assert_ne!(crossed.verdict, "slower");
        let half = |arm: &Arm| arm.nanos[..9].to_vec();
        let plain = judge("second", &half(&first), &half(&second)).unwrap();
        assert_eq!(plain.verdict, "slower");
    }

    /// With one round less, no row can be proven; with so many, a row that always leans one way is.
    #[test]
    fn rounds_that_prove_a_row_are_known() {
        let rows = 52;
        let proven = |rounds: usize| {
            let ramp = |at: usize| 100.0 + at as f64;
            let first = arm("first", (0..rounds).map(ramp).collect());
            let slow = (0..rounds).map(|at| ramp(at) * (1.2 + 0.01 * at as f64));
            let second = arm("second", slow.collect());
            let mut all: Vec<Against> = (0..rows)
                .map(|_| against(&first, &second).unwrap())
                .collect();
            holm(all.iter_mut());
            all[0].verdict == "slower"
        };
        let needed = rounds_to_prove(rows);
        assert_eq!(needed, 12);
        assert!(!proven(needed - 1) && proven(needed));
    }

    /// One in twenty rows looks slower by chance: not after the correction.
    #[test]
    fn rows_are_corrected_for_their_number() {
        let noise: Vec<f64> = (0..10).map(|at| 100.0 + f64::from(at * 7 % 10)).collect();
        let same = arm("first", noise.clone());
        let mut rows: Vec<Against> = (0..40)
            .map(|_| against(&same, &arm("second", noise.iter().rev().copied().collect())).unwrap())
            .collect();
        // Nine of ten pairs a bit slower: 0.02 on its own.
        let mut chance: Vec<f64> = noise.iter().map(|nanos| nanos * 1.01).collect();
        chance[3] *= 0.985;
        rows.push(against(&same, &arm("second", chance)).unwrap());
        assert_eq!(rows[40].verdict, "slower");
        holm(rows.iter_mut());
        assert_ne!(rows[40].verdict, "slower", "{:?}", rows[40]);
    }
}
