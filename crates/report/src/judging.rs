//! From raw runs to judgements.

use std::collections::BTreeMap;

use towpath_measure::judge::{self, Judgement};
use towpath_measure::{Arm, Verdict};

use crate::result::{Metric, MetricJudgement, Pairing, ResultFile, Run, RunOutcome, Stop};

/// What should make a build fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FailOn {
    /// A proven regression beyond the margin.
    Regression,
    /// Also a proven regression within the margin.
    AnyRegression,
    /// A proven regression beyond the margin, or no verdict.
    Inconclusive,
    /// Nothing.
    Never,
}

impl FailOn {
    /// All words and what they mean.
    pub const WORDS: [(&str, Self); 4] = [
        ("regression", Self::Regression),
        ("any-regression", Self::AnyRegression),
        ("inconclusive", Self::Inconclusive),
        ("never", Self::Never),
    ];

    /// The meaning of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(name, _)| *name == word)
            .map(|&(_, meaning)| meaning)
    }
}

/// The values of one metric, ready to be judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Of A; with pairs in the order of B's.
    pub a: Vec<f64>,
    /// Of B.
    pub b: Vec<f64>,
    /// Pairs (unpaired: runs) that could not be used.
    pub left_out: usize,
}

impl ResultFile {
    /// The values of a metric in A and B: whole pairs only, or all runs if they are independent.
    #[must_use]
    pub fn values(&self, metric: &str) -> Values {
        self.values_of(metric, Arm::B)
    }

    /// As [`ResultFile::values`], of A and another arm.
    #[must_use]
    pub fn values_of(&self, metric: &str, arm: Arm) -> Values {
        match self.design.pairing {
            Pairing::Paired => self.paired_values(metric, arm),
            Pairing::Unpaired => {
                let of = |arm| -> Vec<f64> {
                    let runs = self.runs.iter().filter(|run| run.arm == arm);
                    runs.filter_map(|run| run.value(metric)).collect()
                };
                let runs = self.runs.iter();
                let runs = runs.filter(|run| run.arm == Arm::A || run.arm == arm);
                let (a, b) = (of(Arm::A), of(arm));
                let left_out = runs.count() - a.len() - b.len();
                Values { a, b, left_out }
            }
        }
    }

    fn paired_values(&self, metric: &str, arm: Arm) -> Values {
        let mut pairs: BTreeMap<(usize, usize), [Option<f64>; 2]> = BTreeMap::new();
        let of_both = |run: &&Run| run.arm == Arm::A || run.arm == arm;
        for run in self.runs.iter().filter(of_both) {
            let [a, b] = pairs.entry((run.block, run.pair)).or_default();
            let place = if run.arm == Arm::A { a } else { b };
            *place = run.value(metric);
        }
        let mut values = Values::default();
        for pair in pairs.values() {
            if let [Some(a), Some(b)] = pair {
                values.a.push(*a);
                values.b.push(*b);
            } else {
                values.left_out += 1;
            }
        }
        values
    }

    /// Judges all metrics anew from the raw runs.
    ///
    /// A declared primary metric is judged alone, at the full level; the others are corrected together (Holm).
    /// Without one all are corrected together. With a third arm, B and C are both compared with A, and the primary
    /// metric's two comparisons are corrected together. Informative metrics get no judgement, nor does any metric of
    /// a design that only describes. With the stop rule
    /// `until-proven` the e-process judges every metric, since the number of pairs depends on the data.
    ///
    /// # Errors
    ///
    /// As the judges of `towpath-measure`.
    pub fn judge(&mut self) -> towpath_measure::Result<()> {
        let mut judged = Vec::new();
        if self.design.is_described {
            self.judgements.clear();
            return Ok(());
        }
        let metrics = self.metrics.iter().filter(|metric| !metric.is_informative);
        let others = self.arms().get(1..).unwrap_or_default();
        for (metric, &arm) in metrics.flat_map(|metric| others.iter().map(move |arm| (metric, arm)))
        {
            let values = self.values_of(&metric.name, arm);
            let judgement = self.judge_metric(metric, &values)?;
            let is_primary = self.design.primary.as_ref() == Some(&metric.name);
            let left_out = values.left_out;
            judged.push(MetricJudgement {
                metric: metric.name.clone(),
                arm,
                is_primary,
                judgement,
                left_out,
            });
        }
        correct(&mut judged);
        self.judgements = judged;
        Ok(())
    }

