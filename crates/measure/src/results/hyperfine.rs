//! hyperfine's `--export-json`: the raw times of each command.

use serde_json::Value;

use super::{Rejections, Results, Series};
use crate::judge::Direction;
use crate::sample::can_be_judged;

/// Reads `{"results": [{"command", "times", ...}]}`; `None` if it is something else.
///
/// Runs with a non-zero exit code are left out and counted. A file without raw times has only averages, from which
/// nothing can be tested: that is a rejection.
pub(super) fn read(whole: &Value) -> Option<Results> {
    let results = whole.get("results")?.as_array()?;
    let mut all = Vec::new();
    let mut rejected = Rejections::default();
    for (index, result) in results.iter().enumerate() {
        let name = result.get("command").and_then(Value::as_str).unwrap_or("?");
        let Some(times) = result.get("times").and_then(Value::as_array) else {
            rejected.add(1, index + 1, || {
                format!("`{name}` has no raw times, only averages: nothing can be tested")
            });
            continue;
        };
        let codes = result.get("exit_codes").and_then(Value::as_array);
        let mut series = Series::new(name, "s", Direction::Lower);
        for (run, time) in times.iter().enumerate() {
            let code = codes
                .and_then(|codes| codes.get(run))
                .and_then(Value::as_i64);
            match (time.as_f64(), code) {
                (Some(_), Some(code)) if code != 0 => {
                    rejected.add(1, index + 1, || {
                        format!("run {} of `{name}` ended with code {code}", run + 1)
                    });
                }
                (Some(time), _) if can_be_judged(time) => series.values.push(time),
                _ => rejected.add(1, index + 1, || {
                    format!("time {} of `{name}` is no number", run + 1)
                }),
            }
        }
        all.push(series);
    }
    Some(Results {
        kind: "hyperfine JSON",
        series: all,
        rejected,
    })
}
