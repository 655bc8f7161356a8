//! The result file: what was asked, on what machine, and every raw run.
//!
//! One JSON object with `"schema": "towpath.ab/1"` (or `towpath.compare/1`, `towpath.frames/1`; the fields are the
//! same). Judgements are stored for other programs' sake and recomputed whenever towpath reads the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use towpath_measure::judge::{Direction, Judgement, Question, Scale};
use towpath_measure::{Arm, Verdict};

use crate::machine::Machine;

/// The schema that `towpath ab` writes.
pub const SCHEMA_AB: &str = "towpath.ab/1";
/// The schema that `towpath compare` writes.
pub const SCHEMA_COMPARE: &str = "towpath.compare/1";
/// The schema that `towpath frames` writes.
pub const SCHEMA_FRAMES: &str = "towpath.frames/1";

/// Why a result file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not JSON, or not of this shape.
    #[error("this is no result file of towpath (line {line}, column {column})")]
    Shape {
        /// Line of the first thing that does not fit.
        line: usize,
        /// Column in it.
        column: usize,
        /// The reader's answer.
        source: serde_json::Error,
    },
    /// A schema that this version does not know.
    #[error("schema `{schema}` is not known to this version of towpath")]
    Schema {
        /// What the file says.
        schema: String,
    },
    /// Blocks of different experiments.
    #[error("block {block} cannot be joined to the first: {difference}")]
    Merge {
        /// Which file, from 1.
        block: usize,
        /// What differs.
        difference: String,
    },
    /// The file cannot be written as JSON.
    #[error("cannot write the result as JSON")]
    Write {
        /// The writer's answer.
        source: serde_json::Error,
    },
}

/// A whole comparison with every raw run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Name and version of this format.
    pub schema: String,
    /// Version of towpath that measured.
    pub towpath: String,
    /// When the first run began, UTC, RFC 3339.
    pub started: String,
    /// What is compared, in a few words: the command, or the files.
    pub title: String,
    /// Where it was measured.
    pub machine: Machine,
    /// Versions of what was measured and of what took part (drivers, layers, the program).
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// The command that both arms share; empty for logs.
    #[serde(default)]
    pub command: Vec<String>,
    /// How it was measured.
    pub design: Design,
    /// The reference.
    pub a: ArmSetup,
    /// What is compared with it.
    pub b: ArmSetup,
    /// What else is compared with it; without a label if there is no third arm.
    #[serde(default, skip_serializing_if = "ArmSetup::is_absent")]
    pub c: ArmSetup,
    /// What was read off each run.
    pub metrics: Vec<Metric>,
    /// Every run in the order in which they were made, failed ones included.
    pub runs: Vec<Run>,
    /// What the runs show; recomputed by [`ResultFile::judge`].
    #[serde(default)]
    pub judgements: Vec<MetricJudgement>,
    /// What a reader must know: failed runs, drift, joined blocks.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How a comparison was laid out, decided before the first run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// How runs belong together.
    pub pairing: Pairing,
    /// When it ends.
    pub stop: Stop,
    /// Seed of the order of runs (see `towpath_measure::design::order`).
    #[serde(default)]
    pub seed: Option<u64>,
    /// The one metric that was declared to decide; without one all are corrected together (Holm).
    #[serde(default)]
    pub primary: Option<String>,
    /// Largest relative difference that does not matter; 0: equivalence is not asked for.
    #[serde(default)]
    pub margin: f64,
    /// Accepted chance of a false alarm.
    pub level: f64,
    /// Ratios or differences.
    #[serde(default)]
    pub scale: Scale,
    /// Both arms are the same on purpose: the machine's own noise is measured.
    #[serde(default)]
    pub is_null: bool,
    /// Runs are shown, nothing is tested: no claim can come of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_described: bool,
}

impl Default for Design {
    /// Paired, of no fixed length, 5 % level, no margin.
    fn default() -> Self {
        Self {
            pairing: Pairing::Paired,
            stop: Stop::Given,
            seed: None,
            primary: None,
            margin: 0.0,
            level: 0.05,
            scale: Scale::Ratio,
            is_null: false,
            is_described: false,
        }
    }
}

/// How runs of the arms belong together.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairing {
    /// Each run of A has a run of B next to it, in random order.
    Paired,
    /// Independent runs.
    Unpaired,
}

/// When a comparison ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum Stop {
    /// After a number of pairs that was set before.
    Pairs {
        /// How many.
        pairs: usize,
    },
    /// After a time that was set before; results play no part in it.
    Budget {
        /// How long, in seconds.
        seconds: f64,
    },
    /// As soon as the e-process has proven something about the primary metric.
    UntilProven {
        /// Ends without proof after so many pairs.
        pairs_max: usize,
    },
    /// The runs were made by someone else.
    Given,
}

