//! The waits fix: fewer driver calls, and in every row the driver's own answer.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use towpath_ledger::{Counter, read_folder};
use towpath_mock_game::scene::{Ran, Scene};
use towpath_needs::{Need, can_run};

struct Stage {
    folder: tempfile::TempDir,
    bare: Scene,
    fixed: Scene,
}

fn stage(script: &str) -> Option<Stage> {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    fs::create_dir(&ledger).unwrap();
    let bare = Scene::new(folder.path()).script(script);
    let fixed = bare
        .clone()
        .layer("VK_LAYER_TOWPATH_host")
        .var("TOWPATH_LEDGER", &ledger)
        .var("TOWPATH_FIX", "waits");
    can_run(&[Need::Lavapipe]).then_some(Stage {
        folder,
        bare,
        fixed,
    })
}

fn same(stage: &Stage, steps: &[&str]) -> (Ran, Ran) {
    let bare = stage.bare.steps(steps);
    let fixed = stage.fixed.steps(steps);
    assert_eq!(bare.code, Some(0), "{bare:?}");
    assert_eq!((&fixed.said, fixed.code), (&bare.said, bare.code));
    assert_eq!(fixed.journal.count("fault"), bare.journal.count("fault"));
    (bare, fixed)
}

#[test]
fn what_is_known_is_not_asked_again() {
    let Some(stage) = stage("gpu_us=500") else {
        return;
    };
    let (bare, fixed) = same(&stage, &["repeat=10", "timeline=5", "submit=3"]);
    assert_eq!(bare.journal.count("vkWaitForFences"), 10 + 3);
    assert_eq!(fixed.journal.count("vkWaitForFences"), 1 + 3);
    assert_eq!(bare.journal.count("vkWaitSemaphores"), 10);
    assert_eq!(fixed.journal.count("vkWaitSemaphores"), 5);
    let (files, _) = read_folder(&stage.folder.path().join("ledger"));
    let ledger = files.first().unwrap();
    assert_eq!(ledger.counter(Counter::WaitsRepeated), 9 + 5);
    // The last is the wait for the device before it is destroyed.
    assert_eq!(ledger.counter(Counter::WaitsEntered), 4 + 5 + 1);
}

#[test]
fn every_row_gets_the_drivers_answer() {
    let Some(stage) = stage("") else { return };
    let (_, fixed) = same(&stage, &["external", "sync-fd", "wait-any=3", "reuse=20"]);
    // Signaled, reset by the export, signaled by the import, reset; then a signal from below.
    assert!(
        fixed.said.contains("states=[1, 0, 1, 0, 1, 1]"),
        "{}",
        fixed.said
    );
    assert!(fixed.said.contains("signaled=10"), "{}", fixed.said);
}

#[test]
fn handle_values_that_come_again_start_anew() {
    let Some(stage) = stage("reuse=1") else {
        return;
    };
    let (_, fixed) = same(&stage, &["reuse=40", "repeat=3", "submit=4", "reuse=40"]);
    assert!(fixed.said.contains("signaled=20"), "{}", fixed.said);
}

#[test]
fn a_lost_device_is_told() {
    let Some(stage) = stage("lost_after=3") else {
        return;
    };
    let (_, fixed) = same(&stage, &["submit=5", "reuse=4"]);
    assert!(fixed.said.contains("ERROR_DEVICE_LOST"), "{}", fixed.said);
    assert!(fixed.said.contains("signaled=0 lost=4"), "{}", fixed.said);
}
