//! Two arrays, one verdict.

use towpath_measure::judge::{self, Direction, Judgement, Question, Verdict};

use crate::boundary::{Answer, affordable, guard, one, put, slice};
use crate::status::{tp_status, tp_status as Status};

/// What the data show about B against A.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub enum tp_verdict {
    /// B is proven better.
    TP_FASTER = 0,
    /// B is proven worse.
    TP_SLOWER = 1,
    /// B is proven to lie within the margin of A.
    TP_EQUIVALENT = 2,
    /// The data carry no claim.
    TP_INCONCLUSIVE = 3,
}

/// What is asked of the data, decided before looking at them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct tp_question {
    /// Not 0: more is better (frames per second). 0: less is better (times).
    pub higher_is_better: i32,
    /// Largest relative difference that does not matter (0.01 is 1 %); 0: equivalence is not asked for.
    pub margin: f64,
    /// Accepted chance of a false alarm, such as 0.05.
    pub level: f64,
}

/// The verdict with its evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct tp_judgement {
    /// The claim.
    pub verdict: tp_verdict,
    /// Not 0: `estimate`, `low` and `high` are ratios B / A; 0: differences B - A (some value was not positive).
    pub is_ratio: i32,
    /// Estimate of the ratio or difference; NaN if there is none.
    pub estimate: f64,
    /// Lower end of the interval at 1 - level; NaN if the data do not bound it.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Two-sided p-value of "no difference".
    pub p: f64,
}

/// Judges pairs: `a[i]` and `b[i]` were measured next to each other, in random order.
///
/// Stores the judgement in `*judgement`. TP_ERROR_INVALID: a value is not finite, or the question is not one.
/// Any thread; allocates and frees; nothing is kept.
///
/// # Safety
///
/// `a` and `b` are null or valid for reads of `pairs` doubles; `question` is null or valid for a read;
/// `judgement` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_measure_paired(
    a: *const f64,
    b: *const f64,
    pairs: usize,
    question: *const tp_question,
    judgement: *mut tp_judgement,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let a = unsafe { slice(a, pairs) }?;
        // SAFETY: the caller's promise.
        let b = unsafe { slice(b, pairs) }?;
        // SAFETY: the caller's promise.
        let question = unsafe { read(question) }?;
        affordable(pairs, BYTES_EACH)?;
        let judged = judge::paired(a, b, &question).map_err(|_bad| Status::TP_ERROR_INVALID)?;
        // SAFETY: the caller's promise.
        unsafe { put(judgement, judged.into()) }
    })
}

/// Judges independent runs of A and of B. As `tp_measure_paired`, with a length for each.
///
/// # Safety
///
/// `a` is null or valid for reads of `runs_a` doubles, `b` likewise; `question` is null or valid for a read;
/// `judgement` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_measure_unpaired(
    a: *const f64,
    runs_a: usize,
    b: *const f64,
    runs_b: usize,
    question: *const tp_question,
    judgement: *mut tp_judgement,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let a = unsafe { slice(a, runs_a) }?;
        // SAFETY: the caller's promise.
        let b = unsafe { slice(b, runs_b) }?;
        // SAFETY: the caller's promise.
        let question = unsafe { read(question) }?;
        affordable(runs_a.saturating_add(runs_b), BYTES_EACH)?;
        let judged = judge::unpaired(a, b, &question).map_err(|_bad| Status::TP_ERROR_INVALID)?;
        // SAFETY: the caller's promise.
        unsafe { put(judgement, judged.into()) }
    })
}

/// What judging takes for each value: ranks, differences and sorted copies.
const BYTES_EACH: usize = 6 * size_of::<f64>();

/// # Safety
///
/// `question` is null or valid for a read.
unsafe fn read(question: *const tp_question) -> Answer<Question> {
    // SAFETY: the caller's promise.
    let question = unsafe { one(question) }?;
    Ok(Question {
        direction: if question.higher_is_better == 0 {
            Direction::Lower
        } else {
            Direction::Higher
        },
        margin: question.margin,
        level: question.level,
        ..Question::lower_is_better()
    })
}

impl From<Judgement> for tp_judgement {
    fn from(judged: Judgement) -> Self {
        Self {
            verdict: match judged.verdict {
                Verdict::Faster => tp_verdict::TP_FASTER,
                Verdict::Slower => tp_verdict::TP_SLOWER,
                Verdict::Equivalent => tp_verdict::TP_EQUIVALENT,
                Verdict::Inconclusive => tp_verdict::TP_INCONCLUSIVE,
            },
            is_ratio: i32::from(judged.scale == judge::Scale::Ratio),
            estimate: judged.estimate.unwrap_or(f64::NAN),
            low: judged.low.unwrap_or(f64::NAN),
            high: judged.high.unwrap_or(f64::NAN),
            p: judged.p,
        }
    }
}
