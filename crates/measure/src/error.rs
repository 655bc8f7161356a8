//! What can be wrong with numbers handed to this crate.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One side of a comparison.
#[derive(
    Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// The reference.
    A,
    /// What is compared with the reference.
    B,
    /// Something else that is compared with the same reference.
    C,
}

impl Arm {
    /// The arm that it is compared with: A for the others, B for A.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B | Self::C => Self::A,
        }
    }
}

impl std::fmt::Display for Arm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        })
    }
}

/// Why numbers cannot be judged. All are mistakes of the caller's data, found before any computation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// NaN or infinity in a sample.
    #[error("value {position} of {sample} is {value}, not a finite number", position = index + 1)]
    NotFinite {
        /// Which sample.
        sample: String,
        /// Its place, from 0.
        index: usize,
        /// What stands there.
        value: f64,
    },
    /// A value whose square is no number.
    #[error("value {position} of {sample} is {value:e}, larger than 1e150", position = index + 1)]
    BeyondRange {
        /// Which sample.
        sample: String,
        /// Its place, from 0.
        index: usize,
        /// What stands there.
        value: f64,
    },
    /// Pairs need as many A values as B values.
    #[error("pairs need as many values in A as in B, but there are {a} and {b}")]
    Unpaired {
        /// Values in A.
        a: usize,
        /// Values in B.
        b: usize,
    },
    /// A statistic needs more values than there are.
    #[error("{what} needs at least {need} values, but there are {have}")]
    TooFew {
        /// Which statistic.
        what: &'static str,
        /// How many it needs.
        need: usize,
        /// How many there are.
        have: usize,
    },
    /// A parameter outside its range.
    #[error("{name} is {value}, but must be {range}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What is allowed.
        range: &'static str,
    },
    /// An exact test would enumerate more cases than this program is willing to.
    #[error("{what} of {have} values is too large to enumerate exactly (at most {most})")]
    TooLarge {
        /// Which test.
        what: &'static str,
        /// How many values there are.
        have: usize,
        /// How many it takes.
        most: usize,
    },
}
