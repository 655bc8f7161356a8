//! When a comparison ends, and what it can prove at best: decided and said before the first run.

use std::time::Duration;

use anyhow::{Result, bail};
use towpath_measure::plan;
use towpath_report::result::{Design, Pairing, Stop};

use super::Args;
use super::metric::Metric;

/// Accepted chance of a false alarm.
const LEVEL: f64 = 0.05;
/// Pairs after which `--until-proven` gives up.
const UNTIL_PROVEN_PAIRS_MAX: usize = 200;

/// The design that `args` ask for.
///
/// # Errors
///
/// If the options contradict each other, the primary metric does not exist, or the design cannot prove
/// anything whatever the runs show.
pub(super) fn choose(args: &Args, metrics: &[Metric]) -> Result<Design> {
    if !metrics.iter().any(|metric| metric.name() == args.primary) {
        let names: Vec<&str> = metrics.iter().map(Metric::name).collect();
        bail!(
            "--primary {}: no such metric; there are {}",
            args.primary,
            names.join(", ")
        );
    }
    let stop = if args.until_proven {
        Stop::UntilProven {
            pairs_max: args.pairs.unwrap_or(UNTIL_PROVEN_PAIRS_MAX),
        }
    } else if let Some(budget) = args.budget {
        Stop::Budget {
            seconds: budget.as_secs_f64(),
        }
    } else {
        Stop::Pairs {
            pairs: args.pairs.unwrap_or(super::PAIRS_DEFAULT),
        }
    };
    if let Stop::Pairs { pairs } = stop
        && !args.describe
        && let Err(hopeless) = plan::check(pairs, 1, LEVEL)
    {
        bail!(
            "{} pairs cannot prove anything at the 5 % level (the best possible p-value is {:.3}): \
             use at least --pairs {}, or --describe to see the runs without a test",
            hopeless.pairs,
            hopeless.smallest_p,
            hopeless.needed
        );
    }
    Ok(Design {
        pairing: Pairing::Paired,
        stop,
        seed: Some(args.seed.unwrap_or_else(|| fastrand::u64(..1 << 32))),
        primary: Some(args.primary.clone()),
        margin: args.margin / 100.0,
        level: LEVEL,
        is_null: args.null,
        is_described: args.describe,
        ..Design::default()
    })
}

/// What the design can show, for the person who is about to wait for it.
pub(super) fn promise(design: &Design, judged: usize) -> Vec<String> {
    let Stop::Pairs { pairs } = design.stop else {
        return Vec::new();
    };
    if design.is_described {
        return vec!["Nothing will be tested: every run and the means are shown.".to_owned()];
    }
    let detectable = |spread: f64| {
        plan::detectable(pairs, spread, design.level).map_or_else(
            || "nothing".to_owned(),
            |effect| format!("{:.1} %", effect * 100.0),
        )
    };
    let mut lines = vec![format!(
        "{pairs} pairs find, in four of five such experiments, a difference of {} if pairs scatter by 1 %, \
         of {} if they scatter by 5 %.",
        detectable(0.01),
        detectable(0.05)
    )];
    if let Err(hopeless) = plan::check(pairs, judged.saturating_sub(1), design.level) {
        lines.push(format!(
            "Beside the primary metric nothing can be proven of {} metrics together below {} pairs.",
            judged - 1,
            hopeless.needed
        ));
    }
    lines
}

/// A span of time, or none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TimeOrNever(pub(super) Option<Duration>);

/// Reads a span of time or the word `never`.
///
/// # Errors
///
/// As [`parse_time`].
pub(super) fn parse_time_or_never(text: &str) -> Result<TimeOrNever, String> {
    if text == "never" {
        return Ok(TimeOrNever(None));
    }
    parse_time(text).map(|time| TimeOrNever(Some(time)))
}

/// Reads `90`, `90s`, `15m` or `2h`.
///
/// # Errors
///
/// If it is none of these, or nothing.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|letter: char| !letter.is_ascii_digit() && letter != '.') {
        Some(place) => text.split_at(place),
        None => (text, "s"),
    };
    let scale = match unit {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit:?} is no unit of time: use s, m or h")),
    };
    let seconds: f64 = number
        .parse()
        .map_err(|_error| format!("{number:?} is no number"))?;
    let span = Duration::try_from_secs_f64(seconds * scale)
        .map_err(|_error| format!("{text:?} is no span of time"))?;
    if span.is_zero() {
        Err("the time is zero".to_owned())
    } else {
        Ok(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_read_with_their_unit() {
        assert_eq!(parse_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(parse_time_or_never("never"), Ok(TimeOrNever(None)));
        assert!(parse_time_or_never("often").is_err());
        for bad in ["", "x", "10 parsecs", "0", "-3s", "1e400"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
