//! Where one more value of the same kind would lie. Not where the mean lies: that interval is far narrower, and a
//! single new value falls out of it most of the time.

use crate::sample::{can_be_judged, deviation, mean};
use crate::student::t_upper_quantile;

/// The interval that holds one further value of `values` with probability 1 - `level`, if they are normal; on logs
/// where all are positive. `None` below three values, or where none varied.
#[must_use]
pub fn interval(values: &[f64], level: f64) -> Option<(f64, f64)> {
    if values.len() < 3 || !values.iter().all(|value| can_be_judged(*value)) {
        return None;
    }
    let n = values.len() as f64;
    let is_positive = values.iter().all(|value| *value > 0.0);
    let scaled: Vec<f64> = if is_positive {
        values.iter().map(|value| libm::log(*value)).collect()
    } else {
        values.to_vec()
    };
    let deviation = deviation(&scaled);
    if deviation <= 0.0 {
        return None;
    }
    let half = t_upper_quantile(level / 2.0, n - 1.0) * deviation * (1.0 + 1.0 / n).sqrt();
    let center = mean(&scaled);
    let (low, high) = (center - half, center + half);
    Some(if is_positive {
        (libm::exp(low), libm::exp(high))
    } else {
        (low, high)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Ten values and a new one: the interval of their mean would hold it in less than half of all cases.
    #[test]
    fn a_new_value_lies_inside_as_often_as_promised() {
        let mut random = Random::new(7);
        let (mut inside, mut inside_mean) = (0_u32, 0_u32);
        for _ in 0..4_000 {
            let values: Vec<f64> = (0..10).map(|_| 5.0 + random.normal()).collect();
            let shifted: Vec<f64> = values.iter().map(|value| value - 5.0).collect();
            let new = random.normal();
            let (low, high) = interval(&shifted, 0.05).unwrap();
            inside += u32::from(low <= new && new <= high);
            let half = t_upper_quantile(0.025, 9.0) * deviation(&shifted) / 10.0_f64.sqrt();
            inside_mean += u32::from((new - mean(&shifted)).abs() <= half);
        }
        let share = f64::from(inside) / 4_000.0;
        assert!((0.94..0.96).contains(&share), "{share}");
        assert!(inside_mean < 2_200, "{inside_mean}");
    }

    #[test]
    fn the_interval_is_the_textbooks() {
        // Mean 3, deviation 1.5811, t(0.975; 4) = 2.7764: 3 -+ 2.7764 * 1.5811 * sqrt(1.2).
        let (low, high) = interval(&[-1.0, 2.0, 3.0, 4.0, 7.0], 0.05).unwrap();
        let deviation = deviation(&[-1.0, 2.0, 3.0, 4.0, 7.0]);
        let half = 2.776_445_105 * deviation * 1.2_f64.sqrt();
        assert!((low - (3.0 - half)).abs() < 1e-6 && (high - (3.0 + half)).abs() < 1e-6);
        let (low, high) = interval(&[1.0, 2.0, 4.0], 0.05).unwrap();
        assert!(
            low > 0.0 && (low * high - 4.0).abs() < 1e-9,
            "logs: symmetric about 2"
        );
        assert_eq!(interval(&[1.0, 2.0], 0.05), None);
        assert_eq!(interval(&[2.0; 5], 0.05), None);
        assert_eq!(interval(&[1.0, f64::NAN, 2.0], 0.05), None);
    }
}
