//! Clocks, samples, statistics and verdicts: the only place where a number becomes a claim.
//!
//! # What this crate does
//!
//! - Takes time through one [`Clock`], so that tests can drive it.
//! - Judges two arms: [`judge::paired`], [`judge::unpaired`], [`judge::sequential`]. The run (or the
//!   pair of runs) is the unit, never the frame.
//! - Says beforehand what a design can prove: [`plan`].
//!
//! # What it does not do
//!
//! - It never prints, reads settings or opens files; `report` and `cli` do.
//! - It knows nothing of Vulkan, OpenCL or DRM.
//!
//! # Invariants
//!
//! - A value that is not finite is refused before anything is ordered or summed.
//! - Everything random is seeded and repeatable on every machine.
//! - Logarithms, powers and their like are `libm`'s, compiled in: those of `f64` are the C library's, and differ in
//!   their last digits from one to the next (`clippy.toml` forbids them).
//!
//! # Example
//!
//! ```
//! use towpath_measure::judge::{self, Question, Verdict};
//!
//! let off = [10.1, 10.3, 9.9, 10.2, 10.0, 10.4];
//! let on = [9.0, 9.2, 8.9, 9.1, 9.0, 9.2];
//! let judged = judge::paired(&off, &on, &Question::lower_is_better())?;
//! assert_eq!(judged.verdict, Verdict::Faster);
//! # Ok::<(), towpath_measure::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod clock;
mod convert;
pub mod design;
pub mod drift;
mod encoding;
mod error;
pub mod frames;
pub mod judge;
pub mod multiple;
pub mod permutation;
pub mod plan;
pub mod prediction;
pub mod random;
pub mod ranks;
pub mod results;
pub mod sample;
pub mod signflip;
pub mod simulation;
mod special;
pub mod student;
pub mod ttest;
pub mod units;

pub use clock::{Clock, ManualClock, MonotonicClock};
pub use error::{Arm, Error, Result};
pub use judge::Verdict;
pub use units::{Nanos, SignedNanos};
