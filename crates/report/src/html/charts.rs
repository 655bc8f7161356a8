//! The charts of the report: each answers one question about the runs.

use towpath_measure::Arm;
use towpath_measure::drift::thin;

use super::svg::{Axis, Chart};
use crate::numbers::percent;
use crate::result::{Metric, Pairing, ResultFile, Run};

const KEY: &str = "Filled dots and solid lines are A, hollow squares and dashed lines are B.";
const KEY_3: &str = "Filled dots and solid lines are A, hollow squares and dashed lines are B, triangles and dotted lines are C.";

/// What the marks mean.
fn key(file: &ResultFile) -> &'static str {
    if file.c.is_absent() { KEY } else { KEY_3 }
}

/// All charts that the file has data for.
pub(super) fn all(file: &ResultFile) -> Vec<String> {
    let mut charts = Vec::new();
    if let Some(metric) = file.lead() {
        charts.extend(in_order(file, metric));
        for &arm in file.arms().get(1..).unwrap_or_default() {
            charts.extend(slopes(file, metric, arm));
            charts.extend(changes(file, metric, arm));
        }
    }
    charts.extend(frame_lines(file));
    charts.extend(tail(file));
    charts.extend(histogram(file));
    charts
}

/// Every run in the order in which it was made: shows drift.
fn in_order(file: &ResultFile, metric: &Metric) -> Option<String> {
    let places: Vec<(f64, Arm, f64)> = file
        .runs
        .iter()
        .enumerate()
        .filter_map(|(index, run)| Some((index as f64 + 1.0, run.arm, run.value(&metric.name)?)))
        .collect();
    if places.is_empty() {
        return None;
    }
    let x = Axis::exact(0.0, file.runs.len() as f64 + 1.0);
    let y = Axis::linear(places.iter().map(|place| place.2));
    let mut chart = Chart::new(x, "run, in the order made", y, &name(metric));
    for (place, arm, value) in places {
        chart.mark(arm, place, value);
    }
    Some(chart.figure(
        "order",
        "Runs in order",
        &format!(
            "A drift of the machine would show as a slope of all arms. {}",
            key(file)
        ),
    ))
}

/// The id of a chart of A and another arm.
fn id(name: &str, arm: Arm) -> String {
    if arm == Arm::B {
        name.to_owned()
    } else {
        format!("{name}-{arm}")
    }
}

/// A line from A to the other arm for each pair.
fn slopes(file: &ResultFile, metric: &Metric, arm: Arm) -> Option<String> {
    let values = file.values_of(&metric.name, arm);
    if file.design.pairing != Pairing::Paired || values.a.is_empty() {
        return None;
    }
    let y = Axis::linear(values.a.iter().chain(&values.b).copied());
    let mut chart = Chart::new(
        Axis::bare(),
        &format!("A on the left, {arm} on the right"),
        y,
        &name(metric),
    );
    for (a, b) in values.a.iter().zip(&values.b) {
        let class = match (b < a, arm) {
            (true, _) => "a thin",
            (false, Arm::C) => "c thin dots",
            (false, Arm::A | Arm::B) => "b thin dash",
        };
        chart.line(class, [(0.25, *a), (0.75, *b)].into_iter());
        chart.mark(Arm::A, 0.25, *a);
        chart.mark(arm, 0.75, *b);
    }
    let rising = values
        .a
        .iter()
        .zip(&values.b)
        .filter(|(a, b)| b > a)
        .count();
    let text = format!(
        "Each line is one pair: {rising} of {} rise from A to {arm}.",
        values.a.len()
    );
    Some(chart.figure(&id("pairs", arm), "Pairs", &text))
}

