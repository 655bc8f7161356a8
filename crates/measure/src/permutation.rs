//! The permutation test of two independent samples on the difference of means.

use crate::error::{Error, Result};
use crate::random::Random;
use crate::sample::{check_finite, mean};

/// Up to so many deals of the values to the arms are enumerated; above, so many random ones are drawn.
pub const DEALS_MAX: usize = 100_000;

/// A permutation test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Permutation {
    /// Two-sided p-value (twice the smaller tail, as scipy has it).
    pub p: f64,
    /// Whether all deals were looked at.
    pub is_exact: bool,
}

/// Tests the difference of means: exact up to [`DEALS_MAX`] deals, else by seeded random deals.
///
/// # Errors
///
/// [`Error::NotFinite`]; [`Error::TooFew`] if a sample is empty.
pub fn permutation(a: &[f64], b: &[f64], seed: u64) -> Result<Permutation> {
    check_finite(a, "A")?;
    check_finite(b, "B")?;
    let have = a.len().min(b.len());
    if have == 0 {
        return Err(Error::TooFew {
            what: "a permutation test",
            need: 1,
            have,
        });
    }
    let mut both: Vec<f64> = a.iter().chain(b).copied().collect();
    // Centred, so that sums of large values keep their digits.
    let center = mean(&both);
    for value in &mut both {
        *value -= center;
    }
    let seen: f64 = both.iter().take(a.len()).sum();
    let scale = both
        .iter()
        .fold(0.0_f64, |most, value| most.max(value.abs()));
    let hair = 1e-12 * scale * both.len() as f64;
    let mut tails = Tails {
        seen,
        hair,
        at_most: 0,
        at_least: 0,
        all: 0,
    };
    let is_exact = deals(both.len(), a.len()) <= DEALS_MAX as f64;
    if is_exact {
        enumerate(&both, a.len(), 0.0, &mut tails);
        return Ok(Permutation {
            p: tails.p(0),
            is_exact,
        });
    }
    let mut random = Random::new(seed);
    for _ in 0..DEALS_MAX {
        // Only the first a.len() places matter: a partial shuffle deals them.
        for place in 0..a.len() {
            let other = place + random.below(both.len() - place);
            both.swap(place, other);
        }
        tails.count(both.iter().take(a.len()).sum());
    }
    // The deal that was seen is one of them (Phipson and Smyth 2010).
    Ok(Permutation {
        p: tails.p(1),
        is_exact,
    })
}

struct Tails {
    seen: f64,
    hair: f64,
    at_most: usize,
    at_least: usize,
    all: usize,
}

impl Tails {
    fn count(&mut self, sum: f64) {
        self.all += 1;
        self.at_most += usize::from(sum <= self.seen + self.hair);
        self.at_least += usize::from(sum >= self.seen - self.hair);
    }

    fn p(&self, seen: usize) -> f64 {
        let few = self.at_most.min(self.at_least) + seen;
        (2.0 * few as f64 / (self.all + seen) as f64).min(1.0)
    }
}

fn deals(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| (n - k + i) as f64 / i as f64).product()
}

/// Goes through all ways to choose `choose` of `values`.
fn enumerate(values: &[f64], choose: usize, sum: f64, tails: &mut Tails) {
    if choose == 0 {
        tails.count(sum);
        return;
    }
    for (place, value) in values.iter().enumerate() {
        let rest = values.get(place + 1..).unwrap_or_default();
        if rest.len() + 1 < choose {
            break;
        }
        enumerate(rest, choose - 1, sum + value, tails);
    }
}
