//! What was measured about one device, and the choice that follows.

use serde::{Deserialize, Serialize};
use towpath_measure::judge::{Question, paired};
use towpath_measure::sample::median;
use towpath_measure::{Result, Verdict};

use crate::engine::Shape;

/// Which way data moves.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Device to host.
    Read,
    /// Host to device.
    Write,
}

/// The state of the host's pages.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmth {
    /// Absent, at least half of them.
    Cold,
    /// Absent, in memory that gets huge pages by itself.
    ColdHuge,
    /// Present.
    Warm,
}

/// A way to do a transfer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mechanism {
    /// The driver's call alone.
    Forward,
    /// Pages brought in, then the driver's call.
    Prefault,
    /// Through our ring.
    Staged {
        /// Threads, the caller's included.
        threads: usize,
        /// Bytes of a chunk.
        chunk_bytes: usize,
    },
}

impl Mechanism {
    /// Staging by a shape.
    #[must_use]
    pub const fn staged(shape: Shape) -> Self {
        Self::Staged {
            threads: shape.threads,
            chunk_bytes: shape.chunk_bytes,
        }
    }

    fn is_sane(self) -> bool {
        match self {
            Self::Staged {
                threads,
                chunk_bytes,
            } => THREADS.contains(&threads) && CHUNK_BYTES.contains(&chunk_bytes),
            Self::Forward | Self::Prefault => true,
        }
    }

    /// The shape of a staged one.
    #[must_use]
    pub const fn shape(self) -> Option<Shape> {
        match self {
            Self::Staged {
                threads,
                chunk_bytes,
            } => Some(Shape::new(threads, chunk_bytes)),
            Self::Forward | Self::Prefault => None,
        }
    }
}

/// What a mechanism took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Median in nanoseconds.
    pub ns: u64,
    /// Median processor time of the whole process in nanoseconds; 0 in files of before it was measured.
    #[serde(default)]
    pub cpu_ns: u64,
}

/// Runs of one mechanism, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Wall time of each.
    pub wall_ns: Vec<f64>,
    /// Processor time of the whole process over each.
    pub cpu_ns: Vec<f64>,
}

impl Timing {
    fn of(mechanism: Mechanism, runs: &Runs) -> Self {
        Self {
            mechanism,
            ns: whole(median(&runs.wall_ns)),
            cpu_ns: whole(median(&runs.cpu_ns)),
        }
    }

    fn gains_enough_on(&self, forward_ns: u64) -> bool {
        let gain = forward_ns.saturating_sub(self.ns);
        gain >= GAIN_NS_MIN && gain.saturating_mul(20) >= forward_ns
    }

    /// At most this many tenths of the processor time of the driver's own call.
    fn is_within(&self, forward_cpu_ns: u64, tenths: u64) -> bool {
        self.cpu_ns.saturating_mul(10) <= forward_cpu_ns.saturating_mul(tenths)
    }
}

/// One direction, state and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Which way.
    pub direction: Direction,
    /// The host's pages.
    pub warmth: Warmth,
    /// Bytes that were moved; the class holds from here to the next one.
    pub bytes: usize,
    /// Median of the driver's own call in nanoseconds.
    pub forward_ns: u64,
    /// Median processor time of it; 0 in files of before it was measured.
    #[serde(default)]
    pub forward_cpu_ns: u64,
    /// Medians of the others.
    pub options: Vec<Timing>,
    /// What to do.
    pub choice: Mechanism,
}

/// What was measured about one device on one machine. Stored by `towpath_settings::calibration`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// In order of size within each direction and state.
    pub classes: Vec<Class>,
}

impl Calibration {
    /// The subject of its key in the store.
    pub const SUBJECT: &'static str = "transfer";