/// How often which change of a pair was seen.
fn changes(file: &ResultFile, metric: &Metric, arm: Arm) -> Option<String> {
    let values = file.values_of(&metric.name, arm);
    if file.design.pairing != Pairing::Paired || values.a.len() < 2 {
        return None;
    }
    let changes: Vec<f64> = values
        .a
        .iter()
        .zip(&values.b)
        .filter(|(a, _)| **a != 0.0)
        .map(|(a, b)| (b / a - 1.0) * 100.0)
        .collect();
    let (low, high) = changes
        .iter()
        .fold((0.0_f64, 0.0_f64), |(low, high), change| {
            (low.min(*change), high.max(*change))
        });
    let bins = 24.0;
    let step = ((high - low) / bins).max(1e-9);
    let bin = |change: f64| ((change - low) / step).floor().clamp(0.0, bins - 1.0);
    let mut counts: Vec<(f64, usize)> = Vec::new();
    for &change in &changes {
        match counts
            .iter_mut()
            .find(|(place, _)| (*place - bin(change)).abs() < 0.5)
        {
            Some((_, count)) => *count += 1,
            None => counts.push((bin(change), 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let x = Axis::linear([low, high].into_iter());
    let mut chart = Chart::new(
        x,
        &format!("change from A to {arm} in %"),
        Axis::exact(0.0, most as f64),
        "pairs",
    );
    chart.line("zero", [(0.0, 0.0), (0.0, most as f64)].into_iter());
    for (place, count) in counts {
        chart.bar(
            "fa",
            low + place * step,
            low + (place + 1.0) * step,
            count as f64,
        );
    }
    let middle = towpath_measure::sample::median(&changes) / 100.0;
    Some(chart.figure(
        &id("changes", arm),
        "Changes of the pairs",
        &format!(
            "The median change is {}; the dotted line is no change.",
            percent(middle)
        ),
    ))
}

/// The run of an arm that stands for it in the frame line: the one with the median longest frame.
fn typical(file: &ResultFile, arm: Arm) -> Option<&Run> {
    let longest = |run: &Run| {
        let frames = run
            .frames
            .as_ref()
            .map(|frames| frames.slices.iter().map(|slice| slice.1));
        frames.map_or(0.0, |longest| longest.fold(0.0, f64::max))
    };
    let mut runs: Vec<&Run> = file
        .runs
        .iter()
        .filter(|run| run.arm == arm && run.frames.is_some())
        .collect();
    runs.sort_by(|x, y| longest(x).total_cmp(&longest(y)));
    runs.get(runs.len() / 2).copied()
}

/// Frame times over time, shortest to longest per slice, with the disk reads of the same time below.
fn frame_lines(file: &ResultFile) -> Vec<String> {
    let runs: Vec<(Arm, &Run)> = file
        .arms()
        .iter()
        .filter_map(|&arm| Some((arm, typical(file, arm)?)))
        .collect();
    let longest = runs
        .iter()
        .flat_map(|(_, run)| run.frames.iter())
        .flat_map(|frames| frames.slices.iter().map(|slice| slice.1));
    let y = Axis::exact(0.0, longest.fold(1.0, f64::max) * 1.05);
    let mut charts = Vec::new();
    for (arm, run) in runs {
        let Some(frames) = &run.frames else { continue };
        let end = frames.slice_s * frames.slices.len() as f64;
        let x = Axis::exact(
            0.0,
            end.max(run.disk_reads.last().map_or(0.0, |read| read.0)),
        );
        let (class, label) = class(arm, file);
        let mut chart = Chart::new(x, "seconds", y, "frame time in ms");
        // Each stroke also reaches to the slice before it: a spike of one frame is a line, not a dot.
        let before = frames.slices.iter().take(1).chain(&frames.slices);
        let spans = frames.slices.iter().zip(before).enumerate();
        let spans = spans.map(|(index, (slice, before))| {
            let at = (index as f64 + 0.5) * frames.slice_s;
            (at, slice.0.min(before.1), slice.1.max(before.0))
        });
        chart.strokes(&format!("{class} thin"), spans);
        let text = format!(
            "{} frames of a typical run of {label}; each stroke reaches from the shortest to the longest frame of its slice, so no spike is lost.",
            frames.frames
        );
        let frames = chart.figure(
            &format!("frames-{arm}"),
            &format!("Frame times, {label}"),
            &text,
        );
        let disk = disk_strip(run, x, class, arm, label).unwrap_or_default();
        let first = if charts.is_empty() { " first" } else { "" };
        charts.push(format!(
            "<div class=\"stack{first}\">\n{frames}{disk}</div>\n"
        ));
    }
    charts
}

/// Timed disk reads on the time axis of the frames.
fn disk_strip(run: &Run, x: Axis, class: &str, arm: Arm, label: &str) -> Option<String> {
    if run.disk_reads.is_empty() {
        return None;
    }
    let longest = run
        .disk_reads
        .iter()
        .fold(10.0_f64, |most, read| most.max(read.1));
    let mut chart = Chart::of_height(130.0, x, "seconds", Axis::exact(0.0, longest), "ms");
    chart.strokes(
        &format!("{class} thin"),
        run.disk_reads.iter().map(|&(at, ms)| (at, 0.0, ms)),
    );
    let slow = run.disk_reads.iter().filter(|read| read.1 > 10.0).count();
    let text = format!(
        "{} timed 4 KiB reads beside the run, {slow} of them over 10 ms.",
        run.disk_reads.len()
    );
    Some(chart.figure(
        &format!("disk-{arm}"),
        &format!("Disk reads, {label}"),
        &text,
    ))
}

/// The share of frames that took longer, on a log axis: shows the tail.
fn tail(file: &ResultFile) -> Option<String> {
    let ladders: Vec<(Arm, &[(f64, f64)])> = file
        .runs
        .iter()
        .filter_map(|run| Some((run.arm, run.frames.as_ref()?.ladder.as_slice())))
        .collect();
    let times = || {
        ladders
            .iter()
            .flat_map(|(_, ladder)| ladder.iter().map(|step| step.1))
    };
    times().next()?;
    let x = Axis::linear(times());
    let mut chart = Chart::new(
        x,
        "frame time in ms",
        Axis::log(1e-4, 1.0),
        "share of longer frames",
    );
    for (arm, ladder) in &ladders {
        let class = match arm {
            Arm::A => "a line",
            Arm::B => "b line dash",
            Arm::C => "c line dots",
        };
        let steps = ladder
            .iter()
            .map(|&(share, ms)| (ms, (1.0 - share).max(1e-4)));
        chart.line(class, steps);
    }
    Some(chart.figure(
        "tail",
        "Long frames",
        &format!("One line per run; further left is better. {}", key(file)),
    ))
}

/// How often which frame time was seen, both arms together with their own bars.
fn histogram(file: &ResultFile) -> Option<String> {
    let of = |arm: Arm| -> Vec<f64> {
        let runs = file.runs.iter().filter(|run| run.arm == arm);
        let ladders = runs
            .filter_map(|run| run.frames.as_ref())
            .map(|frames| &frames.ladder);
        // Evenly spaced shares stand for the frames; the last two percent belong to the tail's own chart.
        let shares: Vec<f64> = ladders.flat_map(|ladder| even(ladder, 400)).collect();
        thin(&shares, 20_000)
    };
    let arms: Vec<(Arm, Vec<f64>)> = file.arms().iter().map(|&arm| (arm, of(arm))).collect();
    if arms.iter().any(|(_, values)| values.is_empty()) {
        return None;
    }
    let all = || arms.iter().flat_map(|(_, values)| values);
    let (low, high) = all().fold((f64::INFINITY, 0.0_f64), |(low, high), ms| {
        (low.min(*ms), high.max(*ms))
    });
    let bins = 30_u32;
    let step = ((high - low) / f64::from(bins)).max(1e-9);
    let shares = |values: &[f64]| -> Vec<f64> {
        (0..bins)
            .map(|bin| {
                let from = low + step * f64::from(bin);
                let is_last = bin + 1 == bins;
                let inside = values
                    .iter()
                    .filter(|ms| **ms >= from && (**ms < from + step || is_last));
                100.0 * inside.count() as f64 / values.len() as f64
            })
            .collect()
    };
    let arms: Vec<(Arm, Vec<f64>)> = arms
        .iter()
        .map(|(arm, values)| (*arm, shares(values)))
        .collect();
    let heights = arms.iter().flat_map(|(_, shares)| shares);
    let most = heights.fold(1.0_f64, |most, share| most.max(*share));
    let x = Axis::exact(low, low + step * f64::from(bins));
    let mut chart = Chart::new(x, "frame time in ms", Axis::exact(0.0, most), "% of frames");
    let width = step / arms.len() as f64;
    for (place, (arm, shares)) in arms.iter().enumerate() {
        let class = match arm {
            Arm::A => "fa",
            Arm::B => "b hollow",
            Arm::C => "c hollow dots",
        };
        for (bin, share) in (0..bins).zip(shares) {
            let from = low + step * f64::from(bin) + width * place as f64;
            chart.bar(class, from, from + width, *share);
        }
    }
    let key = if file.c.is_absent() {
        "Filled bars are A, hollow bars are B."
    } else {
        "Filled bars are A, hollow bars are B, dotted ones C."
    };
    Some(chart.figure(
        "histogram",
        "Frame times",
        &format!("Up to the 98th percentile of each run. {key}"),
    ))
}

/// Frame times at even shares up to 98 %.
fn even(ladder: &[(f64, f64)], count: u32) -> Vec<f64> {
    (0..count)
        .filter_map(|k| {
            let share = 0.98 * (f64::from(k) + 0.5) / f64::from(count);
            ladder
                .iter()
                .find(|step| step.0 >= share)
                .map(|step| step.1)
        })
        .collect()
}

fn class(arm: Arm, file: &ResultFile) -> (&'static str, &str) {
    let label = file.arm(arm).label.as_str();
    match arm {
        Arm::A => ("a", label),
        Arm::B => ("b", label),
        Arm::C => ("c", label),
    }
}

fn name(metric: &Metric) -> String {
    if metric.unit.is_empty() {
        metric.name.clone()
    } else {
        format!("{} in {}", metric.name, metric.unit)
    }
}
