//! `towpath ab` calibrates what its program uses, once, before the pairs.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use towpath_needs::{Need, artifact, can_run};

/// `towpath ab` on the scripted driver; the program is a bench of ours that reads 2 MiB into cold memory.
fn ab(folder: &Path, options: &[&str], environment: &[(&str, &str)]) -> Output {
    let towpath = env!("CARGO_BIN_EXE_towpath");
    Command::new(towpath)
        .current_dir(folder)
        .args(["ab", "--pairs", "6", "--warm-host", "1", "--seed", "7"])
        .args(["--json", "r.json", "--fail-on", "never"])
        .args(options)
        .args(["--", towpath, "bench", "readback", "--sizes", "2M"])
        .args(["--states", "cold", "--rounds", "1", "--threads", "1"])
        .args(["--chunks", "1M", "--overlap", "0"])
        .env("OCL_ICD_VENDORS", artifact("libtowpath_fake_opencl.so"))
        .env("TOWPATH_FAKE_PENALTY_NS", "2000")
        .env("TMPDIR", folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env(
            "TOWPATH_LAYER_DIR",
            artifact("libtowpath_opencl_layer.so").parent().unwrap(),
        )
        .env_remove("OPENCL_LAYERS")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the result says of the devices' calibrations.
fn noted(folder: &Path) -> Vec<String> {
    let result: Value = serde_json::from_slice(&fs::read(folder.join("r.json")).unwrap()).unwrap();
    let versions = result.get("versions").unwrap().as_object().unwrap();
    versions
        .iter()
        .filter(|(name, _)| name.starts_with("calibration of "))
        .map(|(_, text)| text.as_str().unwrap().to_owned())
        .collect()
}

fn stored(folder: &Path) -> usize {
    fs::read_dir(folder.join("state/towpath/calibration")).map_or(0, Iterator::count)
}

#[test]
fn nothing_stored_is_measured_once_and_the_next_comparison_finds_it() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = ab(folder.path(), &["--calibrate", "2s"], &[]);
    let said = stderr(&first);
    assert_eq!(first.status.code(), Some(0), "{said}");
    assert!(
        said.contains("first: nothing is stored for it (up to 2 s)"),
        "{said}"
    );
    assert!(said.contains("  read "), "what was found is shown: {said}");
    assert_eq!(noted(folder.path()), ["measured before the pairs"]);
    assert_eq!(stored(folder.path()), 1);
    let second = ab(folder.path(), &["--calibrate", "2s"], &[]);
    assert!(
        !stderr(&second).contains("calibrating"),
        "{}",
        stderr(&second)
    );
    assert_eq!(noted(folder.path()), ["stored before"]);
}

#[test]
fn fixes_that_follow_no_calibration_measure_none() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for options in [
        ["--b-fix", "readback"],
        ["--b-fix", "bare"],
        ["--calibrate", "never"],
    ] {
        let output = ab(folder.path(), &options, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(!stderr(&output).contains("calibrating"), "{options:?}");
        assert!(noted(folder.path()).is_empty());
        assert_eq!(stored(folder.path()), 0);
    }
}

#[test]
fn what_was_measured_through_other_layers_holds_for_this_comparison_only() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let layer = artifact("libtowpath_penalty_layer.so");
    let layers = [("OPENCL_LAYERS", layer.to_str().unwrap())];
    let output = ab(folder.path(), &["--calibrate", "1s"], &layers);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(noted(folder.path()), ["measured before the pairs"]);
    assert_eq!(stored(folder.path()), 0);
}

#[test]
fn a_folder_that_takes_nothing_does_not_stop_a_comparison() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = [("XDG_STATE_HOME", "/proc/no-such-folder")];
    let output = ab(folder.path(), &["--calibrate", "1s"], &state);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(noted(folder.path()), ["measured before the pairs"]);
}
