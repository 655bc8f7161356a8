//! Which of many blobs a driver dies of, found with few trials.

/// Finds the items that make `survives` false, each by itself.
///
/// A set that survives clears all its items; one that does not is halved. For one bad item of `n`
/// that takes at most `2 log2 n + 1` trials. A set that only dies as a whole is returned whole.
pub fn find_bad<T: Copy>(items: &[T], survives: &mut impl FnMut(&[T]) -> bool) -> Vec<T> {
    if items.is_empty() || survives(items) {
        return Vec::new();
    }
    if items.len() == 1 {
        return items.to_vec();
    }
    let (left, right) = items.split_at(items.len() / 2);
    let mut bad = find_bad(left, survives);
    bad.extend(find_bad(right, survives));
    if bad.is_empty() {
        bad = items.to_vec();
    }
    bad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_ones_are_found_with_few_trials() {
        let items: Vec<u32> = (0..256).collect();
        for bad in [vec![], vec![0], vec![255], vec![17, 18], vec![3, 100, 200]] {
            let mut trials = 0;
            let found = find_bad(&items, &mut |set| {
                trials += 1;
                !set.iter().any(|n| bad.contains(n))
            });
            assert_eq!(found, bad);
            assert!(trials <= 1 + 16 * bad.len(), "{trials} trials for {bad:?}");
        }
    }

    #[test]
    fn a_pair_that_only_dies_together_is_returned_together() {
        let found = find_bad(&[1, 2], &mut |set| set.len() < 2);
        assert_eq!(found, [1, 2]);
    }
}
