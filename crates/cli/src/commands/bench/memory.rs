//! Host memory in a known state, and content that can be checked.

use anyhow::{Context, Result};
use towpath_memory::{Huge, Mapping, Prefault, prefault};
use towpath_sys::madvise::{Advice, advise};

/// The state of the host memory before a sample.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum State {
    /// Every page present and written before.
    Warm,
    /// Fresh memory, no page present, no advice.
    Cold,
    /// As cold, in memory that was advised to use huge pages (what `glibc.malloc.hugetlb=1` does).
    #[value(name = "cold-thp")]
    ColdHuge,
    /// Read but never written: the page of zeros everywhere.
    ZeroPage,
    /// The first half present.
    HalfWarm,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::ColdHuge => "cold-thp",
            Self::ZeroPage => "zero-page",
            Self::HalfWarm => "half-warm",
        }
    }
}

/// Fresh memory of `bytes` in `state`.
pub(super) fn fresh(bytes: usize, state: State) -> Result<Mapping> {
    let mut mapping = Mapping::anonymous(bytes).context("no memory for a destination")?;
    let range = mapping.range();
    let populate = |len| {
        let half = towpath_memory::Range::between(range.address, range.address + len);
        let how = Prefault {
            huge: Huge::WholeBlocks,
            ..Prefault::default()
        };
        prefault(half, &how).context("cannot bring memory in")
    };
    match state {
        State::Cold => {}
        State::Warm => drop(populate(bytes)?),
        State::HalfWarm => drop(populate(bytes / 2)?),
        State::ColdHuge => {
            // Refused where the kernel has no huge pages: then it is the same as cold.
            let _refused = advise(range.address, range.len, Advice::HugePage);
        }
        State::ZeroPage => {
            let sum: usize = mapping
                .as_slice()
                .iter()
                .step_by(4096)
                .map(|byte| usize::from(*byte))
                .sum();
            // Uses the sum, so that the reads are not left out.
            if sum != 0
                && let Some(first) = mapping.as_mut_slice().first_mut()
            {
                *first = 0;
            }
        }
    }
    Ok(mapping)
}

/// Touches and frees as much memory as a sample needs, so that the host has it ready.
pub(super) fn warm_host(bytes: usize) -> Result<()> {
    towpath_memory::warm_host(2 * bytes + (32 << 20)).context("not enough memory for a bench")
}

/// `bytes` of content that differs at every place and between seeds, and is nowhere zero for long.
pub(super) fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        content.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    content.truncate(bytes);
    content
}
