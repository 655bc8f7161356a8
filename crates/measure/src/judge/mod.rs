//! From two arms to a verdict: faster, slower, equivalent or inconclusive.
//!
//! Every verdict comes with an interval from inverting the same test, the smallest effect that the data could
//! have shown, and how many more pairs would settle a difference of a given size. No bootstrap takes part: for
//! 5 to 20 pairs its false alarms reach 5.7 to 16 %.

mod paired;
mod sequential;
mod unpaired;

pub use paired::paired;
pub use sequential::{SignProcess, sequential};
pub use unpaired::{smallest_permutation_p, unpaired};

use serde::{Deserialize, Serialize};

use crate::multiple;
use crate::plan;
use crate::sample;

/// Up to so many pairs the exact sign-flip test is used, above it the paired t-test. At twelve pairs the
/// two agree to about a point of power, and 4 096 sets are enumerated in microseconds.
pub const EXACT_PAIRS_MAX: usize = 12;

/// What two arms show about one metric.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// B is proven better than A.
    Faster,
    /// B is proven worse than A.
    Slower,
    /// B is proven to lie within the margin of A.
    Equivalent,
    /// The data carry no claim.
    Inconclusive,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Less is better: times, faults, bytes.
    #[default]
    Lower,
    /// More is better: frames per second.
    Higher,
}

/// On which scale arms are compared.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Ratios B / A, through logarithms; needs positive values, else falls back to differences.
    #[default]
    Ratio,
    /// Differences B - A in the metric's own unit.
    Difference,
}

/// What is asked of the data, decided before looking at them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Which way is better.
    pub direction: Direction,
    /// Largest relative difference that does not matter (0.01 is 1 %); 0: equivalence is not asked for.
    pub margin: f64,
    /// Chance of a false alarm that is accepted.
    pub level: f64,
    /// Ratios or differences.
    pub scale: Scale,
}

impl Question {
    /// Less is better; 5 % level, no margin, ratios.
    #[must_use]
    pub const fn lower_is_better() -> Self {
        Self {
            direction: Direction::Lower,
            margin: 0.0,
            level: 0.05,
            scale: Scale::Ratio,
        }
    }

    /// More is better; 5 % level, no margin, ratios.
    #[must_use]
    pub const fn higher_is_better() -> Self {
        Self {
            direction: Direction::Higher,
            ..Self::lower_is_better()
        }
    }

    /// The question with another margin (0.01 is 1 %).
    #[must_use]
    pub const fn with_margin(self, margin: f64) -> Self {
        Self { margin, ..self }
    }

    /// The question with another level.
    #[must_use]
    pub const fn with_level(self, level: f64) -> Self {
        Self { level, ..self }
    }

    /// The question on another scale.
    #[must_use]
    pub const fn with_scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    fn check(&self) -> crate::Result<()> {
        if !(self.level > 0.0 && self.level < 1.0) {
            let range = "between 0 and 1";
            return Err(crate::Error::Parameter {
                name: "level",
                value: self.level,
                range,
            });
        }
        if !(self.margin >= 0.0 && self.margin.is_finite()) {
            let range = "0 or more";
            return Err(crate::Error::Parameter {
                name: "margin",
                value: self.margin,
                range,
            });
        }
        Ok(())
    }
}

/// How a p-value was found.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Exact sign-flip test of pairs.
    SignFlip,
    /// Paired t-test.
    PairedT,
    /// Welch's t-test of independent runs.
    Welch,
    /// Sign e-process, valid at every look.
    SignProcess,
    /// No test: too few runs, or values that never varied.
    None,
}

impl Method {
    /// The method in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::SignFlip => "exact sign-flip test of the pairs",
            Self::PairedT => "paired t-test",
            Self::Welch => "Welch's t-test of independent runs",
            Self::SignProcess => "sign e-process of the pairs, valid at every look",
            Self::None => "no test",
        }
    }
}

/// Something a reader must know about a judgement.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// Fewer than two runs per arm (or pairs).
    TooFewRuns,
    /// The runs are too few to prove anything at this level, whatever they show.
    CannotProve,
    /// All values of both arms are the same number.
    Identical,
    /// No arm varied, but they differ: there is no noise to test against.
    NeverVaried,
    /// Some value is 0 or negative: differences were judged, relative to the mean of A.
    NotPositive,
}

