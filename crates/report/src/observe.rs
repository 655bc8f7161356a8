//! What the runs show beside the verdict: drift of the machine, warm-up, runs far from the others. Marks only.

use std::collections::BTreeSet;

use towpath_measure::drift::{self, Course};
use towpath_measure::judge::{Direction, smallest_permutation_p};
use towpath_measure::{Arm, prediction};

use crate::numbers::{p_value, percent, with_unit};
use crate::result::{Pairing, Reading, ResultFile, Run};
use crate::sentence;

/// Notes on the headline's metric; empty if nothing is remarkable.
///
/// Computed anew each time, so that they always belong to the runs as they are.
#[must_use]
pub fn notes(file: &ResultFile) -> Vec<String> {
    let mut notes = unavailable(file);
    let Some(headline) = file.headline() else {
        return notes;
    };
    let metric = headline.metric.as_str();
    notes.extend(order(file));
    for &arm in file.arms() {
        let runs: Vec<(usize, &Run, f64)> = file
            .runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.arm == arm)
            .filter_map(|(place, run)| Some((place, run, run.value(metric)?)))
            .collect();
        notes.extend(trend(file, arm, metric, &runs));
        notes.extend(course(file, arm, metric, &runs));
        notes.extend(outliers(file, arm, metric, &runs));
    }
    notes.extend(ranks(file));
    notes.extend(marked(file));
    notes.extend(one_new_value(file, metric));
    notes
}

/// Metrics that no run has, with the first reason: not to be had is not 0.
fn unavailable(file: &ResultFile) -> Vec<String> {
    let reason = |metric: &crate::Metric| {
        let readings = || {
            file.runs
                .iter()
                .filter_map(|run| run.readings.get(&metric.name))
        };
        if readings().any(|reading| matches!(reading, Reading::Value { .. })) {
            return None;
        }
        readings().find_map(|reading| match reading {
            Reading::Unavailable { unavailable } => {
                Some(format!("{} is unavailable: {unavailable}", metric.name))
            }
            Reading::Value { .. } => None,
        })
    };
    file.metrics.iter().filter_map(reason).take(12).collect()
}

/// What a test of ranks could prove at best: with 3 + 3 runs nothing, however far apart they lie.
fn ranks(file: &ResultFile) -> Option<String> {
    if file.design.pairing == Pairing::Paired {
        return None;
    }
    let metrics = file.judgements.len().max(1);
    let best = |runs: usize| smallest_permutation_p(runs, runs) * metrics as f64;
    let judged = file.headline()?;
    let (a, b) = (judged.judgement.runs_a, judged.judgement.runs_b);
    let smallest = smallest_permutation_p(a, b) * metrics as f64;
    if a.min(b) < 2 || smallest <= file.design.level {
        return None;
    }
    let enough = (2..100).find(|&runs| best(runs) <= file.design.level)?;
    let together = if metrics > 1 {
        format!(" about {metrics} metrics together")
    } else {
        String::new()
    };
    Some(format!(
        "by ranks {a} + {b} runs cannot prove anything{together} (p is {} at best), {enough} + {enough} can (p {})",
        p_value(smallest.min(1.0)),
        p_value(best(enough))
    ))
}

/// Marked runs count; what is left without them stands beside.
fn marked(file: &ResultFile) -> Vec<String> {
    let marks: BTreeSet<&str> = file
        .runs
        .iter()
        .flat_map(|run| run.marks.iter().map(String::as_str))
        .collect();
    marks
        .into_iter()
        .take(4)
        .map(|mark| one_mark(file, mark))
        .collect()
}

fn one_mark(file: &ResultFile, mark: &str) -> String {
    let metric = file.headline().map(|judged| judged.metric.as_str());
    let has_it = |run: &Run| run.marks.iter().any(|other| other == mark);
    let count = file.runs.iter().filter(|run| has_it(run)).count();
    let head = format!(
        "{count} of {} runs are marked `{mark}` and count",
        file.runs.len()
    );
    if count == file.runs.len() {
        return format!("{head}: there is none without it to compare with");
    }
    let mut without = file.clone();
    without.runs.retain(|run| !has_it(run));
    let verdict = match without.judge() {
        Ok(()) => without
            .judgements
            .iter()
            .find(|judged| Some(judged.metric.as_str()) == metric)
            .map(|headline| sentence::verdict(&without, headline)),
        Err(_) => None,
    };
    verdict.map_or_else(
        || format!("{head}; without them nothing can be judged"),
        |verdict| format!("{head}; without them: {verdict}"),
    )
}