    /// Whether every mechanism in it can be done: a file may name any number of threads and chunks of any
    /// size, and the process that would try is not ours.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        let of = |class: &Class| {
            let options = class.options.iter().map(|option| option.mechanism);
            options.chain([class.choice]).all(Mechanism::is_sane)
        };
        self.classes.iter().all(of)
    }

    /// What to do with `bytes`: as the class says, forward below the smallest, `None` where nothing was
    /// measured.
    #[must_use]
    pub fn choose(&self, direction: Direction, warmth: Warmth, bytes: usize) -> Option<Mechanism> {
        let _measured = self.pays(direction, warmth)?;
        Some(
            self.find(direction, warmth, bytes)
                .map_or(Mechanism::Forward, |class| class.choice),
        )
    }

    /// The class of the largest size that is not above `bytes`; `None` below the smallest.
    #[must_use]
    pub fn find(&self, direction: Direction, warmth: Warmth, bytes: usize) -> Option<&Class> {
        self.of(direction, warmth)
            .filter(|class| class.bytes <= bytes)
            .max_by_key(|class| class.bytes)
    }

    /// The fastest mechanism that is not the driver's own, whatever its gain.
    #[must_use]
    pub fn fastest(&self, direction: Direction, warmth: Warmth, bytes: usize) -> Option<Mechanism> {
        let class = self.find(direction, warmth, bytes)?;
        class
            .options
            .iter()
            .min_by_key(|option| option.ns)
            .map(|option| option.mechanism)
    }

    /// Whether any size is better off than by the driver's call; `None` where nothing was measured.
    #[must_use]
    pub fn pays(&self, direction: Direction, warmth: Warmth) -> Option<bool> {
        let mut classes = self.of(direction, warmth).peekable();
        classes.peek()?;
        Some(classes.any(|class| class.choice != Mechanism::Forward))
    }

    /// The smallest size that is better off than by the driver's call.
    #[must_use]
    pub fn smallest_that_pays(&self, direction: Direction, warmth: Warmth) -> Option<usize> {
        self.of(direction, warmth)
            .filter(|class| class.choice != Mechanism::Forward)
            .map(|class| class.bytes)
            .min()
    }

    fn of(&self, direction: Direction, warmth: Warmth) -> impl Iterator<Item = &Class> {
        self.classes
            .iter()
            .filter(move |class| class.direction == direction && class.warmth == warmth)
    }
}

impl Class {
    /// Judges runs, the n-th of every mechanism taken in the same round, the driver's own first. Chosen is
    /// one of those that are proven faster, by at least 5 % and 0.2 ms, and take at most 1.1 times the
    /// processor time; if there is none, of those that take at most 1.5 times. Of several that are within
    /// a tenth of the fastest, the one that takes the least processor time: it is the program's, which may
    /// have other use for it.
    ///
    /// # Errors
    ///
    /// Samples that are not numbers.
    pub fn judge(
        (direction, warmth, bytes): (Direction, Warmth, usize),
        forward: &Runs,
        others: &[(Mechanism, Runs)],
    ) -> Result<Self> {
        let own = Timing::of(Mechanism::Forward, forward);
        let options: Vec<Timing> = others
            .iter()
            .map(|(mechanism, runs)| Timing::of(*mechanism, runs))
            .collect();
        let mut choice = Mechanism::Forward;
        for most in [CHEAP_TENTHS, MOST_TENTHS] {
            choice = best_proven(&own, forward, others, &options, most)?;
            if choice != Mechanism::Forward {
                break;
            }
        }
        Ok(Self {
            direction,
            warmth,
            bytes,
            forward_ns: own.ns,
            forward_cpu_ns: own.cpu_ns,
            options,
            choice,
        })
    }

    /// What forwarding `bytes` takes, in proportion to the class's own size.
    #[must_use]
    pub fn forward_ns_for(&self, bytes: usize) -> u64 {
        whole(self.forward_ns as f64 * (bytes as f64 / self.bytes.max(1) as f64))
    }

    /// One line: `active: staged by 8 threads, 12.4 x`, or `off: forward is as fast`.
    #[must_use]
    pub fn text(&self) -> String {
        let times = |ns: u64| self.forward_ns as f64 / (ns as f64).max(1.0);
        let chosen = self
            .options
            .iter()
            .find(|option| option.mechanism == self.choice);
        match (self.choice, chosen) {
            (Mechanism::Staged { threads, .. }, Some(timing)) => {
                format!(
                    "active: staged by {threads} threads, {:.1} x",
                    times(timing.ns)
                )
            }
            (Mechanism::Prefault, Some(timing)) => {
                format!("active: prefault, {:.1} x", times(timing.ns))
            }
            _ => self.text_of_off(),
        }
    }

