//! Device to host: the footprint of a read, the rule table, and the prefault.

mod footprint;
mod outcome;
mod plan;
mod rules;
mod warmth;

pub use footprint::{Footprint, FootprintError, ImageShape, Spans};
pub use outcome::Outcome;
pub use plan::{Context, Done, Plan, prepare, wrote};
pub use rules::Rules;