    fn judge_metric(&self, metric: &Metric, values: &Values) -> towpath_measure::Result<Judgement> {
        let question = self.question(metric);
        match (self.design.pairing, self.design.stop) {
            (Pairing::Unpaired, _) => judge::unpaired(&values.a, &values.b, &question),
            (Pairing::Paired, Stop::UntilProven { .. }) => {
                judge::sequential(&values.a, &values.b, &question)
            }
            (Pairing::Paired, _) => judge::paired(&values.a, &values.b, &question),
        }
    }

    /// The judgements that decide over success: the primary metric's, or all.
    pub fn deciding(&self) -> impl Iterator<Item = &MetricJudgement> {
        let has_primary = self.judgements.iter().any(|judged| judged.is_primary);
        self.judgements
            .iter()
            .filter(move |judged| judged.is_primary || !has_primary)
    }

    /// The exit code of `ab`, `compare` and `frames`: 0 no proven regression, 2 a proven regression beyond the margin
    /// (with `any-regression` also within it), 3 inconclusive (only where that was asked for).
    #[must_use]
    pub fn exit_code(&self, fail_on: FailOn) -> u8 {
        let any =
            |is: &dyn Fn(&Judgement) -> bool| self.deciding().any(|judged| is(&judged.judgement));
        let regression = match fail_on {
            FailOn::Never => return 0,
            FailOn::AnyRegression => any(&|judged| judged.verdict == Verdict::Slower),
            FailOn::Regression | FailOn::Inconclusive => any(&Judgement::is_regression),
        };
        if regression {
            return 2;
        }
        let is_undecided =
            self.judgements.is_empty() || any(&|judged| judged.verdict == Verdict::Inconclusive);
        if fail_on == FailOn::Inconclusive && is_undecided {
            3
        } else {
            0
        }
    }

    /// Runs of an arm that did not finish, by how they ended.
    #[must_use]
    pub fn failures(&self, arm: Arm) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.arm == arm) {
            if run.outcome != RunOutcome::Finished {
                *counts.entry(run.outcome.text()).or_insert(0) += 1;
            }
        }
        counts
    }
}

/// Holm over the primary metric's comparisons, which is one unless there are three arms, and over all others.
fn correct(judged: &mut [MetricJudgement]) {
    for is_primary in [true, false] {
        correct_family(judged, is_primary);
    }
}

