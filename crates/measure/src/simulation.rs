//! Simulated experiments that hold each way to a verdict to what it promises.
//!
//! `tests/false_alarms.rs` runs them at a size for every day, `examples/false_alarms.rs` at full size.

use crate::bootstrap;
use crate::design::order;
use crate::error::{Arm, Result};
use crate::judge::{self, Judgement, Question, Verdict};
use crate::plan;
use crate::random::Random;

/// A way to a verdict, with data in which a claim would be false.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// Pairs, exact sign-flip test: 8 pairs.
    SignFlip,
    /// Pairs, paired t-test: 20 pairs.
    PairedT,
    /// Pairs with noise of heavy tails (lognormal with rare spikes), as programs have it.
    PairedSpikes,
    /// Pairs on a machine that slows down by 3 % from the first run to the last.
    PairedDrift,
    /// Independent runs, 10 per arm.
    Welch,
    /// Independent runs, 4 and 9, with spreads 1 to 3.
    WelchUneven,
    /// 20 metrics after Holm, 12 pairs; any claim is a false one.
    TwentyMetrics,
    /// The e-process, looked at after each of 200 pairs.
    UntilProven,
    /// The e-process under 3 % drift.
    UntilProvenDrift,
    /// A difference of exactly the margin must not be called equivalent: 20 pairs.
    Equivalent,
    /// The same with the exact test: 10 pairs.
    EquivalentExact,
    /// The same with the e-process at every look.
    EquivalentUntilProven,
    /// Counts with many zeros and ties, judged by differences: 10 pairs.
    Counts,
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::SignFlip,
        Self::PairedT,
        Self::PairedSpikes,
        Self::PairedDrift,
        Self::Welch,
        Self::WelchUneven,
        Self::TwentyMetrics,
        Self::UntilProven,
        Self::UntilProvenDrift,
        Self::Equivalent,
        Self::EquivalentExact,
        Self::EquivalentUntilProven,
        Self::Counts,
    ];

    /// Makes one experiment and says whether it ended in a false claim.
    fn is_false_alarm(self, random: &mut Random) -> Result<bool> {
        let question = Question::lower_is_better();
        let claims = |judged: &Judgement| judged.verdict != Verdict::Inconclusive;
        match self {
            Self::SignFlip => Ok(claims(&pairs(random, 8, 0.0, 0.0)?)),
            Self::PairedT => Ok(claims(&pairs(random, 20, 0.0, 0.0)?)),
            Self::PairedDrift => Ok(claims(&pairs(random, 10, 0.03, 0.0)?)),
            Self::PairedSpikes => {
                let (a, b) = (spiky(random, 16), spiky(random, 16));
                Ok(claims(&judge::paired(&a, &b, &question)?))
            }
            Self::Welch => {
                let (a, b) = (runs(random, 10, 0.01), runs(random, 10, 0.01));
                Ok(claims(&judge::unpaired(&a, &b, &question)?))
            }
            Self::WelchUneven => {
                let (a, b) = (runs(random, 4, 0.01), runs(random, 9, 0.03));
                Ok(claims(&judge::unpaired(&a, &b, &question)?))
            }
            Self::TwentyMetrics => {
                let judged: Result<Vec<_>> = (0..20).map(|_| pairs(random, 12, 0.0, 0.0)).collect();
                let mut judged = judged?;
                judge::holm(&mut judged);
                Ok(judged.iter().any(claims))
            }
            Self::UntilProven | Self::UntilProvenDrift => {
                let drift = if self == Self::UntilProven { 0.0 } else { 0.03 };
                let (a, b) = session(random, 200, drift, 0.0);
                Ok(judge::sequential(&a, &b, &question)?.p <= question.level)
            }
            Self::Equivalent | Self::EquivalentExact => {
                let count = if self == Self::Equivalent { 20 } else { 10 };
                let (a, b) = session(random, count, 0.0, 0.01);
                let judged = judge::paired(&a, &b, &question.with_margin(0.01))?;
                Ok(judged.p_equivalent <= question.level)
            }
            Self::EquivalentUntilProven => {
                let (a, b) = session(random, 200, 0.0, 0.01);
                let judged = judge::sequential(&a, &b, &question.with_margin(0.01))?;
                Ok(judged.p_equivalent <= question.level)
            }
            Self::Counts => {
                let mut count = || (random.uniform() * random.uniform() * 6.0).floor();
                let a: Vec<f64> = (0..10).map(|_| count()).collect();
                let b: Vec<f64> = (0..10).map(|_| count()).collect();
                Ok(claims(&judge::paired(&a, &b, &question)?))
            }
        }
    }

    /// The share of `experiments` that ended in a false claim.
    ///
    /// # Errors
    ///
    /// None but bugs: the data are finite.
    pub fn false_alarms(self, experiments: usize, seed: u64) -> Result<f64> {
        let mut random = Random::new(seed ^ (self as u64) << 32);
        let mut false_ones = 0;
        for _ in 0..experiments {
            false_ones += usize::from(self.is_false_alarm(&mut random)?);
        }
        Ok(false_ones as f64 / experiments as f64)
    }
}

