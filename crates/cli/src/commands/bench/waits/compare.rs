//! Two ways of waiting, one against the other.

use anyhow::Result;
use serde::Serialize;
use towpath_measure::judge::{self, Question};
use towpath_measure::sample::median;

/// Relative difference of round trips that does not matter.
const MARGIN: f64 = 0.1;

/// Pairs of samples and what they prove.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// What was done, and on which cores.
    what: String,
    against: &'static str,
    unit: &'static str,
    peer: Vec<f64>,
    timeline: Vec<f64>,
    /// The timelines' median over the peer's.
    median_ratio: f64,
    verdict: &'static str,
    change_percent: Option<f64>,
    /// The interval of the ratio at 95 %.
    low: Option<f64>,
    high: Option<f64>,
    p: f64,
    /// p-value of "they differ by 10 % or more".
    p_equivalent: f64,
}

impl Comparison {
    /// Judges pairs; less is better.
    ///
    /// # Errors
    ///
    /// If there are no pairs.
    pub(super) fn new(
        what: String,
        against: &'static str,
        peer: Vec<f64>,
        timeline: Vec<f64>,
    ) -> Result<Self> {
        let question = Question::lower_is_better().with_margin(MARGIN);
        let judged = judge::paired(&peer, &timeline, &question)?;
        Ok(Self {
            what,
            against,
            unit: "us",
            median_ratio: median(&timeline) / median(&peer),
            verdict: judged.verdict.name(),
            change_percent: judged.change().map(|change| change * 100.0),
            low: judged.low,
            high: judged.high,
            p: judged.p,
            p_equivalent: judged.p_equivalent,
            peer,
            timeline,
        })
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "  {}: timeline {:.2} us, {} {:.2} us, ratio of medians {:.3}: {} ({:+.1} %, p {:.4})",
            self.what,
            median(&self.timeline),
            self.against,
            median(&self.peer),
            self.median_ratio,
            self.verdict,
            self.change_percent.unwrap_or(f64::NAN),
            self.p
        )
    }
}