/// One value against several: whether it is one that they could have given.
fn one_new_value(file: &ResultFile, metric: &str) -> Option<String> {
    if file.design.pairing == Pairing::Paired {
        return None;
    }
    let values = file.values(metric);
    let (known, new, of, whose) = match (&values.a[..], &values.b[..]) {
        (known, [new]) if known.len() > 2 => (known, new, &file.a.label, &file.b.label),
        ([new], known) if known.len() > 2 => (known, new, &file.b.label, &file.a.label),
        _ => return None,
    };
    let (low, high) = prediction::interval(known, file.design.level)?;
    let unit = file
        .metric(metric)
        .map_or("", |metric| metric.unit.as_str());
    let place = if (low..=high).contains(new) {
        "inside"
    } else {
        "outside"
    };
    Some(format!(
        "the one value of {whose} ({}) lies {place} the range in which a further run of {of} falls with {} probability \
         ({} to {}, from {} runs); one run is no proof",
        with_unit(*new, unit),
        percent(1.0 - file.design.level).trim_start_matches('+'),
        with_unit(low, unit),
        with_unit(high, unit),
        known.len(),
    ))
}

/// Whether the order of runs can tell a difference of the arms from a drift of the machine.
fn order(file: &ResultFile) -> Option<String> {
    let arms: Vec<Arm> = file.runs.iter().map(|run| run.arm).collect();
    let changes = arms
        .windows(2)
        .filter(|pair| pair.first() != pair.last())
        .count();
    let is_measured_here = file.design.pairing == Pairing::Paired
        && file.runs.iter().any(|run| run.started_s.is_some());
    (is_measured_here && arms.len() >= 4 && changes <= 1).then(|| {
        "all runs of one arm came before the other's: a drift of the machine cannot be told from a difference".to_owned()
    })
}

fn trend(file: &ResultFile, arm: Arm, metric: &str, runs: &[(usize, &Run, f64)]) -> Option<String> {
    let times: Vec<f64> = runs
        .iter()
        .map(|(place, run, _)| run.started_s.unwrap_or(*place as f64))
        .collect();
    // Blocks have clocks of their own.
    let is_one_block = runs.iter().all(|(_, run, _)| run.block == 0);
    let values: Vec<f64> = runs.iter().map(|(_, _, value)| *value).collect();
    let trend = drift::trend(&times, &values).filter(|trend| is_one_block && trend.p < 0.01)?;
    let span = times.last()? - times.first()?;
    let share = trend.slope * span / towpath_measure::sample::mean(&values).abs();
    Some(format!(
        "drift: {metric} of {} changed by {} from the first to the last run (p = {})",
        file.arm(arm).label,
        percent(share),
        p_value(trend.p)
    ))
}

fn course(
    file: &ResultFile,
    arm: Arm,
    metric: &str,
    runs: &[(usize, &Run, f64)],
) -> Option<String> {
    let is_lower = file
        .metric(metric)
        .is_none_or(|metric| metric.better == Direction::Lower);
    let signed = runs
        .iter()
        .map(|(_, _, value)| if is_lower { *value } else { -value });
    let label = &file.arm(arm).label;
    match drift::course(&signed.collect::<Vec<_>>()) {
        Course::WarmUp { steady_from } => Some(format!(
            "{label} looks like a warm-up: its runs are steady from the {}. on",
            steady_from + 1
        )),
        Course::SlowDown { steady_from } => Some(format!(
            "{label} got worse from its {}. run on: heat, a full disk, another load",
            steady_from + 1
        )),
        Course::Flat | Course::NoSteadyState => None,
    }
}

