//! `towpath doctor` from outside: devices are measured, and a driver that breaks costs its own line.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use towpath_needs::{Need, artifact, can_run};

/// A doctor that sees the scripted OpenCL driver only.
fn doctor(folder: &Path, knobs: &[(&str, &str)]) -> (Output, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["doctor", "--json"])
        .arg(folder.join("doctor.json"))
        .env("OCL_ICD_VENDORS", artifact("libtowpath_fake_opencl.so"))
        .env("XDG_STATE_HOME", folder)
        .envs(knobs.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let json = fs::read(folder.join("doctor.json")).unwrap();
    (output, serde_json::from_slice(&json).unwrap())
}

fn lines(document: &Value, what: &str) -> Vec<(String, String)> {
    let findings = document["findings"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings
        .iter()
        .filter(|finding| finding["what"] == what)
        .map(|finding| (text(&finding["text"]), text(&finding["advice"])))
        .collect()
}

#[test]
fn each_device_is_measured_cold_and_warm_and_the_loader_named() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // 1 us for each cold page: 16 ms beside a copy.
    let knobs = [
        ("TOWPATH_FAKE_DEVICES", "2"),
        ("TOWPATH_FAKE_PENALTY_NS", "5000"),
    ];
    let (output, document) = doctor(folder.path(), &knobs);
    assert_eq!(document["schema"], "towpath.doctor/1");
    let devices = lines(&document, "OpenCL device");
    assert_eq!(devices.len(), 2, "{devices:?}");
    for (text, advice) in devices {
        assert!(
            text.contains(" cold, ") && text.contains(" warm ("),
            "{text}"
        );
        assert!(advice.contains("towpath ab -- PROGRAM"), "{advice}");
    }
    let loaders = lines(&document, "OpenCL loader");
    assert!(
        loaders[0].0.contains("a program gets this one here"),
        "{loaders:?}"
    );
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("OpenCL device"), "{shown}");
}

#[test]
fn a_driver_that_crashes_costs_its_line_only() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, document) = doctor(folder.path(), &[("TOWPATH_FAKE_CRASH", "1")]);
    let devices = lines(&document, "OpenCL device");
    assert_eq!(devices.len(), 1, "{devices:?}");
    assert!(
        devices[0].0.contains("the driver crashed (signal 6)"),
        "{devices:?}"
    );
    assert!(!lines(&document, "prefault").is_empty());
}

#[test]
fn a_driver_that_hangs_ends_with_its_time_and_the_whole_stays_under_twenty_seconds() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Each command begins after half an hour.
    let knobs = [
        ("TOWPATH_FAKE_DEVICES", "3"),
        ("TOWPATH_FAKE_START_NS", "1800000000000"),
    ];
    let start = Instant::now();
    let (_, document) = doctor(folder.path(), &knobs);
    // The promise of the command; the test machine may be slow at the rest.
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    let devices = lines(&document, "OpenCL device");
    assert_eq!(devices.len(), 3, "{devices:?}");
    assert!(devices[0].0.contains("did not answer in"), "{devices:?}");
}

#[test]
fn a_machine_without_drivers_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (_, document) = doctor(folder.path(), &[("OCL_ICD_VENDORS", "/nonexistent")]);
    let devices = lines(&document, "OpenCL device");
    assert!(devices[0].0.contains("no OpenCL"), "{devices:?}");
}
