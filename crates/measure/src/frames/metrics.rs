//! What is said of a run's frames, each number with its definition.
//!
//! Names of frame metrics mean different things in different tools; here each carries what it means, and the forms
//! that other tools use stand beside ours.

use crate::convert::floor_count;
use crate::judge::Direction;
use crate::sample::{both, mean, quantile, select, sorted, sum};

/// The refresh rate that frames should keep, and the frame times that are counted as long.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Refresh rate in Hz; frames longer than its period are late.
    pub hertz: f64,
    /// Frame times in ms above which frames are counted.
    pub over_ms: Vec<f64>,
}

impl Default for Target {
    /// 60 Hz; 16.7, 25 and 33.4 ms.
    fn default() -> Self {
        Self {
            hertz: 60.0,
            over_ms: vec![16.7, 25.0, 33.4],
        }
    }
}

/// One metric of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Direction,
    /// What exactly it is.
    pub definition: String,
    /// Whether it needs every frame.
    pub needs_all: bool,
    /// Its value.
    pub value: f64,
}

/// A copy of a run's frame times in which every place that metrics and sketches look at holds what sorting would put
/// there: the longest twentieth, and the places of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered(Vec<f64>);

impl Ordered {
    /// Orders a copy as far as needed.
    ///
    /// # Cost
    ///
    /// 8 bytes per frame; for 10 million frames about a third of a full sort, on two threads.
    #[must_use]
    pub fn of(frame_ms: &[f64]) -> Self {
        /// Below it, sorting takes a few milliseconds.
        const SORTED_MAX: usize = 1 << 16;
        if frame_ms.len() <= SORTED_MAX {
            return Self(sorted(frame_ms));
        }
        let mut values = frame_ms.to_vec();
        let last = (values.len() - 1) as f64;
        let longest = floor_count((0.95 * last).floor() - 2.0);
        let places = super::sketch::shares().map(|share| floor_count(share * last));
        let mut wanted: Vec<usize> = places.flat_map(|place| [place, place + 1]).collect();
        wanted.retain(|place| *place < longest);
        wanted.push(longest);
        wanted.sort_unstable();
        wanted.dedup();
        select(&mut values, &wanted);
        if let Some(longest) = values.get_mut(longest..) {
            longest.sort_unstable_by(f64::total_cmp);
        }
        Self(values)
    }

    /// The values; only the places named above are in order.
    pub(super) fn values(&self) -> &[f64] {
        &self.0
    }
}

/// All metrics of a run; empty without frames.
///
/// # Cost
///
/// As [`Ordered::of`].
#[must_use]
pub fn evaluate(frame_ms: &[f64], target: &Target) -> Vec<Metrics> {
    evaluate_ordered(frame_ms, &Ordered::of(frame_ms), target)
}

/// As [`evaluate`], for frames that were ordered already.
#[must_use]
pub fn evaluate_ordered(frame_ms: &[f64], ordered: &Ordered, target: &Target) -> Vec<Metrics> {
    if frame_ms.is_empty() {
        return Vec::new();
    }
    let mut list = List(Vec::with_capacity(32));
    let total = sum(frame_ms.iter().copied());
    let n = frame_ms.len() as f64;
    list.add(
        "fps",
        "fps",
        Direction::Higher,
        "1000 / mean frame time (not the mean of fps)",
        false,
        1e3 * n / total,
    );
    let in_order = || {
        let mut list = List(Vec::new());
        order(&mut list, frame_ms, total);
        list.0
    };
    let by_size = || {
        let mut list = List(Vec::new());
        late(&mut list, frame_ms, total, target);
        lows(&mut list, ordered.values(), total);
        list.0
    };
    let (in_order, by_size) = both(frame_ms.len() > 1 << 18, in_order, by_size);
    list.0.extend(in_order);
    list.0.extend(by_size);
    list.0
}

struct List(Vec<Metrics>);

