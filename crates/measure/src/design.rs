//! The order of runs: random inside pairs, balanced over blocks of two pairs, from a recorded seed.

use crate::error::Arm;
use crate::random::Random;

/// The order in which the two runs of each pair are made.
///
/// Pairs come in blocks of two, one `A B` and one `B A` in random order: a steady drift of the machine
/// cancels, and a paired test stays at its level (`measure` tests, `false_alarms`). An odd last pair is a coin.
///
/// The first pairs of a longer design are those of a shorter one with the same seed.
#[must_use]
pub fn order(seed: u64, pairs: usize) -> Vec<[Arm; 2]> {
    let mut random = Random::new(seed);
    let mut orders = Vec::with_capacity(pairs + 1);
    while orders.len() < pairs {
        let first = if random.coin() { Arm::A } else { Arm::B };
        orders.push([first, first.other()]);
        orders.push([first.other(), first]);
    }
    orders.truncate(pairs);
    orders
}

/// The order of the runs of each round of three arms.
///
/// Rounds come in blocks of two, the second in the opposite order of the first: a steady drift cancels here too,
/// for each two of the arms.
#[must_use]
pub fn order_of_three(seed: u64, rounds: usize) -> Vec<[Arm; 3]> {
    let mut random = Random::new(seed);
    let mut orders = Vec::with_capacity(rounds + 1);
    while orders.len() < rounds {
        let mut round = [Arm::A, Arm::B, Arm::C];
        round.rotate_left(random.below(3));
        if random.coin() {
            round.reverse();
        }
        orders.push(round);
        round.reverse();
        orders.push(round);
    }
    orders.truncate(rounds);
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_of_two_pairs_has_both_orders() {
        for seed in 0..50 {
            let orders = order(seed, 20);
            assert_eq!(orders.len(), 20);
            for block in orders.chunks(2) {
                assert_eq!(block[0][0], block[1][1]);
                assert_ne!(block[0][0], block[0][1]);
            }
        }
    }

    #[test]
    fn rounds_of_three_hold_each_arm_once_in_every_order() {
        let orders = order_of_three(3, 400);
        let mut seen = std::collections::BTreeSet::new();
        for block in orders.chunks(2) {
            let mut mirrored = block[1];
            mirrored.reverse();
            assert_eq!(block[0], mirrored);
            let mut arms = block[0];
            arms.sort_unstable();
            assert_eq!(arms, [Arm::A, Arm::B, Arm::C]);
            seen.insert(block[0]);
        }
        assert_eq!(seen.len(), 6, "three rotations, forwards and backwards");
        assert_eq!(order_of_three(7, 5)[..], order_of_three(7, 40)[..5]);
    }

    #[test]
    fn a_longer_design_starts_like_the_shorter_one() {
        assert_eq!(order(7, 5)[..], order(7, 40)[..5]);
        assert_ne!(order(1, 40), order(2, 40));
        assert!(order(1, 0).is_empty());
    }
}
