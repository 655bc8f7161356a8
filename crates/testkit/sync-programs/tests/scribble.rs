//! A peer that scribbles over the shared page while threads of ours wait: wrong answers, and no more.

use std::time::{Duration, Instant};

use towpath_sync_programs::{STEP, scribble};

/// Random steps from a seed.
fn steps(mut state: u64, count: usize) -> Vec<u8> {
    let mut data = Vec::new();
    while data.len() < count * STEP {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data
}

fn seed_of(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn random_bytes_end_no_process_and_hang_no_wait() {
    let start = Instant::now();
    for seed in 1..=12 {
        scribble(&steps(seed_of(seed), 2000)).unwrap();
    }
    // Small words, which are likelier to be kinds, counts, states and numbers of processes.
    for seed in 1..=12 {
        let mut data = steps(seed_of(seed), 2000);
        for step in data.chunks_exact_mut(STEP) {
            step[5..].fill(0);
            step[4] %= 8;
        }
        scribble(&data).unwrap();
    }
    assert!(start.elapsed() < Duration::from_mins(1));
}

#[test]
fn every_word_of_an_objects_slot_may_hold_anything() {
    for place in (0..1704_u16).step_by(24) {
        let [low, high] = place.to_le_bytes();
        let mut data = Vec::new();
        for act in 0..8 {
            for value in [[0; 8], [0xff; 8], [1, 0, 0, 0, 0, 0, 0, 0x80]] {
                data.extend([1, low, high, act]);
                data.extend(value);
            }
        }
        scribble(&data).unwrap();
    }
}
