//! The library against the naive model: the same bytes in the same places, or the same refusal.

use towpath_texture_model::{backing, check, stream};

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

#[test]
fn random_transfers_move_the_bytes_that_the_model_moves() {
    let mut moved = 0;
    for seed in 0..2500 {
        let data = random(seed, 200);
        moved += u32::from(check(&data).is_some_and(|bytes| bytes > 0));
    }
    // A generator that only makes refusals would prove nothing.
    assert!(moved > 250, "{moved} transfers moved bytes");
}

#[test]
fn cut_and_flipped_cases_do_too() {
    let data = random(7, 200);
    for len in 0..data.len() {
        check(&data[..len]);
    }
    for bit in (0..data.len() * 8).step_by(3) {
        let mut flipped = data.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped);
    }
}

#[test]
fn random_lists_hold_the_bytes_that_they_name() {
    let mut visited = 0;
    for seed in 0..4000 {
        visited += u32::from(backing::check(&random(seed, 160)).is_some_and(|bytes| bytes > 0));
    }
    assert!(visited > 400, "{visited} lists were visited");
    let data = random(3, 160);
    for bit in 0..data.len() * 8 {
        let mut flipped = data.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        backing::check(&flipped);
    }
}

#[test]
fn random_streams_of_commands_end_in_refusals_at_worst() {
    for seed in 0..500 {
        stream::play(&random(seed, 1500));
    }
}

/// Found by the fuzz target: the model made a texture of 2^32 - 1 layers, which no memory holds.
#[test]
fn an_image_larger_than_memory_is_refused() {
    let found = [
        0x71, 0x7b, 0x71, 0xe9, 0xe9, 0, 0, 0, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0xe9, 0xe9,
    ];
    assert_eq!(check(&found), None);
}

/// Found by the fuzz target: a side of 2^32 - 1 blocks overflowed while the case was made.
#[test]
fn the_largest_sides_make_a_case() {
    let found = [0, 0, 0, 0, 4, 0, 10, 0x73, 7, 0];
    let _moved = check(&found);
}
