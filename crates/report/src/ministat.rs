//! What Debian's `ministat` prints, byte for byte, for finite input: for those who have always pasted it into mails.
//!
//! Its arithmetic is kept with its faults (sums of squares that cancel, a median that is the upper middle, a
//! 99.5 % column that is really 99.8 %). towpath's own tables do not share them.

use towpath_measure::student::{normal_quantile, t_upper_quantile};

/// Confidence levels that ministat knows, in percent, and the upper tail that its table really holds for each.
pub const LEVELS: [(f64, f64); 6] = [
    (80.0, 0.1),
    (90.0, 0.05),
    (95.0, 0.025),
    (98.0, 0.01),
    (99.0, 0.005),
    (99.5, 0.001),
];

/// Most data sets that it compares.
pub const SETS_MAX: usize = 7;

/// Fewest values in a set.
pub const VALUES_MIN: usize = 3;

const SYMBOLS: [char; 8] = [' ', 'x', '+', '*', '%', '#', '@', 'O'];

/// How ministat was called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// `-c`: index into [`LEVELS`].
    pub level: usize,
    /// `-w`: columns of the plot, at least 2.
    pub width: usize,
    /// `-s`: bars on lines of their own.
    pub separate_bars: bool,
    /// `-n`: summary only.
    pub summary_only: bool,
    /// `-A`: no plot.
    pub no_plot: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: 2,
            width: 74,
            separate_bars: false,
            summary_only: false,
            no_plot: false,
        }
    }
}

/// One data set in the form that ministat sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    name: String,
    sorted: Vec<f64>,
    sum: f64,
    squares: f64,
}

impl Set {
    /// A set of finite values, in the order in which they were read: the sums depend on it.
    #[must_use]
    pub fn new(name: &str, values: &[f64]) -> Self {
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in values {
            sum += value;
            squares += value * value;
        }
        let mut sorted = values.to_vec();
        // A stable sort that takes -0 and 0 for equal, as its comparison does.
        sorted.sort_by(|x, y| x.partial_cmp(y).unwrap_or(std::cmp::Ordering::Equal));
        Self {
            name: name.to_owned(),
            sorted,
            sum,
            squares,
        }
    }

    fn moments(&self) -> Moments {
        let n = self.sorted.len() as f64;
        let variance = (self.squares - self.sum * self.sum / n) / (n - 1.0);
        Moments {
            n: self.sorted.len(),
            mean: self.sum / n,
            variance,
        }
    }

    fn at(&self, index: usize) -> f64 {
        self.sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    fn min(&self) -> f64 {
        self.at(0)
    }

    fn max(&self) -> f64 {
        self.at(self.sorted.len().wrapping_sub(1))
    }

    fn median(&self) -> f64 {
        self.at(self.sorted.len() / 2)
    }
}

/// Number, mean and variance: all that the comparison of two sets needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their variance (n - 1).
    pub variance: f64,
}

/// Everything that ministat writes to its output.
#[must_use]
pub fn render(sets: &[Set], options: &Options) -> String {
    let mut text = String::new();
    let symbol = |index: usize| SYMBOLS.get(index + 1).copied().unwrap_or('?');
    for (index, set) in sets.iter().enumerate() {
        text.push_str(&format!("{} {}\n", symbol(index), set.name));
    }
    if !options.summary_only && !options.no_plot {
        text.push_str(&plot(sets, options));
    }
    text.push_str("    N           Min           Max        Median           Avg        Stddev\n");
    let first = sets.first().map(Set::moments);
    for (index, set) in sets.iter().enumerate() {
        let Moments { n, mean, variance } = set.moments();
        text.push_str(&format!("{} {n:3}", symbol(index)));
        for value in [set.min(), set.max(), set.median(), mean, variance.sqrt()] {
            text.push_str(&format!(" {:>13}", general(value, 8)));
        }
        text.push('\n');
        if let Some(reference) = first.filter(|_| index > 0 && !options.summary_only) {
            text.push_str(&comparison(&reference, &set.moments(), options.level));
        }
    }
    text
}