fn outliers(file: &ResultFile, arm: Arm, metric: &str, runs: &[(usize, &Run, f64)]) -> Vec<String> {
    let values: Vec<f64> = runs.iter().map(|(_, _, value)| *value).collect();
    let unit = file
        .metric(metric)
        .map_or("", |metric| metric.unit.as_str());
    let found = drift::outliers(&values);
    if values.len() < 5 {
        return Vec::new();
    }
    let describe = |(index, score): &(usize, f64)| {
        let (place, run, value) = runs.get(*index)?;
        let at = run
            .started_s
            .map(|at| format!(" at {at:.1} s"))
            .unwrap_or_default();
        let state = if run.notes.is_empty() {
            String::new()
        } else {
            format!(" ({})", run.notes.join("; "))
        };
        Some(format!(
            "run {}{at} of {} stands out: {metric} {}, {score:+.1} deviations{state}; it counts",
            place + 1,
            file.arm(arm).label,
            with_unit(*value, unit),
        ))
    };
    found.iter().filter_map(describe).take(5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;
    use crate::result::{Metric, Run, SCHEMA_AB};
    use towpath_measure::Verdict;

    /// A command that slows down by 0.3 % with each call, measured in a given order of arms.
    fn slowing(order: &[Arm]) -> ResultFile {
        let mut file = ResultFile::new(SCHEMA_AB, "slows down");
        file.metrics = vec![Metric::new("wall", "s", Direction::Lower, "")];
        let mut counts = [0, 0];
        for (call, &arm) in order.iter().enumerate() {
            let count = &mut counts[usize::from(arm == Arm::B)];
            let mut run = Run::new(arm, *count);
            *count += 1;
            run.started_s = Some(call as f64);
            run.read("wall", libm::pow(1.003, call as f64));
            file.runs.push(run);
        }
        file.judge().unwrap();
        file
    }

    #[test]
    fn runs_one_arm_after_the_other_are_flagged_as_drift_and_alternated_ones_are_not_fooled() {
        let aabb: Vec<Arm> = (0..20)
            .map(|call| if call < 10 { Arm::A } else { Arm::B })
            .collect();
        let flagged = notes(&slowing(&aabb)).join("\n");
        assert!(
            flagged.contains("cannot be told from a difference"),
            "{flagged}"
        );
        assert!(
            flagged.contains("drift: wall of A changed by +2.") && flagged.contains("of B"),
            "{flagged}"
        );
        let abba: Vec<Arm> = (0..10)
            .flat_map(|pair| {
                if pair % 2 == 0 {
                    [Arm::A, Arm::B]
                } else {
                    [Arm::B, Arm::A]
                }
            })
            .collect();
        let file = slowing(&abba);
        assert_eq!(file.judgements[0].judgement.verdict, Verdict::Inconclusive);
        let noted = notes(&file).join("\n");
        assert!(
            noted.contains("drift") && !noted.contains("cannot be told"),
            "{noted}"
        );
    }

    #[test]
    fn steady_runs_have_no_notes_and_a_strange_one_is_named_and_kept() {
        let mut file = example();
        file.design.primary = Some("wall".to_owned());
        file.judge().unwrap();
        assert!(notes(&file).is_empty(), "{:?}", notes(&file));
        file.runs[4].read("wall", 9.0);
        file.runs[4].notes.push("load 7.2".to_owned());
        file.judge().unwrap();
        let noted = notes(&file).join("\n");
        assert!(
            noted.contains("run 5 at 10.0 s of") && noted.contains("(load 7.2); it counts"),
            "{noted}"
        );
        assert_eq!(file.judgements[0].judgement.runs_a, 8);
    }

    /// nvbench#231: a filter for throttled samples dropped all of them, and a warm machine measured nothing.
    #[test]
    fn marked_runs_are_kept_and_shown_with_and_without() {
        let mut file = example();
        file.design.primary = Some("wall".to_owned());
        for run in &mut file.runs {
            run.marks.push("throttled".to_owned());
        }
        file.judge().unwrap();
        assert_eq!(file.judgements[0].judgement.runs_a, 8, "none was dropped");
        let noted = notes(&file).join("\n");
        assert!(
            noted.contains("16 of 16 runs are marked `throttled` and count: there is none"),
            "{noted}"
        );
        for run in &mut file.runs {
            run.marks.clear();
            if run.pair < 2 && run.arm == Arm::B {
                run.marks.push("throttled".to_owned());
                run.read("wall", 2.5);
            }
        }
        file.judge().unwrap();
        assert_eq!(file.judgements[0].judgement.verdict, Verdict::Inconclusive);
        let noted = notes(&file).join("\n");
        assert!(
            noted.contains("2 of 16 runs are marked `throttled` and count; without them: wall: on is better than off"),
            "{noted}"
        );
    }

    /// bencher#795: the interval of a mean was used to judge one new value.
    #[test]
    fn one_new_value_is_held_against_the_range_of_values_not_of_their_mean() {
        let mut file = ResultFile::new(crate::result::SCHEMA_COMPARE, "new");
        file.design.pairing = Pairing::Unpaired;
        file.metrics = vec![Metric::new("time", "s", Direction::Lower, "")];
        for (place, value) in [10.0, 10.4, 9.6, 10.2, 9.8, 10.1, 9.9, 10.3]
            .into_iter()
            .enumerate()
        {
            let mut run = Run::new(Arm::A, place);
            run.read("time", value);
            file.runs.push(run);
        }
        let mut new = Run::new(Arm::B, 0);
        // Outside of the mean's interval (about 9.8 to 10.3), inside that of values (about 9.4 to 10.7).
        new.read("time", 10.5);
        file.runs.push(new);
        file.judge().unwrap();
        assert_eq!(file.judgements[0].judgement.verdict, Verdict::Inconclusive);
        let noted = notes(&file).join("\n");
        assert!(
            noted.contains("the one value of B (10.50 s) lies inside the range"),
            "{noted}"
        );
        file.runs[8].read("time", 11.5);
        file.judge().unwrap();
        let noted = notes(&file).join("\n");
        assert!(
            noted.contains("lies outside") && noted.contains("one run is no proof"),
            "{noted}"
        );
        assert_eq!(file.judgements[0].judgement.verdict, Verdict::Inconclusive);
    }

    /// The table of seed 000, three runs per arm: what Welch and Holm say of it, and what ranks never could.
    #[test]
    fn three_runs_prove_nothing_by_ranks_and_five_can() {
        let mut file = ResultFile::new(crate::result::SCHEMA_COMPARE, "seed 000");
        file.design.pairing = Pairing::Unpaired;
        file.design.scale = towpath_measure::judge::Scale::Difference;
        let table = [
            ("reads over 10 ms", [267.0, 274.0, 324.0], [3.0, 0.0, 0.0]),
            ("worst read", [150.0, 118.0, 153.0], [68.0, 7.0, 6.0]),
            ("over 33.4 ms", [8.0, 11.0, 22.0], [3.0, 2.0, 1.0]),
            ("over 25 ms", [36.0, 41.0, 49.0], [27.0, 18.0, 24.0]),
            ("late", [883.0, 992.0, 1260.0], [709.0, 581.0, 608.0]),
            ("1 % low", [32.7, 28.9, 25.8], [33.3, 37.8, 37.0]),
        ];
        for place in 0..3 {
            for arm in [Arm::A, Arm::B] {
                let mut run = Run::new(arm, place);
                for (name, a, b) in &table {
                    run.read(name, if arm == Arm::A { a[place] } else { b[place] });
                }
                file.runs.push(run);
            }
        }
        for (name, _, _) in &table {
            let better = if *name == "1 % low" {
                Direction::Higher
            } else {
                Direction::Lower
            };
            file.metrics.push(Metric::new(name, "", better, ""));
        }
        file.judge().unwrap();
        let first = &file.judgements[0].judgement;
        assert!((first.p - 0.0038).abs() < 5e-5 && (first.p_adjusted - 0.023).abs() < 5e-4);
        let proven = file
            .judgements
            .iter()
            .filter(|one| one.judgement.verdict != Verdict::Inconclusive);
        assert_eq!(proven.count(), 1);
        let noted = notes(&file).join("\n");
        assert!(
            noted.contains("by ranks 3 + 3 runs cannot prove anything about 6 metrics together (p is 0.600 at best), 5 + 5 can (p 0.048)"),
            "{noted}"
        );
    }
}
