//! Deciding about one read, and doing what was decided.

use towpath_measure::{Clock, MonotonicClock, Nanos};
use towpath_memory::residency::{Fault, Scanner, Visited};
use towpath_memory::{Prefault, Range, faults, fork, prefault_all};
use towpath_settings::{Fix, Fixes, Mode};

use super::huge;
use super::rules::forbids;
use super::warmth::{Look, Warmth};
use super::{Footprint, Outcome, Rules};

/// What a decision rests on besides the footprint.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The fixes in force, from the ledger's control word or the settings.
    pub fixes: Fixes,
    /// The device's rules, from its calibration or the default.
    pub rules: &'a Rules,
}

/// What to do about one read. Made by [`prepare`]; holds no reference to the program's memory.
#[derive(Clone, Debug)]
#[must_use = "a plan does nothing until it is run"]
pub struct Plan {
    /// Cold bytes found; `None` where nobody looked or it is not known.
    cold_bytes: Option<usize>,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Forward(Outcome),
    Prefault {
        pieces: Vec<Range>,
        how: Prefault,
        skip_huge: bool,
    },
}

/// What was done before the call was forwarded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Done {
    /// Cold bytes found before; 0 where nobody looked.
    pub cold_bytes: u64,
    /// Page faults that the prefault took in place of the driver.
    pub faults: u64,
    /// Time that the prefault took.
    pub wall: Nanos,
    /// What was done, or why nothing.
    pub outcome: Outcome,
}

impl Plan {
    /// Whether [`Self::run`] will bring pages in. A layer then flushes the queue first if the call is
    /// blocking, so that the device works meanwhile; a blocking read flushes anyway.
    #[must_use]
    pub const fn is_prefault(&self) -> bool {
        matches!(self.action, Action::Prefault { .. })
    }

    /// Why nothing will be done; `None` if pages will be brought in.
    #[must_use]
    pub const fn reason(&self) -> Option<Outcome> {
        match self.action {
            Action::Forward(outcome) => Some(outcome),
            Action::Prefault { .. } => None,
        }
    }

    /// Cold bytes found; `None` where nobody looked or it is not known.
    #[must_use]
    pub const fn cold_bytes(&self) -> Option<usize> {
        self.cold_bytes
    }

    /// Does what was decided. Never fails: whatever goes wrong is in [`Done::outcome`], and the call is
    /// forwarded all the same.
    ///
    /// # Cost
    ///
    /// None for a plan that forwards. Else as [`prefault_all`].
    pub fn run(self) -> Done {
        let cold_bytes = self.cold_bytes.unwrap_or(0) as u64;
        let done = |faults, wall, outcome| Done {
            cold_bytes,
            faults,
            wall,
            outcome,
        };
        let (pieces, how, skip_huge) = match self.action {
            Action::Forward(outcome) => return done(0, Nanos::ZERO, outcome),
            Action::Prefault {
                pieces,
                how,
                skip_huge,
            } => (pieces, how, skip_huge),
        };
        let start = MonotonicClock.now();
        if skip_huge && huge::comes(&pieces) {
            return done(1, MonotonicClock.now().since(start), Outcome::NoGain);
        }
        let answer = prefault_all(&pieces, &how);
        done(
            answer.as_ref().map_or(0, |done| done.faults),
            MonotonicClock.now().since(start),
            answer.map_or(Outcome::Failed, |_done| Outcome::Prefaulted),
        )
    }
}

/// Decides about a read into `footprint`. Looks at page tables; changes nothing.
///
/// With the fix off it still looks, so that `towpath run` can say what the fix would save.
///
/// # Cost
///
/// Below the floor a few nanoseconds. For a warm destination seen before: some 7 microseconds, and up to
/// 16 MiB no system call 31 times in 32 if [`took`] is told of its reads, else seven times in eight.
/// Allocates only where pages are cold and the fix is on.
pub fn prepare(footprint: &Footprint, context: &Context<'_>) -> Plan {
    prepare_with(footprint, context, &WARMTH)
}

/// Tells what a blocking read took from decision to end that [`prepare`] took for warm
/// ([`Outcome::AlreadyWarm`]): a slow one, in which the process took page faults, makes the next look at the
/// destination a close one.
///
/// # Cost
///
/// Some nanoseconds; for a slow one a system call.
pub fn took(footprint: &Footprint, wall: Nanos) {
    WARMTH.took(footprint.envelope(), wall.0, faults::of_process);
}

static WARMTH: Warmth = Warmth::new();

