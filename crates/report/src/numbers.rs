//! Numbers as people read them: few digits, a unit, no false precision.

/// `value` with `digits` significant digits and no exponent between 1e-4 and 1e9.
#[must_use]
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rounding may carry into a new digit (9.996 -> 10.0), so look at the rounded number.
    let rounded = format!("{:.*e}", digits.saturating_sub(1), value);
    let Some(exponent) = rounded
        .split_once('e')
        .and_then(|(_, power)| power.parse::<i32>().ok())
    else {
        return value.to_string();
    };
    if !(-4..9).contains(&exponent) {
        return rounded;
    }
    let decimals = i32::try_from(digits).unwrap_or(3) - 1 - exponent;
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

/// A value with its unit; times and bytes take the unit that suits them.
#[must_use]
pub fn with_unit(value: f64, unit: &str) -> String {
    let size = value.abs();
    let (scaled, unit) = match unit {
        "s" if size < 1e-6 && size > 0.0 => (value * 1e9, "ns"),
        "s" if size < 1e-3 && size > 0.0 => (value * 1e6, "us"),
        "s" if size < 1.0 && size > 0.0 => (value * 1e3, "ms"),
        "bytes" if size >= 1_073_741_824.0 => (value / 1_073_741_824.0, "GiB"),
        "bytes" if size >= 1_048_576.0 => (value / 1_048_576.0, "MiB"),
        "bytes" if size >= 1_024.0 => (value / 1_024.0, "KiB"),
        other => (value, other),
    };
    let number = significant(scaled, 4);
    if unit.is_empty() {
        number
    } else {
        format!("{number} {unit}")
    }
}

/// A relative change as signed percent: `-3.21 %`, `+12.4 %`, `0 %`.
#[must_use]
pub fn percent(change: f64) -> String {
    let value = change * 100.0;
    if value.abs() < 0.0005 {
        return "0 %".to_owned();
    }
    let decimals = match value.abs() {
        small if small < 9.995 => 2,
        middle if middle < 99.95 => 1,
        _ => 0,
    };
    format!("{value:+.decimals$} %")
}

/// A p-value: three digits, never `0`.
#[must_use]
pub fn p_value(p: f64) -> String {
    match p {
        p if p < 0.0001 => "<0.0001".to_owned(),
        p if p < 0.001 => format!("{p:.4}"),
        p => format!("{p:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for (value, text) in [
            (9.9996, "10.00"),
            (1234.5, "1234"),
            (0.012_345, "0.01235"),
            (0.0, "0"),
            (-5.5, "-5.500"),
            (1e12, "1.000e12"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(significant(value, 4), text, "{value}");
        }
        assert_eq!(with_unit(0.0044, "s"), "4.400 ms");
        assert_eq!(with_unit(0.0, "s"), "0 s");
        assert_eq!(with_unit(161_480_704.0, "bytes"), "154.0 MiB");
        assert_eq!(with_unit(12.0, ""), "12.00");
        assert_eq!(
            (percent(-0.0321), percent(0.124), percent(1e-7)),
            ("-3.21 %".into(), "+12.4 %".into(), "0 %".into())
        );
        assert_eq!(
            (p_value(0.0), p_value(0.03125)),
            ("<0.0001".into(), "0.031".into())
        );
    }
}
