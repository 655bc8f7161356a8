//! The claim of a place in a table by the hash of its content, without locks.
//!
//! A place is free while its hash is 0. Claiming is one compare-and-swap, so that of several threads
//! with one hash all get the same place, and threads with different hashes different ones. Nobody
//! waits: names are filled in after the claim, counts may be added before they are.

use std::sync::atomic::{AtomicU64, Ordering};

/// The word by which a place is claimed: an atomic of std, or of a model checker.
pub(crate) trait Word {
    /// The present value.
    fn load(&self) -> u64;
    /// Puts `hash` where 0 is; the earlier value otherwise.
    fn claim(&self, hash: u64) -> Result<(), u64>;
}

impl Word for AtomicU64 {
    fn load(&self) -> u64 {
        // Relaxed: the word is its own message, nothing else is read because of it.
        Self::load(self, Ordering::Relaxed)
    }

    fn claim(&self, hash: u64) -> Result<(), u64> {
        self.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed)
            .map(|_| ())
    }
}

/// What became of a search for a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// It was there.
    Found(usize),
    /// This call claimed it, and is the only one that did.
    Claimed(usize),
    /// Every place belongs to another hash.
    Full,
}

/// Finds or claims the place of `hash` (not 0) among `count` places.
///
/// # Cost
///
/// One load for a known hash without collision, at most `count`.
pub(crate) fn place<'a, W: Word + 'a>(
    words: impl Fn(usize) -> Option<&'a W>,
    count: usize,
    hash: u64,
) -> Place {
    let places = u64::try_from(count).unwrap_or(1).max(1);
    let first = usize::try_from(hash % places).unwrap_or(0);
    for step in 0..count {
        let index = (first + step) % count;
        let Some(word) = words(index) else {
            return Place::Full;
        };
        let found = match word.load() {
            0 => match word.claim(hash) {
                Ok(()) => return Place::Claimed(index),
                // Another thread was faster, perhaps with the same hash.
                Err(found) => found,
            },
            found => found,
        };
        if found == hash {
            return Place::Found(index);
        }
    }
    Place::Full
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Word for loom::sync::atomic::AtomicU64 {
        fn load(&self) -> u64 {
            Self::load(self, Ordering::Relaxed)
        }

        fn claim(&self, hash: u64) -> Result<(), u64> {
            self.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed)
                .map(|_| ())
        }
    }

    /// Runs `hashes` in a thread each on two places and gives the answers, in the interleavings of the bound below.
    fn model(hashes: [u64; 3], check: impl Fn([Place; 3]) + Sync + Send + 'static) {
        use loom::sync::Arc;
        use loom::sync::atomic::AtomicU64;
        let check = std::sync::Arc::new(check);
        let mut model = loom::model::Builder::new();
        // All interleavings of three threads take a minute; two switches at unwilling places show
        // every order of two claims.
        model.preemption_bound = Some(2);
        model.check(move || {
            let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let threads = hashes.map(|hash| {
                let words = Arc::clone(&words);
                loom::thread::spawn(move || place(|at| words.get(at), 2, hash))
            });
            check(threads.map(|thread| thread.join().unwrap()));
        });
    }

    #[test]
    fn one_hash_gets_one_place_and_one_claimer_in_every_interleaving() {
        model([5, 5, 5], |places| {
            let claimed = places
                .iter()
                .filter(|p| matches!(p, Place::Claimed(1)))
                .count();
            let found = places
                .iter()
                .filter(|p| matches!(p, Place::Found(1)))
                .count();
            assert_eq!((claimed, found), (1, 2), "{places:?}");
        });
    }

    #[test]
    fn colliding_hashes_never_share_a_place_and_the_surplus_is_told() {
        model([2, 4, 6], |places| {
            for index in 0..2 {
                let claims = places
                    .iter()
                    .filter(|p| **p == Place::Claimed(index))
                    .count();
                assert_eq!(claims, 1, "{places:?}");
            }
            let full = places.iter().filter(|p| **p == Place::Full).count();
            assert_eq!(full, 1, "{places:?}");
        });
    }
}