/// Tells that the driver has written all of `footprint`: after a fork, this makes warmth known again.
///
/// # Cost
///
/// A few nanoseconds where the process never forked.
pub fn wrote(footprint: &Footprint) {
    if fork::generation() != 0 && footprint.spans().len() == 1 {
        fork::note_written(footprint.envelope());
    }
}

fn prepare_with(footprint: &Footprint, context: &Context<'_>, warmth: &Warmth) -> Plan {
    let forward = |outcome, cold_bytes| Plan {
        cold_bytes,
        action: Action::Forward(outcome),
    };
    let (rules, mode) = (context.rules, context.fixes.mode(Fix::Readback));
    if footprint.bytes() < rules.floor_bytes {
        return forward(Outcome::TooSmall, None);
    }
    let envelope = footprint.envelope();
    let scanner = match warmth.look(envelope) {
        Look::Not => return forward(Outcome::AlreadyWarm, Some(0)),
        Look::Closely => Scanner::new(),
        Look::Sample => {
            let scanner = Scanner::new();
            if scanner.any_cold(envelope, SAMPLES) == Some(false) {
                return forward(Outcome::AlreadyWarm, Some(0));
            }
            scanner
        }
    };
    if footprint.spans().len() > SPANS_MAX {
        return forward(Outcome::TooScattered, None);
    }
    let cold = Cold::find(footprint, &scanner, mode.is_on());
    if cold.is_known && cold.bytes < rules.cold_bytes_min {
        warmth.was_warm(envelope);
        return forward(Outcome::AlreadyWarm, Some(cold.bytes));
    }
    warmth.was_cold(envelope);
    let cold_bytes = cold.is_known.then_some(cold.bytes);
    match mode {
        Mode::Off => return forward(Outcome::Off, cold_bytes),
        Mode::Auto if rules.prefault_pays == Some(false) => {
            return forward(Outcome::NoGain, cold_bytes);
        }
        Mode::Auto | Mode::Forced => {}
    }
    if let Some(outcome) = forbids(envelope, cold.bytes) {
        return forward(outcome, cold_bytes);
    }
    Plan {
        cold_bytes,
        action: Action::Prefault {
            how: rules.prefault(cold.bytes, cold.replaced_bytes),
            skip_huge: rules.skip_huge && mode == Mode::Auto,
            pieces: cold.pieces,
        },
    }
}

/// The cold parts of a footprint.
struct Cold {
    bytes: usize,
    /// Of these, bytes of pages that have to be taken away first: the page of zeros, or shared ones.
    replaced_bytes: usize,
    pieces: Vec<Range>,
    is_known: bool,
}

impl Cold {
    /// Walks the spans. Pieces are kept only where `keep` says so; near ones are joined.
    fn find(footprint: &Footprint, scanner: &Scanner, keep: bool) -> Self {
        let mut cold = Self {
            bytes: 0,
            replaced_bytes: 0,
            pieces: Vec::new(),
            is_known: true,
        };
        for span in footprint.spans() {
            let pieces_before = cold.pieces.len();
            let visited = scanner.visit_faults(span, &mut |piece, fault| {
                cold.bytes += piece.len;
                if fault == Fault::Replaced {
                    cold.replaced_bytes += piece.len;
                }
                if keep {
                    join(&mut cold.pieces, pieces_before, piece);
                }
            });
            if let Visited::Unknown(_) = visited {
                // Bring in all of it: pages that are present and unshared cost little.
                cold.is_known = false;
                cold.bytes += span.len;
                cold.replaced_bytes += span.len;
                cold.pieces.truncate(pieces_before);
                if keep {
                    cold.pieces.push(span);
                }
            }
        }
        cold
    }
}

/// Adds a piece, joined to the last of the same span if few warm pages lie between.
fn join(pieces: &mut Vec<Range>, first: usize, piece: Range) {
    let joins = pieces.len() > first;
    match pieces.last_mut() {
        Some(last) if joins && piece.address - last.end() <= JOIN_BYTES => {
            *last = Range::between(last.address, piece.end());
        }
        _ => pieces.push(piece),
    }
}

/// Eight pages, each asked in about 0.4 microseconds; a new mapping is cold at all of them.
const SAMPLES: usize = 8;
/// 64 KiB: going over 16 present pages costs as much as one more system call.
const JOIN_BYTES: usize = 64 << 10;
/// Rows handled one by one; each costs about a microsecond to look at.
const SPANS_MAX: usize = 4096;