/// The verdict lines of `set` against `reference`.
#[must_use]
pub fn comparison(reference: &Moments, set: &Moments, level: usize) -> String {
    let (percent, tail) = LEVELS.get(level).copied().unwrap_or((95.0, 0.025));
    let freedom = set.n + reference.n - 2;
    let t = table(freedom, tail, level);
    let (n, m) = (set.n as f64, reference.n as f64);
    let mut pooled = (n - 1.0) * set.variance + (m - 1.0) * reference.variance;
    pooled /= freedom as f64;
    let pooled = pooled.sqrt();
    let error = t * (pooled * (1.0 / n + 1.0 / m).sqrt());
    let difference = set.mean - reference.mean;
    if difference.abs() > error {
        let share = |value: f64| general(value * 100.0 / reference.mean, 6);
        format!(
            "Difference at {percent:.1}% confidence\n\t{} +/- {}\n\t{}% +/- {}%\n\t(Student's t, pooled s = {})\n",
            general(difference, 6),
            general(error, 6),
            share(difference),
            share(error),
            general(pooled, 6),
        )
    } else {
        format!("No difference proven at {percent:.1}% confidence\n")
    }
}

/// What its table of t holds: three digits, the normal distribution above 100 degrees of freedom, and six
/// misprints at 99.5 %.
fn table(freedom: usize, tail: f64, level: usize) -> f64 {
    const MISPRINTS: [f64; 6] = [4.782, 4.499, 4.296, 4.143, 4.024, 3.929];
    let misprint = freedom.checked_sub(7).and_then(|row| MISPRINTS.get(row));
    match misprint {
        Some(&t) if level + 1 == LEVELS.len() => t,
        _ => {
            let exact = if freedom > 100 {
                -normal_quantile(tail)
            } else {
                t_upper_quantile(tail, freedom as f64)
            };
            (exact * 1e3).round() / 1e3
        }
    }
}

/// C's `%.*g`.
fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        // Every NaN that x86 makes has its sign bit set.
        return "-nan".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let strip = |number: &str| -> String {
        if number.contains('.') {
            number
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned()
        } else {
            number.to_owned()
        }
    };
    let digits = i32::try_from(digits).unwrap_or(6);
    if exponent < -4 || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", strip(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    strip(&format!("{value:.decimals$}"))
}

/// Where the plot's columns lie.
struct Axis {
    start: f64,
    step: f64,
    width: usize,
}

impl Axis {
    /// The axis over all sets, or nothing if they all are one point.
    fn over(sets: &[Set], width: usize) -> Option<Self> {
        // The limits it starts from, which matter for numbers beyond them.
        let (mut min, mut max) = (999e99, -999e99);
        for set in sets {
            let Moments { mean, variance, .. } = set.moments();
            let deviation = variance.sqrt();
            for value in [set.min(), set.max(), mean - deviation, mean + deviation] {
                if value < min {
                    min = value;
                }
                if value > max {
                    max = value;
                }
            }
        }
        let span: f64 = max - min;
        if span == 0.0 {
            return None;
        }
        let step = span / (width as f64 - 1.0);
        Some(Self {
            start: min - 0.5 * step,
            step,
            width,
        })
    }

    /// The column of a value; values outside, which ministat writes anywhere, are dropped.
    fn column(&self, value: f64) -> Option<usize> {
        let place = (value - self.start) / self.step;
        let is_inside = place > -1.0 && place < self.width as f64;
        is_inside.then(|| {
            (0..self.width)
                .rev()
                .find(|&column| column as f64 <= place)
                .unwrap_or(0)
        })
    }
}

/// Frame, stacked points, bars, frame: the plot alone.
#[must_use]
pub fn plot(sets: &[Set], options: &Options) -> String {
    let Some(axis) = Axis::over(sets, options.width) else {
        return "[no plot, span is zero width]\n".to_owned();
    };
    let edge = format!("+{}+\n", "-".repeat(options.width));
    let mut text = edge.clone();
    for row in points(sets, &axis).iter().rev() {
        let cells: String = row
            .iter()
            .map(|&cell| SYMBOLS.get(cell).copied().unwrap_or('?'))
            .collect();
        text.push_str(&format!("|{cells}|\n"));
    }
    for bar in bars(sets, &axis, options.separate_bars) {
        text.push_str(&format!("|{}|\n", bar.into_iter().collect::<String>()));
    }
    text.push_str(&edge);
    text
}