/// What one arm is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmSetup {
    /// Its name in tables: `off`, `on`, a file, a command.
    pub label: String,
    /// Fixes in force, as `TOWPATH_FIX` writes them.
    #[serde(default)]
    pub fix: Option<String>,
    /// Its own environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Its own command, if the arms differ in it.
    #[serde(default)]
    pub command: Vec<String>,
    /// Command before each of its runs.
    #[serde(default)]
    pub prepare: Option<String>,
}

impl ArmSetup {
    /// Whether there is no such arm.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.label.is_empty()
    }
}

/// Something that was read off each run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name: `wall`, `cpu`, `fps`.
    pub name: String,
    /// Its unit: `s`, `ms`, `fps`, `bytes`, or empty for counts.
    pub unit: String,
    /// Which way is better.
    pub better: Direction,
    /// What exactly it is, in one sentence.
    #[serde(default)]
    pub definition: String,
    /// Shown but not judged: no claim is made and no correction paid for it.
    #[serde(default)]
    pub is_informative: bool,
}

impl Metric {
    /// A metric that is judged.
    pub fn new(name: &str, unit: &str, better: Direction, definition: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            definition: definition.to_owned(),
            is_informative: false,
        }
    }

    /// The metric, shown only.
    #[must_use]
    pub fn informative(self) -> Self {
        Self {
            is_informative: true,
            ..self
        }
    }
}

/// One run of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which arm.
    pub arm: Arm,
    /// Its pair, from 0, counted through the file; for unpaired runs its number within the arm.
    pub pair: usize,
    /// Which block (session) it belongs to, from 0.
    #[serde(default)]
    pub block: usize,
    /// Seconds from the start of its block; `None` if unknown.
    #[serde(default)]
    pub started_s: Option<f64>,
    /// Where it comes from, if from a file.
    #[serde(default)]
    pub source: Option<String>,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What was read off it, by metric.
    pub readings: BTreeMap<String, Reading>,
    /// What belongs to this run alone: load, throttling, rejected rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// States in which it was made that a reader may want to tell apart (`throttled`). It counts all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// Frame times for drawing, if it had frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameLine>,
    /// Timed disk reads beside the run: seconds from its start, milliseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disk_reads: Vec<(f64, f64)>,
}

impl Run {
    /// A finished run without readings yet.
    pub fn new(arm: Arm, pair: usize) -> Self {
        Self {
            arm,
            pair,
            block: 0,
            started_s: None,
            source: None,
            outcome: RunOutcome::Finished,
            readings: BTreeMap::new(),
            notes: Vec::new(),
            marks: Vec::new(),
            frames: None,
            disk_reads: Vec::new(),
        }
    }

    /// Adds what was read; a value that is not finite becomes unavailable.
    pub fn read(&mut self, metric: &str, value: f64) {
        self.readings.insert(metric.to_owned(), Reading::of(value));
    }

    /// Adds that something could not be read, and why.
    pub fn cannot_read(&mut self, metric: &str, why: &str) {
        self.readings.insert(
            metric.to_owned(),
            Reading::Unavailable {
                unavailable: why.to_owned(),
            },
        );
    }

    /// The value of a metric, if the run counts and has it.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        match (&self.outcome, self.readings.get(metric)) {
            (RunOutcome::Finished, Some(Reading::Value { value, .. })) => Some(*value),
            _ => None,
        }
    }
}

/// How a run ended. Only finished runs are judged; the others are counted.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "end")]
pub enum RunOutcome {
    /// As it should.
    Finished,
    /// With an exit code that counts as failure.
    Failed {
        /// The code.
        code: i32,
    },
    /// Killed by a signal.
    Killed {
        /// Its number.
        signal: i32,
    },
    /// It took longer than allowed.
    TimedOut,
    /// Could not be started, or did not print what was asked for.
    Broken {
        /// What went wrong.
        why: String,
    },
    /// Taken out by hand, with a recorded reason.
    Excluded {
        /// Why.
        reason: String,
    },
}

impl RunOutcome {
    /// The ending in words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Finished => "finished".to_owned(),
            Self::Failed { code } => format!("ended with code {code}"),
            Self::Killed { signal } => format!("killed by signal {signal}"),
            Self::TimedOut => "timed out".to_owned(),
            Self::Broken { why } => why.clone(),
            Self::Excluded { reason } => format!("excluded: {reason}"),
        }
    }
}

/// What was read off a run for one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reading {
    /// A number.
    Value {
        /// The run's value.
        value: f64,
        /// Repeats within the run that it summarises; empty if it was read once.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repeats: Vec<f64>,
    },
    /// Not to be had, which is not 0.
    Unavailable {
        /// Why.
        unavailable: String,
    },
}

impl Reading {
    /// One value; unavailable if it is not finite.
    #[must_use]
    pub fn of(value: f64) -> Self {
        if value.is_finite() {
            Self::Value {
                value,
                repeats: Vec::new(),
            }
        } else {
            Self::Unavailable {
                unavailable: format!("not a finite number ({value})"),
            }
        }
    }

