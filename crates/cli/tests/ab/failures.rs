//! What cannot work, fails, or is interrupted.

use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{COST, result, run, text, towpath, with_cost};

#[test]
fn designs_and_commands_that_cannot_work_are_refused_before_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (
            &["--pairs", "3", "--", "touch", "ran"],
            "3 pairs cannot prove anything",
        ),
        (
            &["--primary", "speed", "--", "touch", "ran"],
            "--primary speed: no such metric",
        ),
        (&["--b-fix", "warp", "--", "touch", "ran"], "--b-fix warp"),
        (
            &["--a-env", "X", "--", "touch", "ran"],
            "--a-env X: wants NAME=VALUE",
        ),
        (
            &["--metric", "x=y", "--", "touch", "ran"],
            "NAME=REGEX:UNIT:lower|higher",
        ),
        (&[], "no command"),
    ];
    for (args, wanted) in cases {
        let out = run(folder.path(), args);
        assert!(matches!(out.status.code(), Some(1 | 2)), "{args:?}");
        assert!(
            text(&out.stderr).contains(wanted),
            "{args:?}: {}",
            text(&out.stderr)
        );
    }
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), &["--", "./no-such-program"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("program not found: \"./no-such-program\""),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn a_failing_program_ends_it_and_its_output_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(
        folder.path(),
        &["--", "sh", "-c", "echo the reason; exit 7"],
    );
    assert_eq!(out.status.code(), Some(1));
    let errors = text(&out.stderr);
    assert!(
        errors.contains("the warm-up run of A ended with code 7"),
        "{errors}"
    );
    let path = errors
        .split("its output is in ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "the reason\n");
}

#[test]
fn a_timeout_counts_as_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(folder.path(), &["--timeout", "0.2s", "--", "sleep", "60"]);
    assert!(
        text(&out.stderr).contains("timed out"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(out.status.code(), Some(1));
}

/// Ctrl-C, a service manager, and a terminal that was closed: the last between two runs as well as in one.
#[test]
fn an_interrupt_keeps_the_pairs_that_are_done() {
    use rustix::process::Signal;
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::HUP,
        Signal::HUP,
    ] {
        interrupt(signal);
    }
}

fn interrupt(signal: rustix::process::Signal) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = towpath(folder.path())
        .args([
            "--pairs",
            "200",
            "--json",
            "r.json",
            "--",
            "sh",
            "-c",
            "echo run >> ran; sleep 0.05",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = || {
        fs::read_to_string(folder.path().join("ran"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    // Two warm-up runs, then at least two whole pairs.
    for _ in 0..600 {
        if lines() >= 7 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, signal).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{signal:?}");
    let runs = result(folder.path());
    let runs = runs.get("runs").and_then(Value::as_array).unwrap().len();
    assert!(runs >= 4 && runs.is_multiple_of(2) && runs < 400, "{runs}");
    let left = fs::read_dir(folder.path()).unwrap().flatten();
    let names: Vec<_> = left.map(|entry| entry.file_name()).collect();
    let is_ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("towpath");
    assert!(!names.iter().any(is_ours), "{names:?}");
}

/// Two runs of B fail, one is ended by the timeout: their pairs are left out, the verdict rests on the others.
#[test]
fn failed_and_timed_out_runs_are_counted_and_not_averaged() {
    let folder = tempfile::tempdir().unwrap();
    let program = format!(
        "{COST}; m=$(cat m 2>/dev/null || echo 0); if [ $TOWPATH_ARM = b ]; then echo $((m+1)) > m; \
         if [ $m = 2 ]; then exit 9; fi; if [ $m = 4 ]; then exec sleep 60; fi; fi"
    );
    let out = with_cost(folder.path(), "--pairs 9 --timeout 2s", &program);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let shown = text(&out.stdout);
    assert!(
        shown.contains("1 run(s) of fixes on ended with code 9: counted, not averaged")
            && shown.contains("1 run(s) of fixes on timed out: counted, not averaged"),
        "{shown}"
    );
    let result = result(folder.path());
    assert_eq!(result["runs"].as_array().unwrap().len(), 18);
    let judged = result["judgements"].as_array().unwrap();
    let cost = judged.iter().find(|one| one["metric"] == "cost").unwrap();
    assert_eq!(cost["left_out"], 2);
    assert_eq!(cost["judgement"]["runs_a"], 7);
}

/// Hours of measuring must not end in a file that cannot be made.
#[test]
fn an_output_that_cannot_be_written_is_found_before_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    for option in [
        "--json",
        "--html",
        "--markdown",
        "--step-summary",
        "--junit",
        "--csv",
    ] {
        for path in ["nowhere/r", "."] {
            let out = run(
                folder.path(),
                &["--pairs", "6", option, path, "--", "touch", "ran"],
            );
            assert_eq!(out.status.code(), Some(1), "{option} {path}");
            let told = text(&out.stderr);
            assert!(told.contains(&format!("cannot write {path}")), "{told}");
        }
    }
    assert!(!folder.path().join("ran").exists());
}

/// 2 is "a proven regression": a script that mistypes an option must not be told that.
#[test]
fn a_wrong_command_line_is_no_regression() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["--pears", "8"][..],
        &["--pairs", "x"],
        &["--fail-on", "x"],
    ] {
        let out = run(folder.path(), args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(text(&out.stderr).contains("--help"), "{args:?}");
    }
    let help = run(folder.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
}
