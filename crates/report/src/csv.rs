//! Every reading of every run as one CSV line: the long form that other programs group as they like.

use crate::escape::csv as safe;
use crate::result::{Reading, ResultFile};

/// The names of the columns.
pub const HEADER: &str =
    "arm,label,block,pair,started_s,source,end,metric,unit,repeat,value,unavailable";

/// The file in long form. `repeat` is empty for a run's own value and counts from 0 for repeats within it.
#[must_use]
pub fn render(file: &ResultFile) -> String {
    let mut text = format!("{HEADER}\n");
    for run in &file.runs {
        let started = run
            .started_s
            .map(|seconds| seconds.to_string())
            .unwrap_or_default();
        let place = format!(
            "{},{},{},{},{started},{},{}",
            run.arm,
            safe(&file.arm(run.arm).label),
            run.block,
            run.pair,
            safe(run.source.as_deref().unwrap_or("")),
            safe(&run.outcome.text()),
        );
        for (name, reading) in &run.readings {
            let unit = file.metric(name).map_or("", |metric| metric.unit.as_str());
            let what = format!("{},{}", safe(name), safe(unit));
            match reading {
                Reading::Value { value, repeats } => {
                    text.push_str(&format!("{place},{what},,{value},\n"));
                    for (index, repeat) in repeats.iter().enumerate() {
                        text.push_str(&format!("{place},{what},{index},{repeat},\n"));
                    }
                }
                Reading::Unavailable { unavailable } => {
                    text.push_str(&format!("{place},{what},,,{}\n", safe(unavailable)));
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;

    #[test]
    fn every_line_has_every_column() {
        let mut file = example();
        file.runs[0].cannot_read("wall", "no, \"never\"");
        file.runs[1]
            .readings
            .insert("wall".to_owned(), Reading::of_repeats(vec![1.0, 2.0]));
        let text = render(&file);
        assert_eq!(text.lines().count(), 1 + 16 * 2 + 2);
        assert!(
            text.contains("A,off,0,0,0,,finished,wall,s,,,\"no, \"\"never\"\"\"")
                || text.contains("B,on,0,0,0,,finished,wall,s,,,\"no, \"\"never\"\"\"")
        );
        for line in text.lines().filter(|line| !line.contains('"')) {
            assert_eq!(
                line.matches(',').count(),
                HEADER.matches(',').count(),
                "{line}"
            );
        }
    }
}