    /// Repeats within one run, summarised by their mean: they are one value of the run, not many.
    #[must_use]
    pub fn of_repeats(repeats: Vec<f64>) -> Self {
        match Self::of(towpath_measure::sample::mean(&repeats)) {
            Self::Value { value, .. } if repeats.iter().all(|repeat| repeat.is_finite()) => {
                Self::Value { value, repeats }
            }
            Self::Value { .. } => Self::Unavailable {
                unavailable: "a repeat is not finite".to_owned(),
            },
            unavailable @ Self::Unavailable { .. } => unavailable,
        }
    }
}

/// Frame times of a run, small enough to draw: the shortest and longest frame of each slice of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameLine {
    /// Frames in the run.
    pub frames: usize,
    /// Length of a slice, in seconds.
    pub slice_s: f64,
    /// Shortest and longest frame time that ended in each slice, in milliseconds; spikes survive.
    pub slices: Vec<(f64, f64)>,
    /// Frame times at rising shares: (share of frames at most that long, milliseconds).
    pub ladder: Vec<(f64, f64)>,
}

/// The verdict on one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricJudgement {
    /// Which metric.
    pub metric: String,
    /// Which arm was compared with A.
    #[serde(default = "arm_b", skip_serializing_if = "is_arm_b")]
    pub arm: Arm,
    /// Whether it was declared to decide.
    #[serde(default)]
    pub is_primary: bool,
    /// What the runs show.
    pub judgement: Judgement,
    /// Pairs (unpaired: runs) left out because a run failed or lacks this reading.
    #[serde(default)]
    pub left_out: usize,
}

const fn arm_b() -> Arm {
    Arm::B
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_arm_b(arm: &Arm) -> bool {
    *arm == Arm::B
}

impl ResultFile {
    /// An empty file of this version, of this machine, for now.
    pub fn new(schema: &str, title: &str) -> Self {
        Self {
            schema: schema.to_owned(),
            towpath: env!("CARGO_PKG_VERSION").to_owned(),
            started: crate::machine::now_rfc3339(),
            title: title.to_owned(),
            machine: Machine::default(),
            versions: BTreeMap::new(),
            command: Vec::new(),
            design: Design::default(),
            a: ArmSetup {
                label: "A".to_owned(),
                ..ArmSetup::default()
            },
            b: ArmSetup {
                label: "B".to_owned(),
                ..ArmSetup::default()
            },
            c: ArmSetup::default(),
            metrics: Vec::new(),
            runs: Vec::new(),
            judgements: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Reads a result file.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`], [`Error::Schema`].
    pub fn from_json(text: &[u8]) -> Result<Self, Error> {
        let file: Self = serde_json::from_slice(text).map_err(|source| Error::Shape {
            line: source.line(),
            column: source.column(),
            source,
        })?;
        if [SCHEMA_AB, SCHEMA_COMPARE, SCHEMA_FRAMES].contains(&file.schema.as_str()) {
            Ok(file)
        } else {
            Err(Error::Schema {
                schema: file.schema,
            })
        }
    }

    /// Writes a result file, pretty, with a line end.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn to_json(&self) -> Result<String, Error> {
        let mut text =
            serde_json::to_string_pretty(self).map_err(|source| Error::Write { source })?;
        text.push('\n');
        Ok(text)
    }

    /// The arm's setup.
    #[must_use]
    pub const fn arm(&self, arm: Arm) -> &ArmSetup {
        match arm {
            Arm::A => &self.a,
            Arm::B => &self.b,
            Arm::C => &self.c,
        }
    }

    /// The arms that there are.
    #[must_use]
    pub fn arms(&self) -> &'static [Arm] {
        if self.c.is_absent() {
            &[Arm::A, Arm::B]
        } else {
            &[Arm::A, Arm::B, Arm::C]
        }
    }

    /// The metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// The question that the design asks about a metric.
    #[must_use]
    pub fn question(&self, metric: &Metric) -> Question {
        Question {
            direction: metric.better,
            margin: self.design.margin,
            level: self.design.level,
            scale: self.design.scale,
        }
    }

    /// The judgement that a reader wants first: the primary metric's, else the first that claims something,
    /// else the first.
    #[must_use]
    pub fn headline(&self) -> Option<&MetricJudgement> {
        let claims = |judged: &&MetricJudgement| judged.judgement.verdict != Verdict::Inconclusive;
        self.judgements
            .iter()
            .find(|judged| judged.is_primary)
            .or_else(|| self.judgements.iter().find(claims))
            .or_else(|| self.judgements.first())
    }

    /// The metric that charts show: the headline's, or without a test the one that was declared to decide.
    #[must_use]
    pub fn lead(&self) -> Option<&Metric> {
        let name = self
            .headline()
            .map(|judged| judged.metric.as_str())
            .or(self.design.primary.as_deref());
        name.map_or_else(|| self.metrics.first(), |name| self.metric(name))
    }
}