impl Remark {
    /// The remark in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TooFewRuns => "fewer than two runs per arm",
            Self::CannotProve => "too few runs to prove anything at this level",
            Self::Identical => "all values are identical",
            Self::NeverVaried => "values never varied within an arm",
            Self::NotPositive => "some value is not positive: judged by differences, not ratios",
        }
    }
}

/// What two arms show about one metric, with the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The claim.
    pub verdict: Verdict,
    /// What was asked.
    pub question: Question,
    /// The scale of `estimate`, `low` and `high`.
    pub scale: Scale,
    /// Geometric mean of B / A, or mean (unpaired: difference of means) of B - A. `None` without a pair.
    pub estimate: Option<f64>,
    /// Lower end of the interval at 1 - level; `None` where the data do not bound it.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Arithmetic mean of A.
    pub mean_a: Option<f64>,
    /// Arithmetic mean of B.
    pub mean_b: Option<f64>,
    /// Two-sided p-value of "no difference"; 1 where there was nothing to test.
    pub p: f64,
    /// `p` after [`holm`] over all metrics judged together; equal to `p` before.
    pub p_adjusted: f64,
    /// p-value of "the difference is at least the margin" (two one-sided tests); 1 without a margin.
    pub p_equivalent: f64,
    /// `p_equivalent` after [`holm`].
    pub p_equivalent_adjusted: f64,
    /// How the p-values were found.
    pub method: Method,
    /// Runs of A that count.
    pub runs_a: usize,
    /// Runs of B that count.
    pub runs_b: usize,
    /// Deviation of the pairs' log ratios, or of one arm's logs (unpaired); relative to A for differences.
    pub spread: Option<f64>,
    /// Smallest relative effect that this many runs with this spread find with 80 % probability.
    pub detectable: Option<f64>,
    /// What else must be said.
    pub remarks: Vec<Remark>,
}

impl Judgement {
    /// The judgement of nothing; judges fill it in.
    fn blank(question: &Question, a: &[f64], b: &[f64]) -> Self {
        let mean = |values: &[f64]| (!values.is_empty()).then(|| sample::mean(values));
        Self {
            verdict: Verdict::Inconclusive,
            question: *question,
            scale: question.scale,
            estimate: None,
            low: None,
            high: None,
            mean_a: mean(a),
            mean_b: mean(b),
            p: 1.0,
            p_adjusted: 1.0,
            p_equivalent: 1.0,
            p_equivalent_adjusted: 1.0,
            method: Method::None,
            runs_a: a.len(),
            runs_b: b.len(),
            spread: None,
            detectable: None,
            remarks: Vec::new(),
        }
    }

    /// Sets the smallest effect that would have been found; `planned` is a ratio minus one.
    fn set_detectable(&mut self, planned: Option<f64>) {
        self.detectable = match self.scale {
            Scale::Ratio => planned,
            Scale::Difference => planned.map(libm::log1p),
        };
    }

    /// Takes the scale that the data allow.
    fn choose_scale(&mut self, a: &[f64], b: &[f64]) {
        if self.scale == Scale::Ratio && a.iter().chain(b).any(|&value| value <= 0.0) {
            self.scale = Scale::Difference;
            self.remarks.push(Remark::NotPositive);
        }
    }

    /// The margin on the scale of the test: a log ratio, or a difference in the metric's unit.
    fn test_margin(&self) -> f64 {
        match self.scale {
            Scale::Ratio => libm::log1p(self.question.margin),
            Scale::Difference => self.question.margin * self.mean_a.unwrap_or(0.0).abs(),
        }
    }

