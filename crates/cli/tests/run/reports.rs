//! What `run` writes and shows.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{run, run_player, stderr, towpath};

#[test]
fn sites_are_reported_as_text_json_html_and_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, html, bundle) = (path("r.json"), path("r.html"), path("r.tar"));
    let options = ["--json", &json, "--html", &html, "--bundle", &bundle];
    let output = run_player(&options, "plays_one_read");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stderr(&output);
    for part in [
        "readback",
        "clEnqueueReadBuffer",
        "8.000 MiB",
        "50.00 ms",
        "2,048",
        "100 %",
        "fix is off",
        "fix would save about",
        "on a device",
        "from run-",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["schema"], "towpath.run/1");
    assert_eq!(report["end"]["code"], 0);
    assert_eq!(report["ledger"]["sites"][0]["cold_bytes"], 8 << 20);
    assert!(
        report["ledger"]["sites"][0]["prediction"]["saved_ns"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(
        fs::read_to_string(&html)
            .unwrap()
            .contains("clEnqueueReadBuffer")
    );
    let listed = Command::new("tar").args(["-tf", &bundle]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("towpath/report.json") && listed.contains("opencl_layer-"),
        "{listed}"
    );
}

#[test]
fn damaged_ledgers_are_told_and_the_others_read() {
    let output = run_player(&[], "plays_a_program_that_leaves_a_damaged_ledger");
    assert!(output.status.success());
    let text = stderr(&output);
    for part in [
        "1-cut.ledger is not a ledger",
        "2-later.ledger is of version 77",
        "3-short.ledger is cut off",
        "clEnqueueReadBuffer",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn a_report_that_cannot_be_written_does_not_change_the_exit_code() {
    let output = run(&[
        "--json",
        "/no/such/folder/r.json",
        "--",
        "sh",
        "-c",
        "exit 5",
    ]);
    assert_eq!(output.status.code(), Some(5));
    assert!(
        stderr(&output).contains("cannot write /no/such/folder/r.json"),
        "{}",
        stderr(&output)
    );
    let output = towpath()
        .args(["run", "--", "true"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(output.success());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = towpath()
        .args(["run", "--", "sh", "-c", "exit 5"])
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(output.code(), Some(5), "nobody reads the report");
}

#[test]
fn writes_and_the_disk_are_watched_and_what_cannot_be_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json").display().to_string();
    let watched = folder.path().join("watched");
    fs::create_dir(&watched).unwrap();
    let watched = watched.display().to_string();
    let script = format!("echo 123456789 > {watched}/a");
    let words = [
        "--watch", &watched, "--json", &json, "--", "sh", "-c", &script,
    ];
    let output = run(&words);
    let text = stderr(&output);
    assert!(text.contains("files written: 1, 10.00 bytes"), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["beside"]["writes"]["writes"][0]["bytes"], 10);
    assert!(report["beside"]["disk_probe"].is_null());

    let output = run(&[
        "--watch",
        "/no/such",
        "--watch-disk",
        "/no/such",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text.contains("files written: unavailable (/no/such: "),
        "{text}"
    );
    assert!(
        text.contains("disk probe: unavailable (/no/such: "),
        "{text}"
    );
}