impl List {
    fn add(
        &mut self,
        name: &str,
        unit: &'static str,
        better: Direction,
        definition: &str,
        needs_all: bool,
        value: f64,
    ) {
        let (name, definition) = (name.to_owned(), definition.to_owned());
        self.0.push(Metrics {
            name,
            unit,
            better,
            definition,
            needs_all,
            value,
        });
    }
}

/// Lows in the four forms that tools use, from sorted frame times.
fn lows(list: &mut List, ordered: &[f64], total: f64) {
    for (share, name) in [(0.01, "1%"), (0.001, "0.1%"), (0.05, "5%")] {
        let forms = Lows::of(ordered, total, share);
        let mut add = |form: &str, definition: String, value: f64| {
            list.add(
                &format!("low-{name}{form}"),
                "fps",
                Direction::Higher,
                &definition,
                true,
                value,
            );
        };
        add(
            "",
            format!("1000 / mean of the longest {name} of frames (CapFrameX low average)"),
            forms.mean,
        );
        add(
            "-percentile",
            format!("1000 / frame time that {name} of frames exceed, interpolated (numpy)"),
            forms.percentile,
        );
        add(
            "-time",
            format!(
                "1000 / frame time at which the longest frames make up {name} of the time (Afterburner)"
            ),
            forms.time,
        );
        add(
            "-mangohud",
            format!(
                "fps of the frame at place floor({name} of n - 1) from the longest (MangoHud 0.8.1)"
            ),
            forms.place,
        );
    }
}

/// The forms of one low, in fps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lows {
    /// 1000 over the mean of the longest share of frames.
    pub mean: f64,
    /// 1000 over the interpolated percentile.
    pub percentile: f64,
    /// Time-weighted.
    pub time: f64,
    /// MangoHud's element.
    pub place: f64,
}

impl Lows {
    /// From sorted frame times and their sum.
    #[must_use]
    pub fn of(ordered: &[f64], total: f64, share: f64) -> Self {
        let n = ordered.len() as f64;
        let count = floor_count((share * n - 1e-9).ceil()).clamp(1, ordered.len().max(1));
        let worst = || ordered.iter().rev();
        let mut left = share * total;
        let at_time = worst().find(|&&frame| {
            left -= frame;
            left <= 0.0
        });
        let place = floor_count(share * n - 1.0 + 1e-9);
        let fps = |frame: Option<&f64>| frame.map_or(f64::NAN, |frame| 1e3 / frame);
        Self {
            mean: 1e3 * count as f64 / sum(worst().take(count).copied()),
            percentile: 1e3 / quantile(ordered, 1.0 - share),
            time: fps(at_time),
            place: fps(worst().nth(place)),
        }
    }
}

/// What depends on the order of frames.
fn order(list: &mut List, frame_ms: &[f64], total: f64) {
    let changes = || {
        frame_ms.windows(2).filter_map(|pair| match pair {
            [first, second] => Some((second - first).abs()),
            _ => None,
        })
    };
    let count = (frame_ms.len() - 1).max(1) as f64;
    list.add(
        "change",
        "ms",
        Direction::Lower,
        "mean absolute change from frame to frame",
        true,
        sum(changes()) / count,
    );
    for limit in [4.0, 12.0] {
        let share = changes().filter(|change| *change > limit).count() as f64 / count * 100.0;
        let definition =
            format!("share of frames that differ from the one before by more than {limit} ms");
        list.add(
            &format!("change-{limit}ms"),
            "%",
            Direction::Lower,
            &definition,
            true,
            share,
        );
    }
    let stutter = 100.0 * stutter_ms(frame_ms) / total;
    let definition =
        "share of time in frames longer than 2.5 times the mean of the 19 frames around them";
    list.add("stutter", "%", Direction::Lower, definition, true, stutter);
    let squares = |values: &[f64]| {
        let center = mean(values);
        values
            .iter()
            .map(|value| (value - center) * (value - center))
            .sum::<f64>()
    };
    let deviation = (squares(frame_ms) / count).sqrt();
    list.add(
        "deviation",
        "ms",
        Direction::Lower,
        "standard deviation of frame times",
        true,
        deviation,
    );
}