    /// From the test's scale (logs) to that of `estimate`.
    fn back(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Ratio => libm::exp(value),
            Scale::Difference => value,
        }
    }

    /// Sets the verdict from the adjusted p-values. A proven difference outranks equivalence: the margin then
    /// says only whether it matters, see [`Judgement::is_beyond_margin`].
    fn decide(&mut self) {
        let level = self.question.level;
        self.verdict = match self.change() {
            Some(change) if self.p_adjusted <= level && change != 0.0 => {
                let is_better = (change < 0.0) == (self.question.direction == Direction::Lower);
                if is_better {
                    Verdict::Faster
                } else {
                    Verdict::Slower
                }
            }
            _ if self.p_equivalent_adjusted <= level => Verdict::Equivalent,
            _ => Verdict::Inconclusive,
        };
    }

    /// B relative to A, minus one (-0.03 is 3 % less); for differences relative to the mean of A where that is not
    /// 0, else the plain difference. `None` without an estimate.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        self.estimate.map(|value| self.relative(value))
    }

    /// Both ends of the interval as changes, like [`Judgement::change`].
    #[must_use]
    pub fn change_interval(&self) -> (Option<f64>, Option<f64>) {
        (
            self.low.map(|value| self.relative(value)),
            self.high.map(|value| self.relative(value)),
        )
    }

    fn relative(&self, value: f64) -> f64 {
        match (self.scale, self.mean_a) {
            (Scale::Ratio, _) => value - 1.0,
            (Scale::Difference, Some(mean)) if mean != 0.0 => value / mean.abs(),
            (Scale::Difference, _) => value,
        }
    }

    /// B / A; `None` if differences were judged and A has mean 0.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        match (self.scale, self.mean_a) {
            (Scale::Difference, Some(0.0) | None) => None,
            _ => self.change().map(|change| 1.0 + change),
        }
    }

    /// Whether the whole interval lies beyond the margin: the difference is not only there, it matters.
    #[must_use]
    pub fn is_beyond_margin(&self) -> bool {
        let margin = self.question.margin;
        let inverse = match self.scale {
            Scale::Ratio => 1.0 / (1.0 + margin) - 1.0,
            Scale::Difference => -margin,
        };
        match (self.verdict, self.change_interval()) {
            (Verdict::Faster | Verdict::Slower, (low, high)) => {
                low.is_some_and(|low| low > margin) || high.is_some_and(|high| high < inverse)
            }
            (Verdict::Equivalent | Verdict::Inconclusive, _) => false,
        }
    }

    /// Whether a regression beyond the margin is proven: what fails a build.
    #[must_use]
    pub fn is_regression(&self) -> bool {
        self.verdict == Verdict::Slower && self.is_beyond_margin()
    }

    /// About how many more pairs (unpaired: runs per arm) would settle whether there is a difference of
    /// `effect` (0.01 is 1 %): 0 if these do, `None` if it is unknown or beyond [`plan::RUNS_MAX`].
    ///
    /// "Settle" means: with 80 % probability the difference is shown if it is there, and equivalence within
    /// it if there is none.
    #[must_use]
    pub fn more_pairs_for(&self, effect: f64) -> Option<usize> {
        let spread = self.spread.filter(|&spread| spread > 0.0 && effect > 0.0)?;
        let level = self.question.level;
        // Plans are made in logs; a difference is taken as it is.
        let effect = if self.scale == Scale::Difference {
            libm::expm1(effect)
        } else {
            effect
        };
        let (have, need) = match self.method {
            Method::Welch => (
                self.runs_a.min(self.runs_b),
                plan::runs_to_settle(effect, spread, level)?,
            ),
            // The sign of a normal pair carries 2 / pi of what its size does.
            Method::SignProcess => (
                self.runs_a,
                plan::pairs_to_settle(effect, spread, level)?.saturating_mul(2),
            ),
            Method::SignFlip | Method::PairedT | Method::None => (
                self.runs_a.min(self.runs_b),
                plan::pairs_to_settle(effect, spread, level)?,
            ),
        };
        Some(need.saturating_sub(have))
    }
}

/// Corrects for judging several metrics together (Holm, at each judgement's own level) and renews the verdicts.
///
/// Differences and equivalences are two families: each keeps its own false-alarm rate.
pub fn holm(judgements: &mut [Judgement]) {
    let different: Vec<f64> = judgements.iter().map(|judgement| judgement.p).collect();
    let equivalent: Vec<f64> = judgements
        .iter()
        .map(|judgement| judgement.p_equivalent)
        .collect();
    let adjusted = multiple::holm(&different)
        .into_iter()
        .zip(multiple::holm(&equivalent));
    for (judgement, (p, p_equivalent)) in judgements.iter_mut().zip(adjusted) {
        judgement.p_adjusted = p;
        judgement.p_equivalent_adjusted = p_equivalent;
        judgement.decide();
    }
}
