//! A result as JUnit XML: one test case per metric, for CI systems that show those.

use towpath_measure::Verdict;

use crate::escape::xml as safe;
use crate::judging::FailOn;
use crate::result::{MetricJudgement, ResultFile};
use crate::sentence;

/// The document. A proven regression is a failure (beyond the margin, or any with `any-regression`), an
/// inconclusive metric is skipped (a failure with `inconclusive`).
#[must_use]
pub fn render(file: &ResultFile, fail_on: FailOn) -> String {
    let cases: Vec<(String, Kind)> = file
        .judgements
        .iter()
        .map(|judged| case(file, judged, fail_on))
        .collect();
    let count = |kind: Kind| cases.iter().filter(|(_, of)| *of == kind).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" timestamp=\"{}\">\n",
        safe(&file.title),
        cases.len(),
        count(Kind::Failed),
        count(Kind::Skipped),
        safe(file.started.trim_end_matches('Z')),
    );
    text.extend(cases.into_iter().map(|(case, _)| case));
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Passed,
    Failed,
    Skipped,
}

fn case(file: &ResultFile, judged: &MetricJudgement, fail_on: FailOn) -> (String, Kind) {
    let judgement = &judged.judgement;
    let kind = match (judgement.verdict, fail_on) {
        (Verdict::Inconclusive, FailOn::Inconclusive)
        | (Verdict::Slower, FailOn::AnyRegression) => Kind::Failed,
        (Verdict::Slower, FailOn::Regression | FailOn::Inconclusive)
            if judgement.is_regression() =>
        {
            Kind::Failed
        }
        (Verdict::Inconclusive, _) => Kind::Skipped,
        (Verdict::Slower | Verdict::Faster | Verdict::Equivalent, _) => Kind::Passed,
    };
    let message = safe(&sentence::verdict(file, judged));
    let inside = match kind {
        Kind::Passed => format!("<system-out>{message}</system-out>"),
        Kind::Failed => format!(
            "<failure message=\"{message}\" type=\"{}\"/>",
            judgement.verdict
        ),
        Kind::Skipped => format!("<skipped message=\"{message}\"/>"),
    };
    let text = format!(
        "    <testcase classname=\"towpath\" name=\"{}\">{inside}</testcase>\n",
        safe(&judged.metric)
    );
    (text, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::tests::example;

    #[test]
    fn a_regression_fails_and_an_improvement_passes() {
        let mut file = example();
        let good = render(&file, FailOn::Regression);
        assert!(
            good.contains("tests=\"2\" failures=\"0\" skipped=\"0\""),
            "{good}"
        );
        for run in &mut file.runs {
            run.arm = run.arm.other();
        }
        "a <b>".clone_into(&mut file.title);
        file.judge().unwrap();
        let bad = render(&file, FailOn::Regression);
        assert!(
            bad.contains("failures=\"1\"") && bad.contains("<failure message=\"wall: on is worse")
        );
        assert!(bad.contains("name=\"a &lt;b&gt;\""));
        assert!(render(&file, FailOn::Never).contains("failures=\"0\""));
    }
}