/// Runs of one arm with a given coefficient of variation.
fn runs(random: &mut Random, count: usize, variation: f64) -> Vec<f64> {
    (0..count)
        .map(|_| 10.0 * libm::exp(variation * random.normal()))
        .collect()
}

/// Runs of which one in ten took up to half as long again.
fn spiky(random: &mut Random, count: usize) -> Vec<f64> {
    let mut values = runs(random, count, 0.01);
    for value in &mut values {
        if random.below(10) == 0 {
            *value *= 1.0 + 0.5 * random.uniform();
        }
    }
    values
}

/// A session of pairs in the order that `ab` uses: 1 % noise, a linear drift, an effect of B.
fn session(random: &mut Random, count: usize, drift: f64, effect: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut a, mut b) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let last = (2 * count).saturating_sub(1).max(1) as f64;
    let mut place = 0.0;
    for pair in order(random.next_u64(), count) {
        for arm in pair {
            let level = 10.0 * (1.0 + drift * place / last);
            let value = level * libm::exp(0.01 * random.normal());
            place += 1.0;
            match arm {
                Arm::A => a.push(value),
                Arm::B | Arm::C => b.push(value * (1.0 + effect)),
            }
        }
    }
    (a, b)
}

fn pairs(random: &mut Random, count: usize, drift: f64, effect: f64) -> Result<Judgement> {
    let (a, b) = session(random, count, drift, effect);
    judge::paired(&a, &b, &Question::lower_is_better())
}

/// Promised and simulated power of `pairs` pairs whose log ratios have deviation `spread` for a true `effect`.
///
/// # Errors
///
/// None but bugs.
pub fn power(
    pairs: usize,
    spread: f64,
    effect: f64,
    experiments: usize,
    seed: u64,
) -> Result<(f64, f64)> {
    let mut random = Random::new(seed);
    let mut found = 0;
    for _ in 0..experiments {
        let a = vec![10.0; pairs];
        let ratios = (0..pairs).map(|_| (1.0 + effect) * libm::exp(spread * random.normal()));
        let b: Vec<f64> = ratios.map(|ratio| 10.0 * ratio).collect();
        let judged = judge::paired(&a, &b, &Question::lower_is_better())?;
        found += usize::from(judged.verdict == Verdict::Slower);
    }
    Ok((
        plan::power(pairs, spread, effect, 0.05),
        found as f64 / experiments as f64,
    ))
}

/// Promised and simulated power of two independent arms.
///
/// # Errors
///
/// None but bugs.
pub fn power_unpaired(
    runs_per_arm: usize,
    spread: f64,
    effect: f64,
    experiments: usize,
    seed: u64,
) -> Result<(f64, f64)> {
    let mut random = Random::new(seed);
    let mut found = 0;
    for _ in 0..experiments {
        let a = runs(&mut random, runs_per_arm, spread);
        let mut b = runs(&mut random, runs_per_arm, spread);
        for value in &mut b {
            *value *= 1.0 + effect;
        }
        let judged = judge::unpaired(&a, &b, &Question::lower_is_better())?;
        found += usize::from(judged.verdict == Verdict::Slower);
    }
    let promised = plan::power_unpaired(runs_per_arm, runs_per_arm, spread, effect, 0.05);
    Ok((promised, found as f64 / experiments as f64))
}

/// How often the block bootstrap's interval holds the true mean of an AR(1) series of frames (lag-1 correlation
/// `rho`), at 95 %.
///
/// # Errors
///
/// None but bugs.
pub fn frame_coverage(rho: f64, frames: usize, experiments: usize, seed: u64) -> Result<f64> {
    let mut random = Random::new(seed);
    let mut held = 0;
    for _ in 0..experiments {
        let mut state = random.normal() / (1.0 - rho * rho).sqrt();
        let series: Vec<f64> = (0..frames)
            .map(|_| {
                state = rho * state + random.normal();
                16.0 + state
            })
            .collect();
        let block = bootstrap::block_length(&series);
        let means = bootstrap::block_means(&series, block, 999, random.next_u64());
        let interval = bootstrap::percentile(&means, 0.05);
        held += usize::from(interval.low <= 16.0 && 16.0 <= interval.high);
    }
    Ok(held as f64 / experiments as f64)
}
