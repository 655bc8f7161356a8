//! Lines that GL and Vulkan benchmarks print: gears, glmark2, vkmark, glbench.

use super::numbers::number;
use super::{Rejections, Results, Series, series};
use crate::judge::Direction;
use crate::sample::can_be_judged;

/// Reads whichever of the known lines the text has; `None` if it has none.
pub(super) fn read(text: &str) -> Option<Results> {
    glbench(text)
        .or_else(|| marks(text))
        .or_else(|| gears(text))
}

/// `N frames in S seconds = F FPS`, every five seconds: repeats within one run, the first one start-up.
fn gears(text: &str) -> Option<Results> {
    let mut one = Series::new("fps", "fps", Direction::Higher);
    one.are_repeats = true;
    for line in text.lines() {
        let Some((before, after)) = line.split_once(" seconds = ") else {
            continue;
        };
        if !before.contains(" frames in ") {
            continue;
        }
        let value = after.split_whitespace().next().and_then(number);
        one.values
            .extend(value.filter(|value| can_be_judged(*value)));
    }
    if one.values.is_empty() {
        return None;
    }
    if one.values.len() > 1 {
        one.note("the first line holds the start of the program and is a warm-up");
    }
    one.note("lines of one run are repeats: they count as one value, their mean");
    Some(Results {
        kind: "gears",
        series: vec![one],
        rejected: Rejections::default(),
    })
}

/// A number that can be judged; programs print `inf` and `nan` after a failed scene.
fn score_of(cell: &str) -> Option<f64> {
    number(cell).filter(|value| can_be_judged(*value))
}

/// `[scene] options: FPS: N FrameTime: X ms` of glmark2 and vkmark, and their score.
fn marks(text: &str) -> Option<Results> {
    let is_vkmark = text
        .lines()
        .any(|line| line.trim_start().starts_with("vkmark"));
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some((name, score)) = line.split_once(" Score:") {
            if let (Some(score), "glmark2" | "vkmark") = (score_of(score), name)
                && let Some(series) = series(&mut all, "score", "", Direction::Higher)
            {
                series.values.push(score);
            }
            continue;
        }
        let Some((scene, rest)) = line.split_once(" FPS:") else {
            continue;
        };
        let Some((fps, time)) = rest.split_once("FrameTime:") else {
            continue;
        };
        let time = time.trim().strip_suffix("ms").and_then(score_of);
        let (Some(fps), Some(time)) = (score_of(fps), time) else {
            continue;
        };
        let scene = scene.trim_end_matches(':');
        if is_vkmark {
            if let Some(series) = series(&mut all, scene, "fps", Direction::Higher) {
                series.values.push(fps);
                series.note("whole frames per second: differences below one are not seen");
            }
        } else if let Some(series) = series(&mut all, scene, "ms", Direction::Lower) {
            series.values.push(time);
        }
    }
    let kind = if is_vkmark { "vkmark" } else { "glmark2" };
    (!all.is_empty()).then_some(Results {
        kind,
        series: all,
        rejected: Rejections::default(),
    })
}

/// `@RESULT: name = value unit [image]` of ChromiumOS' glbench; -1 is a GL error, 0 no score.
fn glbench(text: &str) -> Option<Results> {
    let mut all = Vec::new();
    let mut rejected = Rejections::default();
    let (mut is_glbench, mut has_end) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        has_end |= line == "@TEST_END";
        let Some(result) = line.strip_prefix("@RESULT:") else {
            continue;
        };
        is_glbench = true;
        let mut cells = result.split_whitespace();
        let (Some(name), Some("="), Some(value), Some(unit)) =
            (cells.next(), cells.next(), cells.next(), cells.next())
        else {
            rejected.add(index + 1, 1, || "not `name = value unit`".to_owned());
            continue;
        };
        let better = if unit == "us" {
            Direction::Lower
        } else {
            Direction::Higher
        };
        match number(value) {
            Some(value) if can_be_judged(value) && value > 0.0 => {
                if let Some(series) = series(&mut all, name, unit, better) {
                    series.values.push(value);
                }
            }
            _ => rejected.add(index + 1, 3, || format!("{name}: {value} is no score")),
        }
    }
    if !is_glbench {
        return None;
    }
    if !has_end {
        for series in &mut all {
            series.note("the output has no @TEST_END: glbench did not finish");
        }
    }
    Some(Results {
        kind: "glbench",
        series: all,
        rejected,
    })
}
