//! Measures what recording costs, in nanoseconds, and prints samples as JSON.
//!
//! `cargo run --release -p towpath-ledger --example cost > record.json`

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program for the command line"
)]

use std::hint::black_box;
use std::time::Instant;

use towpath_ledger::{Call, Counter, HostPath, SiteKey, Stack, Writer};
use towpath_measure::{Clock as _, MonotonicClock, Nanos};
use towpath_settings::Fixes;

/// Calls per sample: a sample takes some tenths of a millisecond.
const CALLS: u32 = 10_000;
/// Samples per case; cases alternate.
const SAMPLES: usize = 60;

fn main() {
    let folder = std::env::temp_dir().join(format!("towpath-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let writer = Writer::create(&folder, "bench", Fixes::none()).unwrap();
    let key = SiteKey {
        path: HostPath::Readback,
        call: "clEnqueueReadBuffer",
        device: "pthread-AMD EPYC",
        stack: Stack::NONE,
    };
    let site = writer.site(&key);
    let call = Call {
        bytes: 64,
        wall: Nanos(1_000),
        ..Call::default()
    };
    let cold = Call {
        faults: 3,
        cold_bytes: 64,
        ..call
    };
    let cases: [Case<'_>; 9] = [
        ("empty loop", &|| {}),
        ("two clock reads", &|| {
            black_box((MonotonicClock.now(), MonotonicClock.now()));
        }),
        ("record, warm", &|| writer.record(site, black_box(&call))),
        ("record, cold with faults", &|| {
            writer.record(site, black_box(&cold));
        }),
        ("site of a known key", &|| {
            black_box(writer.site(black_box(&key)));
        }),
        ("fixes", &|| {
            black_box(writer.fixes());
        }),
        ("count", &|| writer.count(Counter::WaitsRepeated, 1)),
        ("frame", &|| writer.frame(black_box(Nanos(1)))),
        ("stack", &|| {
            black_box(Stack::capture(0));
        }),
    ];
    let samples = measure(&cases);
    std::fs::remove_dir_all(&folder).unwrap();
    show(&cases, &samples);
}

/// A case's name and one call of it.
type Case<'a> = (&'a str, &'a dyn Fn());

fn measure(cases: &[Case<'_>]) -> Vec<Vec<f64>> {
    let mut samples = vec![Vec::new(); cases.len()];
    for _ in 0..SAMPLES {
        for ((name, case), samples) in cases.iter().zip(&mut samples) {
            let calls = if *name == "stack" { CALLS / 100 } else { CALLS };
            let start = Instant::now();
            for _ in 0..calls {
                case();
            }
            samples.push(start.elapsed().as_nanos() as f64 / f64::from(calls));
        }
    }
    samples
}

fn show(cases: &[Case<'_>], samples: &[Vec<f64>]) {
    let mut parts = Vec::new();
    for ((name, _), samples) in cases.iter().zip(samples) {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(SAMPLES / 2).copied().unwrap_or(f64::NAN);
        eprintln!("{name:<26} median {median:>8.1} ns");
        let numbers: Vec<String> = samples.iter().map(|ns| format!("{ns:.2}")).collect();
        parts.push(format!("    \"{name}\": [{}]", numbers.join(", ")));
    }
    println!(
        "{{\n  \"unit\": \"ns per call\",\n  \"samples\": {{\n{}\n  }}\n}}",
        parts.join(",\n")
    );
}
