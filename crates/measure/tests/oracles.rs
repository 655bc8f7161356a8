//! Statistics against independent oracles: scipy, statsmodels, arch, ruptures. `vectors/make_vectors.py` made
//! the files.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken vector file must fail the test"
)]

use serde_json::Value;
use towpath_measure::{bootstrap, drift, judge, multiple, permutation, plan, ranks, sample};
use towpath_measure::{signflip, student, ttest};

fn vectors(text: &str, name: &str) -> Vec<Value> {
    let whole: Value = serde_json::from_str(text).unwrap();
    let cases = whole[name].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{name}");
    cases
}

fn number(case: &Value, name: &str) -> f64 {
    case[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} in {case}"))
}

fn numbers(case: &Value, name: &str) -> Vec<f64> {
    case[name]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

#[track_caller]
fn close(got: f64, want: f64, tolerance: f64, case: &Value) {
    let error = (got - want).abs() / want.abs().max(1e-300);
    let is_close = error <= tolerance || (got - want).abs() < 1e-14;
    assert!(
        is_close,
        "got {got:e}, want {want:e}, off by {error:e}: {case}"
    );
}

#[test]
fn distributions_agree_with_scipy() {
    let text = include_str!("vectors/distributions.json");
    for case in vectors(text, "t") {
        let (t, df) = (number(&case, "t"), number(&case, "df"));
        close(student::t_upper(t, df), number(&case, "upper"), 1e-9, &case);
        close(
            student::t_both_tails(t, df),
            number(&case, "both"),
            1e-9,
            &case,
        );
    }
    for case in vectors(text, "quantile") {
        let t = student::t_upper_quantile(number(&case, "tail"), number(&case, "df"));
        close(t, number(&case, "t"), 1e-9, &case);
    }
    for case in vectors(text, "noncentral") {
        let (t, df, delta) = (
            number(&case, "t"),
            number(&case, "df"),
            number(&case, "delta"),
        );
        let error = student::noncentral_t_cdf(t, df, delta) - number(&case, "cdf");
        assert!(error.abs() < 1e-7, "{error:e}: {case}");
    }
    for case in vectors(text, "normal") {
        close(
            student::normal_cdf(number(&case, "x")),
            number(&case, "cdf"),
            1e-10,
            &case,
        );
    }
}

fn check_t(test: &ttest::TTest, case: &Value) {
    close(test.t(), number(case, "t"), 1e-9, case);
    close(test.df, number(case, "df"), 1e-9, case);
    close(test.p(), number(case, "p"), 1e-8, case);
    let (low, high) = test.interval(0.05);
    close(low, number(case, "low"), 1e-8, case);
    close(high, number(case, "high"), 1e-8, case);
}

#[test]
fn t_tests_agree_with_scipy_and_statsmodels() {
    let text = include_str!("vectors/tests.json");
    for case in vectors(text, "independent") {
        let (a, b) = (numbers(&case, "a"), numbers(&case, "b"));
        let welch = ttest::welch(&a, &b).unwrap();
        check_t(&welch, &case["welch"]);
        close(
            welch.p_equivalent(-1.5, 1.5),
            number(&case, "tost_welch"),
            1e-8,
            &case,
        );
        check_t(&ttest::pooled(&a, &b).unwrap(), &case["pooled"]);
    }
    for case in vectors(text, "paired") {
        let (a, b) = (numbers(&case, "a"), numbers(&case, "b"));
        let logs =
            |values: &[f64]| -> Vec<f64> { values.iter().map(|value| libm::log(*value)).collect() };
        let difference = ttest::paired(&a, &b).unwrap();
        check_t(&difference, &case["difference"]);
        close(
            difference.p_equivalent(-0.8, 0.8),
            number(&case["difference"], "tost"),
            1e-8,
            &case,
        );
        let ratio = ttest::paired(&logs(&a), &logs(&b)).unwrap();
        check_t(&ratio, &case["ratio"]);
        if a.len() > judge::EXACT_PAIRS_MAX {
            let judged = judge::paired(&a, &b, &judge::Question::lower_is_better()).unwrap();
            close(judged.p, number(&case["ratio"], "p"), 1e-8, &case);
            close(
                libm::log(judged.low.unwrap()),
                number(&case["ratio"], "low"),
                1e-8,
                &case,
            );
            close(
                libm::log(judged.high.unwrap()),
                number(&case["ratio"], "high"),
                1e-8,
                &case,
            );
        }
    }
}

#[test]
fn rank_and_permutation_tests_agree_with_scipy() {
    let text = include_str!("vectors/ranks.json");
    for case in vectors(text, "mann_whitney") {
        let test = ranks::mann_whitney(&numbers(&case, "a"), &numbers(&case, "b")).unwrap();
        close(test.u, number(&case, "u"), 1e-12, &case);
        close(test.p, number(&case, "p"), 1e-9, &case);
        assert_eq!(test.is_exact, case["exact"].as_bool().unwrap());
    }
    for case in vectors(text, "sign") {
        let count = |name: &str| usize::try_from(case[name].as_u64().unwrap()).unwrap();
        close(
            ranks::sign_test(count("above"), count("below")),
            number(&case, "p"),
            1e-9,
            &case,
        );
    }
    for case in vectors(text, "sign_flip") {
        let test = signflip::SignFlip::new(&numbers(&case, "differences")).unwrap();
        close(test.p(), number(&case, "p"), 1e-12, &case);
    }
    for case in vectors(text, "permutation") {
        let test = permutation::permutation(&numbers(&case, "a"), &numbers(&case, "b"), 1).unwrap();
        assert!(test.is_exact);
        close(test.p, number(&case, "p"), 1e-12, &case);
    }
    for case in vectors(text, "shift") {
        let shift = ranks::hodges_lehmann(&numbers(&case, "a"), &numbers(&case, "b")).unwrap();
        close(shift, number(&case, "shift"), 1e-12, &case);
    }
}

#[test]
fn random_deals_come_close_to_all_deals() {
    let mut random = towpath_measure::random::Random::new(4);
    let a: Vec<f64> = (0..14).map(|_| random.normal()).collect();
    let b: Vec<f64> = (0..15).map(|_| random.normal() + 0.9).collect();
    let drawn = permutation::permutation(&a, &b, 2).unwrap();
    let t = ttest::pooled(&a, &b).unwrap().p();
    assert!(
        !drawn.is_exact && (drawn.p - t).abs() < 0.01,
        "{} {t}",
        drawn.p
    );
}

#[test]
fn corrections_agree_with_statsmodels() {
    for case in vectors(include_str!("vectors/multiple.json"), "cases") {
        let p = numbers(&case, "p");
        for (got, want) in multiple::holm(&p).iter().zip(numbers(&case, "holm")) {
            close(*got, want, 1e-12, &case);
        }
        for (got, want) in multiple::benjamini_hochberg(&p)
            .iter()
            .zip(numbers(&case, "bh"))
        {
            close(*got, want, 1e-12, &case);
        }
    }
}

#[test]
fn power_agrees_with_statsmodels() {
    let text = include_str!("vectors/power.json");
    let count = |case: &Value, name: &str| usize::try_from(case[name].as_u64().unwrap()).unwrap();
    for case in vectors(text, "unpaired") {
        let runs = count(&case, "runs");
        let power = plan::power_unpaired(
            runs,
            runs,
            number(&case, "spread"),
            number(&case, "effect"),
            0.05,
        );
        assert!(
            (power - number(&case, "power")).abs() < 1e-6,
            "{power}: {case}"
        );
    }
    for case in vectors(text, "paired") {
        let (spread, effect) = (number(&case, "spread"), number(&case, "effect"));
        let power = plan::power(count(&case, "pairs"), spread, effect, 0.05);
        assert!(
            (power - number(&case, "power")).abs() < 1e-6,
            "{power}: {case}"
        );
    }
    for case in vectors(text, "runs") {
        let runs = plan::runs_for(number(&case, "effect"), number(&case, "spread"), 0.05);
        assert_eq!(runs, Some(count(&case, "runs")), "{case}");
    }
}

#[test]
fn the_bootstrap_agrees_with_scipy_and_arch() {
    let text = include_str!("vectors/bootstrap.json");
    for case in vectors(text, "bca") {
        let (data, drawn) = (numbers(&case, "data"), numbers(&case, "distribution"));
        let statistic = if case["statistic"] == "mean" {
            sample::mean
        } else {
            sample::median
        };
        let percentile = bootstrap::percentile(&drawn, 0.05);
        let bca = bootstrap::bca(&data, statistic, &drawn, 0.05).unwrap();
        for (got, want) in [
            (percentile, numbers(&case, "percentile")),
            (bca, numbers(&case, "bca")),
        ] {
            close(got.low, want[0], 1e-8, &case["statistic"]);
            close(got.high, want[1], 1e-8, &case["statistic"]);
        }
        // Our own resamples give much the same interval.
        let own = bootstrap::distribution(&data, statistic, bootstrap::RESAMPLES, 1);
        let width = percentile.high - percentile.low;
        assert!((quantile_of(&own, 0.025) - percentile.low).abs() < width / 5.0);
    }
    for case in vectors(text, "blocks") {
        let length = bootstrap::optimal_block_length(&numbers(&case, "series"));
        close(
            length,
            number(&case, "circular").max(1.0),
            1e-9,
            &case["rho"],
        );
    }
    let flat = bootstrap::bca(&[1.0; 5], sample::mean, &[1.0; 99], 0.05).unwrap();
    assert!(flat.fell_back && (flat.low - 1.0).abs() < 1e-12);
}

fn quantile_of(sorted: &[f64], q: f64) -> f64 {
    sample::quantile(sorted, q)
}

#[test]
fn trends_and_levels_agree_with_scipy_and_ruptures() {
    let text = include_str!("vectors/drift.json");
    for case in vectors(text, "trends") {
        let trend = drift::trend(&numbers(&case, "times"), &numbers(&case, "values")).unwrap();
        close(trend.slope, number(&case, "slope"), 1e-9, &case);
        close(trend.p, number(&case, "p"), 1e-9, &case);
    }
    for case in vectors(text, "segments") {
        let points = drift::pelt(&numbers(&case, "values"), number(&case, "penalty"), 3);
        let want: Vec<usize> = case["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| usize::try_from(point.as_u64().unwrap()).unwrap())
            .collect();
        assert_eq!(points, want, "{case}");
    }
}
