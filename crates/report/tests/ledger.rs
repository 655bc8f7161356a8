//! Ledgers as people and programs read them.

#![expect(
    clippy::unwrap_used,
    reason = "tests; helpers stand outside of test functions"
)]

use towpath_ledger::{Call, Counter, HostPath, Outcome, SiteKey, Stack, Writer, read_folder};
use towpath_measure::Nanos;
use towpath_report::ledger::{Basis, Observed, Rates, html, json, predict, text};
use towpath_settings::Fixes;
use towpath_transfer::policy::{Calibration, Class, Direction, Mechanism, Timing, Warmth};

const RATES: Rates = Rates {
    prefault_s_per_byte: 1e-10,
    warm_s_per_byte: 1e-10,
};

fn basis() -> Basis {
    Basis {
        rates: Some(RATES),
        ..Basis::default()
    }
}

fn observed(record: impl Fn(&Writer)) -> Observed {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "opencl-layer", Fixes::none()).unwrap();
    record(&writer);
    let (ledgers, problems) = read_folder(folder.path());
    assert!(problems.is_empty());
    Observed::sum(&ledgers)
}

fn read(writer: &Writer, call: &Call) {
    let key = SiteKey {
        path: HostPath::Readback,
        call: "clEnqueueReadImage",
        device: "<GPU> & co",
        stack: Stack::NONE,
    };
    writer.record(writer.site(&key), call);
}

fn cold() -> Call {
    Call {
        bytes: 100 << 20,
        wall: Nanos::from_millis(100),
        faults: 25_600,
        cold_bytes: 100 << 20,
        outcome: Outcome::Off,
        ..Call::default()
    }
}

#[test]
fn a_cold_read_is_predicted_from_cold_time_less_warm_time_less_prefault() {
    let seen = observed(|writer| read(writer, &cold()));
    let prediction = predict(&seen.sites[0], &basis()).unwrap();
    // 100 ms less twice 104,857,600 bytes at 0.1 ns.
    assert_eq!(prediction.saved, Nanos(100_000_000 - 2 * 10_485_760));
    assert!(
        prediction.rule.contains("as a copy in memory"),
        "{}",
        prediction.rule
    );
    assert_eq!(
        predict(&seen.sites[0], &Basis::default()),
        None,
        "no rate, no claim"
    );
}

#[test]
fn a_sites_own_warm_calls_are_the_better_rate() {
    let seen = observed(|writer| {
        read(writer, &cold());
        let warm = Call {
            wall: Nanos::from_millis(40),
            cold_bytes: 0,
            ..cold()
        };
        read(writer, &warm);
    });
    let prediction = predict(&seen.sites[0], &basis()).unwrap();
    assert_eq!(
        prediction.saved,
        Nanos(100_000_000 - 40_000_000 - 10_485_760)
    );
    assert!(prediction.rule.contains("its own warm calls"));
}

#[test]
fn nothing_is_predicted_where_the_fix_was_active_or_nothing_was_cold() {
    let active = observed(|writer| {
        let call = Call {
            outcome: Outcome::Prefaulted,
            ..cold()
        };
        read(writer, &call);
    });
    assert_eq!(predict(&active.sites[0], &basis()), None);
    let warm = observed(|writer| {
        let call = Call {
            cold_bytes: 0,
            ..cold()
        };
        read(writer, &call);
    });
    assert_eq!(predict(&warm.sites[0], &basis()), None);
}

#[test]
fn the_text_holds_numbers_outcome_and_prediction() {
    let seen = observed(|writer| {
        read(writer, &cold());
        writer.count(Counter::Contexts, 1234);
    });
    let text = text(&seen, &basis(), 10);
    for part in [
        "readback",
        "clEnqueueReadImage",
        "100.0 MiB",
        "100.0 ms",
        "25,600",
        "100 %",
        "fix is off x 1",
        "would save about 79.03 ms",
        "in all, the readback fix would save about 79.03 ms",
        "contexts: 1,234",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn what_is_not_known_is_not_shown_as_nothing() {
    let seen = observed(|writer| {
        let call = Call {
            cold_bytes: Call::COLD_UNKNOWN,
            ..cold()
        };
        read(writer, &call);
    });
    assert!(
        text(&seen, &Basis::default(), 10)
            .lines()
            .nth(1)
            .unwrap()
            .trim_end()
            .ends_with('?')
    );
}

#[test]
fn json_and_html_hold_every_site_and_html_escapes_names() {
    let seen = observed(|writer| read(writer, &cold()));
    let value = json(&seen, &basis());
    assert_eq!(value["sites"][0]["bytes"], 100 << 20);
    assert_eq!(value["sites"][0]["device"], "<GPU> & co");
    assert_eq!(value["sites"][0]["prediction"]["saved_ns"], 79_028_480);
    let page = html("a <b>", &["x & y".to_owned()], &seen, &basis());
    assert!(page.contains("&lt;GPU&gt; &amp; co") && !page.contains("<GPU>"));
    assert!(page.contains("<title>a &lt;b&gt;</title>") && !page.contains("<script"));
}

#[test]
fn one_site_of_two_processes_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let writers = [0, 1].map(|_| Writer::create(folder.path(), "l", Fixes::none()).unwrap());
    for writer in &writers {
        read(writer, &cold());
    }
    let seen = Observed::sum(&read_folder(folder.path()).0);
    assert_eq!(seen.sites.len(), 1);
    assert_eq!(
        (seen.sites[0].calls, seen.path(HostPath::Readback).calls),
        (2, 2)
    );
    assert_eq!(seen.writers.len(), 2);
}

#[test]
fn a_calibrated_device_is_predicted_by_its_own_measurement() {
    let seen = observed(|writer| read(writer, &cold()));
    let class = |choice| Class {
        direction: Direction::Read,
        warmth: Warmth::Cold,
        bytes: 64 << 20,
        forward_ns: 50_000_000,
        forward_cpu_ns: 50_000_000,
        options: vec![Timing {
            mechanism: Mechanism::Prefault,
            ns: 20_000_000,
            cpu_ns: 20_000_000,
        }],
        choice,
    };
    let with = |choice| {
        let calibration = Calibration {
            classes: vec![class(choice)],
        };
        let calibrations = [("<GPU> & co".to_owned(), calibration)].into();
        let basis = Basis {
            calibrations,
            ..basis()
        };
        predict(&seen.sites[0], &basis).unwrap()
    };
    let better = with(Mechanism::Prefault);
    // 100 ms, of which 20 / 50 stay.
    assert_eq!(better.saved, Nanos::from_millis(60));
    assert!(
        better.rule.contains("20.00 ms instead of 50.00 ms"),
        "{}",
        better.rule
    );
    let none = with(Mechanism::Forward);
    assert_eq!(none.saved, Nanos::ZERO);
    assert!(
        none.rule.contains("the driver's own call is best"),
        "{}",
        none.rule
    );
}