    fn text_of_off(&self) -> String {
        let dear = self
            .options
            .iter()
            .filter(|option| option.gains_enough_on(self.forward_ns))
            .filter(|option| !option.is_within(self.forward_cpu_ns, MOST_TENTHS))
            .min_by_key(|option| option.ns);
        dear.map_or_else(
            || "off: forward is as fast".to_owned(),
            |option| {
                format!(
                    "off: {:.1} x as fast takes {:.1} x the processor time",
                    self.forward_ns as f64 / (option.ns as f64).max(1.0),
                    option.cpu_ns as f64 / (self.forward_cpu_ns as f64).max(1.0)
                )
            },
        )
    }
}

/// Of the mechanisms that are proven faster, gain enough and take at most `tenths` of the driver's own processor
/// time: the one that takes the least of it and at most a tenth longer than the fastest; else
/// [`Mechanism::Forward`].
fn best_proven(
    own: &Timing,
    forward: &Runs,
    others: &[(Mechanism, Runs)],
    options: &[Timing],
    tenths: u64,
) -> Result<Mechanism> {
    let mut proven = Vec::new();
    for ((_mechanism, runs), timing) in others.iter().zip(options) {
        if !timing.gains_enough_on(own.ns) || !timing.is_within(own.cpu_ns, tenths) {
            continue;
        }
        let question = Question::lower_is_better();
        let judged = paired(&forward.wall_ns, &runs.wall_ns, &question)?;
        if judged.verdict == Verdict::Faster {
            proven.push(timing);
        }
    }
    let fastest_ns = proven.iter().map(|timing| timing.ns).min().unwrap_or(0);
    let best = proven
        .iter()
        .filter(|timing| timing.ns.saturating_mul(10) <= fastest_ns.saturating_mul(11))
        .min_by_key(|timing| (timing.cpu_ns, timing.ns));
    Ok(best.map_or(Mechanism::Forward, |timing| timing.mechanism))
}

/// Nanoseconds as a whole number; nonsense is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and times are far below 2^63 ns"
)]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

/// Threads that a calibration may ask for.
const THREADS: std::ops::RangeInclusive<usize> = 1..=256;
/// Sizes of chunks that a calibration may ask for, from a page to 1 GiB.
const CHUNK_BYTES: std::ops::RangeInclusive<usize> = 4096..=1 << 30;

