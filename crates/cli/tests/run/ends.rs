//! How a program ends, and that nothing is left.

use std::fs;
use std::path::Path;

use crate::common::{kill, left_by, run, run_player, stderr, towpath};

#[test]
fn the_exit_code_is_the_programs_own() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
    ] {
        let output = run(&["--", "sh", "-c", script]);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{script}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn the_programs_output_stays_its_own() {
    let output = run(&["--", "sh", "-c", "printf out; printf err >&2"]);
    assert_eq!(output.stdout, b"out");
    assert!(stderr(&output).starts_with("err") || stderr(&output).contains("\nerr"));
    assert!(
        stderr(&output).contains("towpath: sh ended with code 0"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("neither OpenCL nor Vulkan"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_is_no_program_126() {
    let missing = run(&["--", "no-such-program-of-ours"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("program not found: \"no-such-program-of-ours\""));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, "text").unwrap();
    let output = run(&["--", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(126));
    assert!(
        stderr(&output).contains("cannot execute"),
        "{}",
        stderr(&output)
    );
    let nothing = towpath().arg("run").output().unwrap();
    assert_eq!(
        nothing.status.code(),
        Some(1),
        "a command line without a program is an error of use"
    );
}

#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("parent");
    let script = format!(
        "cat /proc/$PPID/status | grep PPid > {0}; echo $TOWPATH_LEDGER >> {0}",
        marks.display()
    );
    let output = run(&["--", "sh", "-c", &script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(&marks).unwrap();
    let pid: u32 = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let ledgers = text.lines().nth(1).unwrap();
    assert!(ledgers.contains(&format!("-{pid}-")), "{text}");
    assert!(!Path::new(ledgers).exists());
    assert!(left_by(pid).is_empty());
}

#[test]
fn a_program_that_dies_by_a_signal_is_still_reported() {
    let output = run_player(&[], "plays_one_read_and_is_killed");
    assert_eq!(output.status.code(), Some(137));
    let text = stderr(&output);
    assert!(
        text.contains("was ended by signal 9") && text.contains("clEnqueueReadBuffer"),
        "{text}"
    );
}

#[test]
fn what_a_program_leaves_running_is_told_and_lives() {
    let output = run(&["--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]);
    let pid = String::from_utf8(output.stdout.clone()).unwrap();
    let is_there = Path::new(&format!("/proc/{}", pid.trim())).exists();
    kill("KILL", pid.trim());
    assert!(is_there);
    assert!(
        stderr(&output).contains("processes that it started and that run on: 1"),
        "{}",
        stderr(&output)
    );
}