/// Rows of the plot from the bottom: which sets have a point there, their numbers ored.
///
/// The plot is as high as the last set, and a set that is higher than the one before it wipes what earlier sets
/// had above that one: ministat's faults, kept.
fn points(sets: &[Set], axis: &Axis) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut height = 0;
    for (index, set) in sets.iter().enumerate() {
        let places = places(set, axis);
        let needed = places.iter().map(|&(row, _)| row + 1).max().unwrap_or(0);
        if needed > height {
            rows.truncate(height);
            rows.resize(needed, vec![0; axis.width]);
        }
        height = needed;
        for (row, column) in places {
            if let Some(cell) = column.and_then(|column| rows.get_mut(row)?.get_mut(column)) {
                *cell |= index + 1;
            }
        }
    }
    rows.truncate(height);
    rows
}

/// Row and column of each value of a set: equal columns in a row are stacked.
fn places(set: &Set, axis: &Axis) -> Vec<(usize, Option<usize>)> {
    let (mut last, mut row) = (None, 0);
    set.sorted
        .iter()
        .map(|&value| {
            let column = axis.column(value);
            row = if column.is_some() && column == last {
                row + 1
            } else {
                0
            };
            last = column;
            (row, column)
        })
        .collect()
}

/// The bars from mean minus to mean plus one deviation, with median and mean.
fn bars(sets: &[Set], axis: &Axis, separate: bool) -> Vec<Vec<char>> {
    let mut bars: Vec<Vec<char>> = Vec::new();
    for set in sets {
        if bars.is_empty() || separate {
            bars.push(vec![' '; axis.width]);
        }
        let Some(bar) = bars.last_mut() else { continue };
        let Moments { mean, variance, .. } = set.moments();
        let deviation = variance.sqrt();
        let ends = (axis.column(mean - deviation), axis.column(mean + deviation));
        if let (Some(low), Some(high)) = ends {
            for column in [high, low] {
                put(bar, column, '|');
            }
            for column in low + 1..high {
                if bar.get(column) == Some(&' ') {
                    put(bar, column, '_');
                }
            }
        }
        for (value, letter) in [(set.median(), 'M'), (mean, 'A')] {
            if let Some(column) = axis.column(value) {
                put(bar, column, letter);
            }
        }
    }
    bars
}

fn put(bar: &mut [char], column: usize, letter: char) {
    if let Some(cell) = bar.get_mut(column) {
        *cell = letter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_c() {
        for (value, digits, text) in [
            (0.0, 6, "0"),
            (48.334_54, 6, "48.3345"),
            (1e-5, 6, "1e-05"),
            (123_456_789.0, 8, "1.2345679e+08"),
            (21697.58, 8, "21697.58"),
            (999_999.9, 6, "1e+06"),
            (-0.0001, 6, "-0.0001"),
            (f64::NAN, 8, "-nan"),
            (f64::INFINITY, 6, "inf"),
        ] {
            assert_eq!(general(value, digits), text);
        }
    }

    #[test]
    fn seed_004_gives_its_intervals_to_the_last_digit() {
        let square = |deviation: f64| deviation * deviation;
        let before = Moments {
            n: 135,
            mean: 22307.707,
            variance: square(198.75011),
        };
        let after = Moments {
            n: 118,
            mean: 22671.442,
            variance: square(192.10609),
        };
        assert_eq!(
            comparison(&before, &after, 2),
            "Difference at 95.0% confidence\n\t363.735 +/- 48.3345\n\t1.63054% +/- 0.216672%\n\
             \t(Student's t, pooled s = 195.681)\n"
        );
        let base = Moments {
            n: 55,
            mean: 7754.5195,
            variance: square(191.69526),
        };
        let syncobj = Moments {
            n: 55,
            mean: 8150.6303,
            variance: square(105.84085),
        };
        let text = comparison(&base, &syncobj, 2);
        // 8150.6303 - 7754.5195 is 396.1108; the seed's 396.111 comes from more digits.
        assert_eq!(
            text,
            "Difference at 95.0% confidence\n\t396.111 +/- 57.8717\n\t5.10813% +/- 0.746296%\n\
             \t(Student's t, pooled s = 154.838)\n"
        );
    }

    #[test]
    fn the_golden_pair() {
        let iguana = Set::new("iguana", &[50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0]);
        let chameleon = Set::new("chameleon", &[150.0, 400.0, 720.0, 500.0, 930.0]);
        let at = |level| comparison(&iguana.moments(), &chameleon.moments(), level);
        assert_eq!(
            at(0),
            "Difference at 80.0% confidence\n\t240 +/- 212.215\n\t80% +/- 70.7384%\n\
             \t(Student's t, pooled s = 264.159)\n"
        );
        for level in 1..LEVELS.len() {
            assert!(at(level).starts_with("No difference proven at"));
        }
    }
}
