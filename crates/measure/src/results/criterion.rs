//! Criterion's raw measurements: `sample.json` (private format) and `raw.csv` (stable).

use serde_json::Value;

use super::numbers::number;
use super::{Rejections, Results, Series, series};
use crate::judge::Direction;
use crate::sample::can_be_judged;

const HEADER: &str = "group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count";

/// Reads `{"sampling_mode", "iters": [], "times": []}`: totals in ns, divided by their iterations.
pub(super) fn read_sample(whole: &Value) -> Option<Results> {
    let iterations = whole.get("iters")?.as_array()?;
    let times = whole.get("times")?.as_array()?;
    let mut rejected = Rejections::default();
    let mut one = Series::new("time per iteration", "s", Direction::Lower);
    for (index, (count, time)) in iterations.iter().zip(times).enumerate() {
        match (count.as_f64(), time.as_f64()) {
            (Some(count), Some(time)) if count > 0.0 && can_be_judged(time / count) => {
                one.values.push(time / count / 1e9);
            }
            _ => rejected.add(1, index + 1, || {
                "a sample without time or iterations".to_owned()
            }),
        }
    }
    one.note("samples of one Criterion process: repeats, not runs; compare several processes for a claim");
    Some(Results {
        kind: "Criterion sample.json",
        series: vec![one],
        rejected,
    })
}

/// Reads `raw.csv`.
pub(super) fn read_csv(text: &str) -> Option<Results> {
    let mut lines = text.lines();
    if lines.next()?.trim_end() != HEADER {
        return None;
    }
    let mut all = Vec::new();
    let mut rejected = Rejections::default();
    for (index, line) in lines.enumerate() {
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        let [group, function, value, _, _, measured, unit, count] = cells[..] else {
            rejected.add(index + 2, 1, || {
                format!("{} cells where 8 are expected", cells.len())
            });
            continue;
        };
        let per_iteration = number(measured)
            .zip(number(count))
            .map(|(total, count)| total / count);
        let Some(time) = per_iteration.filter(|time| can_be_judged(*time)) else {
            rejected.add(index + 2, 6, || "no measured value".to_owned());
            continue;
        };
        let name: Vec<&str> = [group, function, value]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let (scale, unit) = if unit == "ns" {
            (1e-9, "s")
        } else {
            (1.0, unit)
        };
        if let Some(series) = series(&mut all, &name.join("/"), unit, Direction::Lower) {
            series.values.push(time * scale);
        }
    }
    Some(Results {
        kind: "Criterion raw.csv",
        series: all,
        rejected,
    })
}