/// Time in frames that stick out of their surroundings.
fn stutter_ms(frame_ms: &[f64]) -> f64 {
    const HALF: usize = 9;
    let mut stutter = 0.0;
    // A running sum over the frames from HALF before to HALF after.
    let mut window: f64 = frame_ms.iter().take(HALF).sum();
    let mut inside = frame_ms.len().min(HALF);
    for (place, frame) in frame_ms.iter().enumerate() {
        if let Some(coming) = frame_ms.get(place + HALF) {
            window += coming;
            inside += 1;
        }
        if place > HALF {
            window -= frame_ms.get(place - HALF - 1).copied().unwrap_or(0.0);
            inside -= 1;
        }
        if *frame > 2.5 * window / inside as f64 {
            stutter += frame;
        }
    }
    stutter
}

/// Long and late frames.
fn late(list: &mut List, frame_ms: &[f64], total: f64, target: &Target) {
    for over in &target.over_ms {
        let count = frame_ms.iter().filter(|frame| *frame > over).count();
        let definition = format!("number of frames longer than {over} ms");
        list.add(
            &format!("over-{over}ms"),
            "",
            Direction::Lower,
            &definition,
            true,
            count as f64,
        );
    }
    let (hertz, period) = (target.hertz, 1e3 / target.hertz);
    let excess = |limit: f64| {
        sum(frame_ms
            .iter()
            .filter(|&&frame| frame > limit)
            .map(|frame| frame - period))
    };
    let at = format!("at {hertz} Hz");
    list.add(
        "late",
        "ms",
        Direction::Lower,
        &format!("sum of what frames took beyond their period {at}"),
        true,
        excess(period),
    );
    let definition = format!("the same for frames more than 10 % beyond their period {at}");
    list.add(
        "late-10%",
        "ms",
        Direction::Lower,
        &definition,
        true,
        excess(1.1 * period),
    );
    let missed = frame_ms
        .iter()
        .map(|frame| ((frame * hertz / 1e3).round() - 1.0).max(0.0))
        .sum::<f64>();
    list.add(
        "missed",
        "",
        Direction::Lower,
        &format!("refreshes without a new frame {at}: frame time over period, rounded, less one"),
        true,
        missed,
    );
    let slip = total - frame_ms.len() as f64 * period;
    list.add(
        "slip",
        "ms",
        Direction::Lower,
        &format!("time that the run took beyond its number of frames {at}"),
        true,
        slip,
    );
}

/// Whether the frames are held at a rate (median equal to most of them): the average then says nothing.
#[must_use]
pub fn is_capped(frame_ms: &[f64]) -> bool {
    // The middle of a few frames of each stretch: single long or short frames do not lift a cap.
    let step = frame_ms.len().div_ceil(2_000).max(1);
    let stretches = frame_ms.chunks(step);
    let few: Vec<f64> = stretches
        .map(|stretch| crate::sample::median(stretch.get(..99).unwrap_or(stretch)))
        .collect();
    let middle = crate::sample::median(&few);
    let near = few
        .iter()
        .filter(|frame| (*frame - middle).abs() < 0.01 * middle)
        .count();
    frame_ms.len() >= 100 && near * 10 >= few.len() * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_frames_give_what_sorting_them_would() {
        let mut random = crate::random::Random::new(5);
        for count in [70_000, 70_001, 600_000] {
            // Ties, spikes, and a tail.
            let frames: Vec<f64> = (0..count)
                .map(|_| match random.below(50) {
                    0 => 16.0,
                    1 => 16.0 + 200.0 * random.uniform(),
                    _ => 16.0 + random.uniform(),
                })
                .collect();
            let whole = Ordered(sorted(&frames));
            let partly = Ordered::of(&frames);
            assert!(partly != whole, "it did sort everything");
            let target = Target::default();
            assert_eq!(
                evaluate_ordered(&frames, &partly, &target),
                evaluate_ordered(&frames, &whole, &target)
            );
            assert_eq!(
                super::super::sketch::sketch_ordered(&frames, &partly, 500),
                super::super::sketch::sketch_ordered(&frames, &whole, 500)
            );
        }
    }
}