/// 1.1 times the processor time: what comes within it is taken first.
const CHEAP_TENTHS: u64 = 11;
/// 1.5 times the processor time, where nothing cheaper gains: a program does other things too, larger copies
/// are cheaper than those of the class, and the whole programs of `docs/readback.md` stay within 1.1 times.
const MOST_TENTHS: u64 = 15;
/// 0.2 ms per call: less is not worth a risk.
const GAIN_NS_MIN: u64 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: (Direction, Warmth, usize) = (Direction::Read, Warmth::Cold, 1 << 20);

    fn around(ms: f64) -> Runs {
        runs(ms, ms)
    }

    fn runs(wall_ms: f64, cpu_ms: f64) -> Runs {
        let scattered = |ms: f64| {
            (0..8)
                .map(|n| ms * 1e6 * (1.0 + 0.01 * f64::from(n % 3)))
                .collect()
        };
        Runs {
            wall_ns: scattered(wall_ms),
            cpu_ns: scattered(cpu_ms),
        }
    }

    #[test]
    fn of_mechanisms_that_cost_more_processor_time_the_cheap_one_is_chosen() {
        let staged = |threads| Mechanism::Staged {
            threads,
            chunk_bytes: 2 << 20,
        };
        let few = (staged(4), runs(4.0, 10.8));
        let many = (staged(12), runs(3.0, 20.0));
        let choose =
            |others: &[(Mechanism, Runs)]| Class::judge(CLASS, &around(10.0), others).unwrap();
        // Faster, for half as much again: taken only where nothing cheaper gains.
        let dearer = (staged(6), runs(3.5, 14.9));
        let all = [few.clone(), dearer.clone(), many.clone()];
        assert_eq!(choose(&all).choice, staged(4));
        assert_eq!(choose(&[dearer, many.clone()]).choice, staged(6));
        assert_eq!(choose(&[few, many.clone()]).choice, staged(4));
        // Nearly as fast for less.
        let thrifty = (staged(3), runs(4.3, 9.5));
        let slow = (staged(2), runs(4.5, 9.0));
        let fast = (staged(4), runs(4.0, 10.8));
        assert_eq!(choose(&[slow, fast, thrifty]).choice, staged(3));
        let class = choose(&[many]);
        assert_eq!(class.choice, Mechanism::Forward);
        assert_eq!(
            class.text(),
            "off: 3.3 x as fast takes 2.0 x the processor time"
        );
    }

    #[test]
    fn the_fastest_proven_one_is_chosen() {
        let staged = Mechanism::Staged {
            threads: 8,
            chunk_bytes: 4 << 20,
        };
        let others = [(Mechanism::Prefault, around(4.0)), (staged, around(1.0))];
        let class = Class::judge(CLASS, &around(10.0), &others).unwrap();
        assert_eq!(class.choice, staged);
        assert_eq!(class.text(), "active: staged by 8 threads, 10.0 x");
        assert_eq!(class.forward_ns_for(2 << 20), 2 * class.forward_ns);
    }

    #[test]
    fn a_small_gain_or_an_unproven_one_is_not_enough() {
        let choose = |forward: &Runs, other: Runs| {
            Class::judge(CLASS, forward, &[(Mechanism::Prefault, other)])
                .unwrap()
                .choice
        };
        // 4 %, and 0.1 ms.
        assert_eq!(choose(&around(10.0), around(9.6)), Mechanism::Forward);
        assert_eq!(choose(&around(0.3), around(0.2)), Mechanism::Forward);
        // Large but scattered.
        let mut scattered = around(5.0);
        for (index, ns) in scattered.wall_ns.iter_mut().enumerate() {
            if index % 2 == 0 {
                *ns *= 6.0;
            }
        }
        assert_eq!(choose(&around(10.0), scattered), Mechanism::Forward);
        assert_eq!(choose(&around(10.0), around(5.0)), Mechanism::Prefault);
        let class = Class::judge(CLASS, &around(1.0), &[]).unwrap();
        assert_eq!(class.text(), "off: forward is as fast");
    }

    /// The slots of the first of them once overflowed.
    #[test]
    fn a_file_cannot_ask_for_any_number_of_threads_or_bytes() {
        let with = |threads, chunk_bytes| {
            let staged = Mechanism::Staged {
                threads,
                chunk_bytes,
            };
            let mut class = Class::judge(CLASS, &around(10.0), &[]).unwrap();
            class.choice = staged;
            Calibration {
                classes: vec![class],
            }
        };
        assert!(with(8, 4 << 20).is_sane());
        for (threads, chunk_bytes) in [(usize::MAX, 4096), (0, 4096), (8, 0), (8, usize::MAX)] {
            assert!(!with(threads, chunk_bytes).is_sane());
        }
        assert_eq!(Shape::new(usize::MAX, 4096).slots, usize::MAX);
    }

    #[test]
    fn a_calibration_survives_its_file() {
        let others = [(
            Mechanism::Staged {
                threads: 2,
                chunk_bytes: 4096,
            },
            around(1.0),
        )];
        let class = Class::judge(CLASS, &around(10.0), &others).unwrap();
        let calibration = Calibration {
            classes: vec![class],
        };
        let text = serde_json::to_string(&calibration).unwrap();
        assert_eq!(
            serde_json::from_str::<Calibration>(&text).unwrap(),
            calibration
        );
        for cut in 0..text.len() {
            assert!(serde_json::from_str::<Calibration>(&text[..cut]).is_err());
        }
    }
}
