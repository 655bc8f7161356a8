//! Measurements and ledgers as text and data.
//!
//! # What this crate does
//!
//! - Holds the format of a result file ([`ResultFile`], `towpath.ab/1`): every raw run, so that it can be judged again.
//! - Judges a result file ([`judging`]) and joins files measured as blocks ([`merge`]).
//! - Sums the ledgers of a run and predicts what fixes would save: [`ledger`].
//! - Shows it: [`describe`] where nothing can be tested, [`terminal`], [`markdown`], [`csv`], [`junit`], [`html`]; [`ministat`] is the old friend's format.
//!
//! # What it does not do
//!
//! - It prints nothing and chooses no file: renderers return text, `cli` puts it somewhere.
//! - It makes no claim of its own: verdicts come from `towpath-measure`.

#![forbid(unsafe_code)]

pub mod csv;
pub mod describe;
pub mod escape;
pub mod html;
pub mod judging;
pub mod junit;
pub mod ledger;
pub mod machine;
pub mod markdown;
pub mod merge;
pub mod ministat;
pub mod noise;
pub mod numbers;
pub mod observe;
pub mod result;
pub mod sentence;
pub mod terminal;

pub use machine::Machine;
pub use result::{Metric, Reading, ResultFile, Run, RunOutcome};
