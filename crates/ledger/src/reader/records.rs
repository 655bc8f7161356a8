//! What a reader gives: plain values, already doubted and cleaned.

use towpath_measure::{Nanos, SignedNanos};

use crate::{HostPath, Outcome};

/// Calls of one site by outcome.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutcomeCount {
    /// The number in the file.
    pub number: u16,
    /// What it means; `None` for a number that this version does not know.
    pub outcome: Option<Outcome>,
    /// How many calls.
    pub calls: u64,
}

impl OutcomeCount {
    /// What it means, in words.
    #[must_use]
    pub fn text(&self) -> String {
        let unknown = || format!("outcome {}", self.number);
        self.outcome
            .map_or_else(unknown, |known| known.text().to_owned())
    }
}

/// One frame of a stack.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StackFrame {
    /// Path of the module; the program's name for the program itself.
    pub module: String,
    /// Return address as an offset from the module's base.
    pub offset: u64,
}

/// Counts by significant bits: bucket n holds values from `2^(n-1)` up to `2^n - 1`, bucket 0 zeros.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Buckets(pub Vec<u64>);

impl Buckets {
    /// How many values were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Adds counts that were kept elsewhere. The writer may have taken from them what it counted in
    /// another bucket, and a reader may see that before the count itself: never below zero.
    pub(crate) fn add(&mut self, more: &Self) {
        for (to, from) in self.0.iter_mut().zip(&more.0) {
            *to = from.saturating_add_signed(to.cast_signed());
        }
    }

    /// An upper bound of the smallest value that at least `share` (0 to 1) of the values do not
    /// exceed; `None` without values.
    #[must_use]
    pub fn quantile_at_most(&self, share: f64) -> Option<u64> {
        let wanted = self.total() as f64 * share.clamp(0.0, 1.0);
        let mut sum = 0_u64;
        for (bits, count) in (0_u32..).zip(&self.0) {
            sum = sum.saturating_add(*count);
            if *count > 0 && sum as f64 >= wanted {
                return Some(1_u64.checked_shl(bits).map_or(u64::MAX, |end| end - 1));
            }
        }
        None
    }
}

/// What one site of the program cost.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its identity, equal between runs of one program.
    pub hash: u64,
    /// The host path; `None` for a number that this version does not know.
    pub path: Option<HostPath>,
    /// The API's function; `?` if the process died before naming it.
    pub call: String,
    /// The device.
    pub device: String,
    /// Where the program called from, innermost first.
    pub stack: Vec<StackFrame>,
    /// Hash of the stack; 0 without one.
    pub stack_hash: u64,
    /// Calls.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Wall time as the program saw it.
    pub wall: Nanos,
    /// Minor faults within the calls.
    pub faults: u64,
    /// Bytes whose pages were absent before the call.
    pub cold_bytes: u64,
    /// Calls of which cold bytes are not known.
    pub cold_unknown_calls: u64,
    /// Bytes and wall time of the calls into wholly warm memory.
    pub warm_bytes: u64,
    /// See `warm_bytes`.
    pub warm_wall: Nanos,
    /// Estimate of what fixes saved.
    pub saved: SignedNanos,
    /// The longest call.
    pub longest: Nanos,
    /// Calls by outcome, without those of no call.
    pub outcomes: Vec<OutcomeCount>,
    /// Calls by wall time in nanoseconds; the last bucket is open.
    pub walls: Buckets,
    /// Whether this is the site that takes what finds no room in the table.
    pub is_overflow: bool,
}

/// One of the slowest calls.
#[derive(Clone, Debug)]
pub struct SlowCall {
    /// Its site's identity; 0 if that is damaged.
    pub site_hash: u64,
    /// When it began, by the monotonic clock; zero if not known.
    pub start: Nanos,
    /// How long it took.
    pub wall: Nanos,
    /// Bytes moved.
    pub bytes: u64,
    /// Cold bytes; `None` if not known.
    pub cold_bytes: Option<u64>,
    /// Minor faults.
    pub faults: u64,
    /// What was done; `None` for a number that this version does not know.
    pub outcome: Option<Outcome>,
}

/// Presented frames.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FrameLog {
    /// How many were presented in all.
    pub presented: u64,
    /// Present times of the newest ones, oldest first, by the monotonic clock.
    pub times: Vec<Nanos>,
}
