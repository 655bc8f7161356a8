//! Device to host: the footprint of a read, the rule table, and the prefault.

mod footprint;
mod huge;
mod plan;
mod rules;
mod warmth;

pub use footprint::{Footprint, FootprintError, ImageShape, Spans};
pub use plan::{Context, Done, Plan, prepare, took, wrote};
pub use rules::Rules;
pub use towpath_ledger::Outcome;
