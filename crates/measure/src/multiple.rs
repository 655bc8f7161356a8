//! Several questions at once: Holm's and Benjamini-Hochberg's adjusted p-values.

/// Holm's step-down adjustment: controls the chance of any false alarm, whatever the dependence.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&x, &y| at(p, x).total_cmp(&at(p, y)));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * at(p, index)).min(1.0);
        set(&mut adjusted, index, largest);
    }
    adjusted
}

/// Benjamini and Hochberg's step-up adjustment: controls the share of false alarms among alarms. For exploring only.
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&x, &y| at(p, x).total_cmp(&at(p, y)));
    let mut adjusted = vec![1.0; p.len()];
    let mut smallest = 1.0_f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        smallest = smallest.min(at(p, index) * p.len() as f64 / (rank + 1) as f64);
        set(&mut adjusted, index, smallest);
    }
    adjusted
}

fn at(values: &[f64], index: usize) -> f64 {
    values.get(index).copied().unwrap_or(1.0)
}

fn set(values: &mut [f64], index: usize, value: f64) {
    if let Some(place) = values.get_mut(index) {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_values_of_a_worked_example() {
        let p = [0.01, 0.04, 0.03, 0.005];
        let close = |got: Vec<f64>, want: [f64; 4]| {
            assert!(
                got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12),
                "{got:?}"
            );
        };
        close(holm(&p), [0.03, 0.06, 0.06, 0.02]);
        close(benjamini_hochberg(&p), [0.02, 0.04, 0.04, 0.02]);
        assert!(holm(&[]).is_empty());
    }
}
