//! `towpath bench` on PoCL: every arm runs, bytes are checked by the command itself, samples are kept.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

use towpath_needs::{Need, can_run};

fn bench(arguments: &[&str], state: &std::path::Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_towpath"))
        .arg("bench")
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .output()
        .unwrap()
}

#[test]
fn both_directions_keep_every_sample_of_every_arm() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (what, schema) in [
        ("readback", "towpath.bench-readback/1"),
        ("upload", "towpath.bench-upload/1"),
    ] {
        let file = folder.path().join(what);
        let options = [
            what,
            "--device",
            "portable",
            "--sizes",
            "1M",
            "--rounds",
            "2",
            "--threads",
            "2",
            "--chunks",
            "512K",
            "--overlap",
            "1",
            "--json",
        ];
        let arguments = [&options[..], &[file.to_str().unwrap()]].concat();
        let output = bench(&arguments, folder.path());
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = std::fs::read_to_string(&file).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document.get("schema").unwrap(), schema);
        for cell in document.get("cells").unwrap().as_array().unwrap() {
            let arms = cell.get("arms").unwrap().as_array().unwrap();
            assert!(arms.len() >= 3);
            for arm in arms {
                assert_eq!(arm.get("samples").unwrap().as_array().unwrap().len(), 2);
            }
        }
    }
}

/// The third form's destination begins at an odd address; the command checks every byte.
#[test]
fn the_three_forms_of_pixel_read_are_checked_and_printed_in_glbenchs_lines() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = [
        "readback",
        "--glbench",
        "--device",
        "portable",
        "--rounds",
        "2",
    ];
    let more = [
        "--states",
        "warm,cold",
        "--threads",
        "2",
        "--chunks",
        "512K",
    ];
    let output = bench(&[&options[..], &more[..]].concat(), folder.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    for form in ["pixel_read", "pixel_read_2", "pixel_read_3"] {
        for arm in [
            "warm.forward",
            "cold.prefault",
            "warm.staged_2x512K",
            "warm.pinned",
        ] {
            let start = format!("@RESULT: {form}.{arm} ");
            let line = text.lines().find(|line| line.starts_with(&start));
            let line = line.unwrap_or_else(|| panic!("{start} in {text}"));
            assert!(
                line.contains(" mpixels_sec") && line.ends_with("[none]"),
                "{line}"
            );
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_named_with_those_that_are() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = bench(&["readback", "--device", "no such device"], folder.path());
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("no such device") && text.contains("Portable"),
        "{text}"
    );
}

#[test]
fn a_calibration_is_stored_and_not_made_twice() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["calibrate", "--device", "portable", "--budget", "0"];
    let first = bench(&arguments, folder.path());
    assert!(
        first.status.success(),
        "{}",
        String::from_utf8_lossy(&first.stderr)
    );
    let again = bench(&arguments, folder.path());
    assert!(String::from_utf8_lossy(&again.stdout).contains("stored"));
}

#[test]
fn the_layer_is_compared_with_the_driver_and_every_read_is_accounted_for() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layer.json");
    let mut arguments = vec![
        "layer",
        "--rounds",
        "6",
        "--sizes",
        "64,1M",
        "--calibrate",
        "0",
    ];
    arguments.extend(["--states", "warm,cold", "--json", file.to_str().unwrap()]);
    let output = bench(&arguments, folder.path());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("proven slower (5 % level, Holm over"),
        "{text}"
    );
    assert!(text.contains("a 64-byte read takes"), "{text}");
    let document = std::fs::read_to_string(&file).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document.get("schema").unwrap(), "towpath.bench-layer/1");
    let cells = document.get("cells").unwrap().as_array().unwrap();
    assert!(cells.len() >= 6, "{}", cells.len());
    for cell in cells {
        for arm in ["forward_ns", "layer_ns"] {
            assert_eq!(cell.get(arm).unwrap().as_array().unwrap().len(), 6);
        }
    }
}