fn correct_family(judged: &mut [MetricJudgement], is_primary: bool) {
    let places: Vec<usize> = (0..judged.len())
        .filter(|&i| {
            judged
                .get(i)
                .is_some_and(|one| one.is_primary == is_primary)
        })
        .collect();
    let mut family: Vec<Judgement> = judged
        .iter()
        .filter(|one| one.is_primary == is_primary)
        .map(|one| one.judgement.clone())
        .collect();
    judge::holm(&mut family);
    for (place, corrected) in places.into_iter().zip(family) {
        if let Some(one) = judged.get_mut(place) {
            one.judgement = corrected;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use towpath_measure::judge::Direction;

    use super::*;
    use crate::result::{Run, SCHEMA_AB};

    /// Eight pairs in which B's wall time is about 4 % lower, and its memory the same.
    pub(crate) fn example() -> ResultFile {
        let mut file = ResultFile::new(SCHEMA_AB, "toy --frames 100");
        "2026-11-30T12:00:00Z".clone_into(&mut file.started);
        "0.1.0".clone_into(&mut file.towpath);
        file.metrics = vec![
            Metric::new(
                "wall",
                "s",
                Direction::Lower,
                "from start to end of the program",
            ),
            Metric::new("memory", "bytes", Direction::Lower, "peak resident memory"),
        ];
        "off".clone_into(&mut file.a.label);
        "on".clone_into(&mut file.b.label);
        file.design.seed = Some(42);
        file.design.margin = 0.01;
        file.design.stop = Stop::Pairs { pairs: 8 };
        let noise = [0.0, 0.004, -0.003, 0.002, -0.001, 0.005, -0.004, 0.001];
        for (pair, noise) in noise.into_iter().enumerate() {
            let order = towpath_measure::design::order(42, 8)[pair];
            for (place, arm) in order.into_iter().enumerate() {
                let mut run = Run::new(arm, pair);
                run.started_s = Some((pair * 2 + place) as f64 * 2.5);
                let base = if arm == Arm::A { 2.0 } else { 1.92 };
                run.read("wall", base * (1.0 + noise));
                run.read(
                    "memory",
                    1e8 * (1.0 + noise * if arm == Arm::A { 0.1 } else { -0.1 }),
                );
                file.runs.push(run);
            }
        }
        file.judge().unwrap();
        file
    }

    #[test]
    fn raw_runs_are_judged_and_corrected() {
        let file = example();
        let [wall, memory] = &file.judgements[..] else {
            panic!("two metrics")
        };
        assert_eq!(wall.judgement.verdict, Verdict::Faster);
        assert!((wall.judgement.p_adjusted - 2.0 * wall.judgement.p).abs() < 1e-12);
        assert_eq!(memory.judgement.verdict, Verdict::Equivalent);
        assert_eq!(file.exit_code(FailOn::Regression), 0);
        assert_eq!(file.exit_code(FailOn::Inconclusive), 0);
    }

    #[test]
    fn a_primary_metric_pays_no_correction_and_decides_alone() {
        let mut file = example();
        file.design.primary = Some("wall".to_owned());
        file.judge().unwrap();
        let wall = &file.judgements[0];
        assert!(wall.is_primary && (wall.judgement.p_adjusted - wall.judgement.p).abs() < 1e-15);
        assert_eq!(file.deciding().count(), 1);
        assert_eq!(file.headline().unwrap().metric, "wall");
    }

    #[test]
    fn failed_runs_are_counted_and_their_pair_is_left_out() {
        let mut file = example();
        file.runs[3].outcome = RunOutcome::Failed { code: 3 };
        file.runs[5].cannot_read("memory", "no permission");
        file.judge().unwrap();
        assert_eq!(
            (file.judgements[0].left_out, file.judgements[1].left_out),
            (1, 2)
        );
        assert_eq!(file.judgements[0].judgement.runs_a, 7);
        let arm = file.runs[3].arm;
        assert_eq!(file.failures(arm).get("ended with code 3"), Some(&1));
    }

    #[test]
    fn exit_codes_are_those_of_the_design() {
        let mut file = example();
        for run in &mut file.runs {
            run.arm = run.arm.other();
        }
        file.judge().unwrap();
        assert_eq!(file.exit_code(FailOn::Regression), 2);
        assert_eq!(file.exit_code(FailOn::Never), 0);
        file.design.margin = 0.2;
        file.judge().unwrap();
        assert_eq!(file.exit_code(FailOn::Regression), 0, "4 % is inside 20 %");
        assert_eq!(file.exit_code(FailOn::AnyRegression), 2);
        file.runs.truncate(4);
        file.judge().unwrap();
        assert_eq!(file.exit_code(FailOn::Inconclusive), 3);
    }

    #[test]
    fn a_result_file_survives_json_and_a_strange_one_is_refused() {
        let mut file = example();
        file.runs[0].cannot_read("wall", "why not");
        file.runs[1].read("wall", f64::INFINITY);
        file.judge().unwrap();
        let back = ResultFile::from_json(file.to_json().unwrap().as_bytes()).unwrap();
        assert_eq!(back, file);
        let newer = file
            .to_json()
            .unwrap()
            .replace("towpath.ab/1", "towpath.ab/9");
        let error = ResultFile::from_json(newer.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "schema `towpath.ab/9` is not known to this version of towpath"
        );
        assert!(ResultFile::from_json(b"{}").is_err());
    }
}
