//! Signals, keys, and switches of a running program.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use crate::common::{kill, left_by, line, player, run, spawn, stderr, towpath, until};

#[test]
fn a_signal_to_us_reaches_the_program_and_its_answer_comes_back() {
    for signal in ["TERM", "INT", "HUP", "USR1"] {
        let script = format!(
            "trap 'echo caught; exit 33' {signal}; echo ready; while :; do sleep 0.05; done"
        );
        let mut child = spawn(&["run", "--", "sh", "-c", &script]);
        assert_eq!(line(&mut child), "ready");
        kill(signal, &child.id().to_string());
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"caught\n", "{signal}");
        assert_eq!(output.status.code(), Some(33), "{signal}");
        assert!(left_by(pid).is_empty());
    }
}

#[test]
fn a_program_that_a_signal_ends_gives_128_and_the_signal() {
    let mut child = spawn(&["run", "--", "sh", "-c", "echo ready; exec sleep 600"]);
    assert_eq!(line(&mut child), "ready");
    kill("TERM", &child.id().to_string());
    assert_eq!(
        child.wait_with_output().unwrap().status.code(),
        Some(128 + 15)
    );
}

#[test]
fn what_a_killed_run_left_goes_with_the_next() {
    let mut child = spawn(&["run", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    let program = line(&mut child);
    let pid = child.id();
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert_eq!(left_by(pid).len(), 1, "nothing could be removed");
    kill("KILL", &program);
    assert!(run(&["--", "true"]).status.success());
    assert!(left_by(pid).is_empty());
}

#[test]
fn fixes_are_switched_in_a_running_program() {
    let player = player("plays_a_program_that_waits_for_a_fix");
    let words: Vec<&str> = ["run", "--"]
        .into_iter()
        .chain(player.iter().map(String::as_str))
        .collect();
    let mut child = spawn(&words);
    let mut text = line(&mut child);
    // The test harness prints its own lines first.
    while !text.contains("ready ") {
        text = line(&mut child);
    }
    let pid = text.rsplit(' ').next().unwrap().to_owned();
    let other = towpath()
        .args(["fix", "on", "--pid", "1"])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(1));
    assert!(
        stderr(&other).contains(&pid),
        "the processes that could be meant: {}",
        stderr(&other)
    );
    let switched = towpath()
        .args(["fix", "on", "upload", "--pid", &pid])
        .output()
        .unwrap();
    assert!(switched.status.success(), "{}", stderr(&switched));
    assert!(String::from_utf8_lossy(&switched.stdout).contains(": upload"));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(42));
}

#[test]
fn a_key_on_the_terminal_reaches_the_program_once() {
    let exe = env!("CARGO_BIN_EXE_towpath");
    let program =
        "trap \"printf cau%s ght; exit 21\" INT; printf \"rea%s\" dy; while :; do sleep 0.05; done";
    let whole = format!("{exe} run -- sh -c '{program}'; echo code $?");
    let folder = tempfile::tempdir().unwrap();
    let typescript = folder.path().join("typescript");
    let mut script = Command::new("env")
        .args([
            "--default-signal",
            "script",
            "-qfc",
            &whole,
            typescript.to_str().unwrap(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let text = || String::from_utf8_lossy(&fs::read(&typescript).unwrap_or_default()).into_owned();
    until("ready", || text().contains("ready"));
    script.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    until("the end", || text().contains("code "));
    drop(script.stdin.take());
    script.wait().unwrap();
    assert_eq!(text().matches("caught").count(), 1, "{}", text());
    assert!(text().contains("code 21"), "{}", text());
}
