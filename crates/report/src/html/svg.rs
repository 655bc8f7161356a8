//! Small helpers for hand-written SVG: a chart area with axes that explain themselves.

use towpath_measure::Arm;

use crate::escape::xml;
use crate::numbers::significant;

/// Width of a chart in its own units; CSS scales it.
pub(super) const WIDTH: f64 = 480.0;
/// Height of a chart.
pub(super) const HEIGHT: f64 = 230.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// How values lie on an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    has_ticks: bool,
}

impl Axis {
    /// A linear axis over the values with a little room; of width 1 where all are equal.
    pub(super) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let room = if high > low {
            (high - low) * 0.05
        } else {
            (high.abs() * 0.05).max(0.5)
        };
        Self {
            low: low - room,
            high: high + room,
            is_log: false,
            has_ticks: true,
        }
    }

    /// A linear axis with these very ends.
    pub(super) fn exact(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self {
            low,
            high,
            is_log: false,
            has_ticks: true,
        }
    }

    /// A logarithmic axis from `low` to `high`, both positive.
    pub(super) fn log(low: f64, high: f64) -> Self {
        Self {
            low: libm::log10(low),
            high: libm::log10(high),
            is_log: true,
            has_ticks: true,
        }
    }

    /// From 0 to 1 without numbers: the place means nothing but left and right.
    pub(super) const fn bare() -> Self {
        Self {
            low: 0.0,
            high: 1.0,
            is_log: false,
            has_ticks: false,
        }
    }

    fn share(self, value: f64) -> f64 {
        let value = if self.is_log {
            libm::log10(value.max(1e-300))
        } else {
            value
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Round numbers along the axis.
    fn ticks(self) -> Vec<f64> {
        if !self.has_ticks {
            return Vec::new();
        }
        if self.is_log {
            let powers = (0..=12).map(|k| self.low.ceil() + f64::from(k));
            return powers
                .take_while(|power| *power <= self.high + 1e-9)
                .map(libm::exp10)
                .collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let unit = libm::exp10(libm::log10(rough).floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|k| k * unit)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil();
        (0..12)
            .map(|k| (first + f64::from(k)) * step)
            .take_while(|tick| *tick <= self.high)
            .collect()
    }
}

/// One chart while it is drawn.
pub(super) struct Chart {
    x: Axis,
    y: Axis,
    height: f64,
    body: String,
}

impl Chart {
    /// An empty chart with its axes, their names and ticks.
    pub(super) fn new(x: Axis, x_name: &str, y: Axis, y_name: &str) -> Self {
        Self::of_height(HEIGHT, x, x_name, y, y_name)
    }

    /// As [`Chart::new`] with its own height.
    pub(super) fn of_height(height: f64, x: Axis, x_name: &str, y: Axis, y_name: &str) -> Self {
        let mut chart = Self {
            x,
            y,
            height,
            body: String::new(),
        };
        let (bottom, right) = (height - BOTTOM, WIDTH - RIGHT);
        chart.body.push_str(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>"
        ));
        for tick in x.ticks() {
            let (at, label) = (chart.at_x(tick), label(tick));
            chart.body.push_str(&format!(
                "<path class=\"axis\" d=\"M{at:.1} {bottom}v4\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 17.0
            ));
        }
        for tick in y.ticks() {
            let (at, label) = (chart.at_y(tick), label(tick));
            chart.body.push_str(&format!(
                "<path class=\"axis\" d=\"M{:.1} {at:.1}h4\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 4.0,
                LEFT - 7.0,
                at + 4.0
            ));
        }
        chart.body.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            height - 6.0,
            xml(x_name),
            f64::midpoint(TOP, bottom),
            xml(y_name)
        ));
        chart
    }

    /// Place of a value across.
    pub(super) fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (WIDTH - LEFT - RIGHT)
    }

    /// Place of a value up.
    pub(super) fn at_y(&self, value: f64) -> f64 {
        self.height - BOTTOM - self.y.share(value) * (self.height - TOP - BOTTOM)
    }

    /// A line through points.
    pub(super) fn line(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let letter = if path.is_empty() { 'M' } else { 'L' };
            path.push_str(&format!("{letter}{:.1} {:.1}", self.at_x(x), self.at_y(y)));
        }
        if !path.is_empty() {
            self.body
                .push_str(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
    }

    /// Upright strokes from low to high: a spike of one frame survives any width.
    pub(super) fn strokes(&mut self, class: &str, spans: impl Iterator<Item = (f64, f64, f64)>) {
        let mut path = String::new();
        for (x, low, high) in spans {
            let (x, low, high) = (self.at_x(x), self.at_y(low), self.at_y(high));
            path.push_str(&format!("M{x:.1} {:.1}V{:.1}", low + 0.5, high - 0.5));
        }
        if !path.is_empty() {
            self.body
                .push_str(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
    }

    /// A mark: a filled dot for A, a hollow square for B, a triangle for C, so that colour is not all that tells
    /// them apart.
    pub(super) fn mark(&mut self, arm: Arm, x: f64, y: f64) {
        let (x, y) = (self.at_x(x), self.at_y(y));
        self.body.push_str(&match arm {
            Arm::A => format!("<circle class=\"fa\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"),
            Arm::B => format!(
                "<rect class=\"b hollow\" x=\"{:.1}\" y=\"{:.1}\" width=\"6.5\" height=\"6.5\"/>",
                x - 3.25,
                y - 3.25
            ),
            Arm::C => format!(
                "<path class=\"c hollow\" d=\"M{x:.1} {:.1}l4 7h-8z\"/>",
                y - 4.0
            ),
        });
    }

    /// A bar from the bottom of the chart.
    pub(super) fn bar(&mut self, class: &str, from: f64, to: f64, value: f64) {
        let (left, right) = (self.at_x(from), self.at_x(to));
        let (top, bottom) = (self.at_y(value), self.height - BOTTOM);
        self.body.push_str(&format!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            (right - left - 0.5).max(0.5),
            (bottom - top).max(0.0)
        ));
    }

    /// The figure: the picture with its title and description for those who cannot see it.
    pub(super) fn figure(self, id: &str, title: &str, description: &str) -> String {
        let (title, description) = (xml(title), xml(description));
        format!(
            "<figure><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>{}</svg><figcaption><strong>{title}.</strong> {description}</figcaption></figure>\n",
            self.height, self.body
        )
    }
}

fn label(tick: f64) -> String {
    let text = significant(tick, 4);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}
