//! `cache::vulkan` under the real loader, on the scripted driver, through the example program.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use towpath_needs::{Need, artifact, can_run};

/// Runs one arm of `examples/warm_start` on the mock driver; gives its answer and the driver's journal.
fn arm(folder: &Path, name: &str, script: &str) -> (Value, String) {
    let manifest = mock(folder);
    let journal = folder.join("journal");
    let _none_yet = std::fs::remove_file(&journal);
    let output = Command::new(artifact("examples/warm_start"))
        .args(["--arm", name, "--count", "450", "--steps", "5", "--folder"])
        .arg(folder.join("store"))
        .env("VK_ICD_FILENAMES", &manifest)
        .env("VK_DRIVER_FILES", &manifest)
        .env(
            "MOCK_VULKAN",
            format!("journal={};{script}", journal.display()),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    (answer, std::fs::read_to_string(journal).unwrap_or_default())
}

/// The small example: compiled once, found at the second start.
#[test]
fn the_example_of_twenty_lines_is_warm_at_its_second_start() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let manifest = mock(folder.path());
    for expected in ["New", "Hit"] {
        let output = Command::new(artifact("examples/overlay"))
            .arg(folder.path().join("store"))
            .env("VK_ICD_FILENAMES", &manifest)
            .env("VK_DRIVER_FILES", &manifest)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
    }
}

/// The scripted driver's manifest.
fn mock(folder: &Path) -> std::path::PathBuf {
    let library = artifact("libtowpath_mock_vulkan.so");
    let manifest = folder.join("icd.json");
    let text = format!(
        r#"{{"file_format_version": "1.0.1", "ICD": {{"library_path": "{}", "api_version": "1.3.0"}}}}"#,
        library.display()
    );
    std::fs::write(&manifest, text).unwrap();
    manifest
}

fn count(journal: &str, event: &str) -> usize {
    journal
        .lines()
        .filter(|line| line.split(' ').any(|word| word == event))
        .count()
}

#[test]
fn the_second_start_compiles_nothing_and_writes_nothing() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (first, journal) = arm(folder.path(), "store", "");
    assert_eq!(count(&journal, "compile"), 450);
    assert_eq!(count(&journal, "fault"), 0);
    assert_eq!((&first["hits"], &first["saves"]), (&0.into(), &13.into()));
    let ratio = first["bytes_written"].as_f64().unwrap() / first["new_bytes"].as_f64().unwrap();
    assert!(ratio <= 1.05, "{ratio}");
    let (second, journal) = arm(folder.path(), "store", "");
    assert_eq!(count(&journal, "compile"), 0);
    assert_eq!(second["hits"], 450);
    assert_eq!(second["bytes_written"], 0);
    // Nothing was fetched either: the size queries at load copy no data.
    assert!(
        second["load"]
            .as_str()
            .unwrap()
            .contains("blobs_accepted: 13"),
        "{second}"
    );
}

#[test]
fn a_driver_that_ignores_a_blob_is_reported_and_compiles() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    arm(folder.path(), "store", "");
    let (second, _) = arm(folder.path(), "store", "policy=rejecting");
    assert!(
        second["load"]
            .as_str()
            .unwrap()
            .contains("blobs_rejected: 13"),
        "{second}"
    );
    assert_eq!(second["hits"], 0);
    // And the store's blobs are still there for the next driver.
    let (third, journal) = arm(folder.path(), "store", "");
    assert_eq!(
        (&third["hits"], count(&journal, "compile")),
        (&450.into(), 0)
    );
}

#[test]
fn pipeline_binaries_need_no_cache_and_no_second_compile() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (first, journal) = arm(folder.path(), "binaries", "binaries=1");
    assert_eq!(
        (count(&journal, "compile"), count(&journal, "fault")),
        (450, 0)
    );
    assert_eq!(first["hits"], 0);
    let (second, journal) = arm(folder.path(), "binaries", "binaries=1");
    assert_eq!(
        (count(&journal, "compile"), count(&journal, "fault")),
        (0, 0)
    );
    assert_eq!(
        (&second["hits"], &second["bytes_written"]),
        (&450.into(), &0.into())
    );
    let (without, _) = arm(folder.path(), "binaries", "binaries=0");
    assert!(without["skipped"].is_string());
}

#[test]
fn the_driver_says_what_it_offers_and_the_way_follows() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (script, way) in [
        ("cache_control=1;binaries=1", "Overlay"),
        ("cache_control=1;binaries=0", "Overlay"),
        ("cache_control=0;binaries=1", "Binaries"),
        ("cache_control=0;binaries=0", "Blob"),
    ] {
        let (answer, _) = arm(folder.path(), "null", script);
        let offers = answer["offers"].as_str().unwrap();
        assert!(offers.ends_with(way), "{script}: {offers}");
    }
}

#[test]
fn binaries_under_the_programs_own_names_need_no_spirv() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (first, journal) = arm(folder.path(), "named", "binaries=1");
    assert_eq!(
        (&first["hits"], count(&journal, "compile")),
        (&0.into(), 450)
    );
    let (second, journal) = arm(folder.path(), "named", "binaries=1");
    assert_eq!(
        (&second["hits"], &second["bytes_written"]),
        (&450.into(), &0.into())
    );
    for event in ["compile", "fault", "vkCreateShaderModule"] {
        assert_eq!(count(&journal, event), 0, "{event}");
    }
    // One call for 64 pipelines, to make binaries and to make pipelines.
    for event in ["vkCreatePipelineBinariesKHR", "vkCreateComputePipelines"] {
        assert_eq!(count(&journal, event), 450_usize.div_ceil(64), "{event}");
    }
    // Another driver has another global key, and another folder.
    let (other, journal) = arm(folder.path(), "named", "binaries=1;identity=B");
    assert_eq!(
        (&other["hits"], count(&journal, "compile")),
        (&0.into(), 450)
    );
}

#[test]
fn another_driver_on_the_same_gpu_neither_sees_nor_spoils_the_blobs() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for visit in 0..6 {
        let script = ["identity=A", "identity=B"][visit % 2];
        let (answer, journal) = arm(folder.path(), "store", script);
        assert_eq!(count(&journal, "blob-foreign"), 0);
        assert_eq!(
            answer["hits"],
            if visit < 2 { 0 } else { 450 },
            "visit {visit}"
        );
    }
}
