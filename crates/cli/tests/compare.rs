//! `towpath compare` and `towpath report` as a user calls them.

#![expect(clippy::unwrap_used, reason = "a broken harness must fail")]

use std::path::Path;
use std::process::{Command, Output};

use towpath_needs::{Need, can_run};

fn towpath(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn numbers(folder: &Path, name: &str, values: &[f64]) {
    let text: String = values.iter().map(|value| format!("{value}\n")).collect();
    std::fs::write(folder.join(name), text).unwrap();
}

const FAST: [f64; 6] = [9.0, 9.1, 8.9, 9.05, 8.95, 9.02];
const SLOW: [f64; 6] = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02];

#[test]
fn the_golden_pair_looks_as_in_debians_ministat() {
    if !can_run(&[Need::Ministat]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    numbers(
        folder.path(),
        "iguana",
        &[50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0],
    );
    numbers(
        folder.path(),
        "chameleon",
        &[150.0, 400.0, 720.0, 500.0, 930.0],
    );
    for level in ["80", "90", "95", "98", "99", "99.5"] {
        let options = ["-s", "-w", "60", "-c", level, "iguana", "chameleon"];
        let theirs = Command::new("ministat")
            .current_dir(folder.path())
            .args(options)
            .output()
            .unwrap();
        let ours = towpath(
            folder.path(),
            &[&["compare", "--ministat"], &options[..]].concat(),
        );
        assert_eq!(out(&ours), out(&theirs), "{level}");
    }
}

#[test]
fn exit_codes_tell_regression_from_doubt_and_from_failure() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    numbers(at, "fast", &FAST);
    numbers(at, "slow", &SLOW);
    let code = |arguments: &[&str]| towpath(at, arguments).status.code();
    assert_eq!(code(&["compare", "slow", "--vs", "fast"]), Some(0));
    assert_eq!(code(&["compare", "fast", "--vs", "slow"]), Some(2));
    assert_eq!(
        code(&["compare", "fast", "--vs", "slow", "--margin", "50"]),
        Some(0)
    );
    assert_eq!(
        code(&["compare", "fast", "--vs", "slow", "--fail-on", "never"]),
        Some(0)
    );
    assert_eq!(
        code(&["compare", "fast", "--vs", "slow", "--higher"]),
        Some(0)
    );
    numbers(at, "two", &[1.0, 2.0]);
    assert_eq!(
        code(&["compare", "two", "--vs", "two", "--fail-on", "inconclusive"]),
        Some(3)
    );
    let missing = towpath(at, &["compare", "fast", "--vs", "nowhere"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read nowhere: No such file"));
    std::fs::write(at.join("bad"), "hello\n").unwrap();
    let bad = towpath(at, &["compare", "fast", "--vs", "bad"]);
    let text = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(
        text.contains("cannot use bad: line 1, column 1: `hello` is not a number"),
        "{text}"
    );
}

#[test]
fn a_hyperfine_file_with_two_commands_is_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let times = |values: &[f64]| format!("{values:?}");
    let text = format!(
        r#"{{"results":[{{"command":"old","times":{}}},{{"command":"new","times":{}}}]}}"#,
        times(&SLOW),
        times(&FAST)
    );
    std::fs::write(folder.path().join("h.json"), text).unwrap();
    let shown = out(&towpath(folder.path(), &["compare", "h.json"]));
    assert!(
        shown.starts_with("time: new is better than old: -10"),
        "{shown}"
    );
    assert!(shown.contains("not alternated"), "{shown}");
}

#[test]
fn gears_logs_are_one_run_each_unless_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for (index, level) in [7000.0, 7050.0, 6950.0, 7400.0, 7450.0, 7350.0]
        .iter()
        .enumerate()
    {
        let line = |add: f64| format!("35000 frames in 5.0 seconds = {:.3} FPS\n", level + add);
        let text = [line(-900.0), line(1.0), line(-1.0)].concat();
        let name = format!("log{index}");
        std::fs::write(folder.path().join(&name), text).unwrap();
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let arguments = [
        "compare", names[0], names[1], names[2], "--vs", names[3], names[4], names[5],
    ];
    let shown = out(&towpath(folder.path(), &arguments));
    assert!(
        shown.starts_with("fps: log3 and 2 more is better than log0 and 2 more"),
        "{shown}"
    );
    assert!(
        shown.contains("3 + 3 runs") && shown.contains("warm-up"),
        "{shown}"
    );
    let each = out(&towpath(
        folder.path(),
        &[&arguments[..], &["--each-line"]].concat(),
    ));
    assert!(each.contains("9 + 9 runs"), "{each}");
}

#[test]
fn a_result_is_written_in_every_form_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    numbers(at, "fast", &FAST);
    numbers(at, "slow", &SLOW);
    let all = [
        "--json", "r.json", "--html", "r.html", "--junit", "r.xml", "--csv", "r.csv",
    ];
    let more = ["--markdown", "r.md", "--step-summary", "summary.md"];
    let first = towpath(
        at,
        &[
            &["compare", "fast", "--vs", "slow", "--paired"],
            &all[..],
            &more,
        ]
        .concat(),
    );
    assert_eq!(first.status.code(), Some(2));
    for (name, start) in [
        ("r.json", "{\n  \"schema\": \"towpath.compare/1\""),
        ("r.html", "<!doctype html>"),
        ("r.xml", "<?xml"),
        ("r.csv", "arm,label"),
        ("r.md", "<!-- towpath"),
        ("summary.md", "<!-- towpath"),
    ] {
        assert!(
            std::fs::read_to_string(at.join(name))
                .unwrap()
                .starts_with(start),
            "{name}"
        );
    }
}

#[test]
fn exclusions_need_a_reason_and_blocks_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    numbers(at, "fast", &FAST);
    numbers(at, "slow", &SLOW);
    let first = towpath(
        at,
        &[
            "compare", "fast", "--vs", "slow", "--paired", "--json", "r.json",
        ],
    );
    let again = towpath(at, &["report", "r.json"]);
    assert_eq!((again.status.code(), out(&again)), (Some(2), out(&first)));
    let without = out(&towpath(
        at,
        &["report", "r.json", "--exclude", "2=the backup ran"],
    ));
    assert!(
        without.contains("with the excluded runs: value: slow is worse"),
        "{without}"
    );
    assert!(
        without.starts_with("value: slow against fast is inconclusive"),
        "5 pairs: {without}"
    );
    assert_eq!(
        towpath(at, &["report", "r.json", "--exclude", "2="])
            .status
            .code(),
        Some(1)
    );
    assert_eq!(
        towpath(at, &["report", "r.json", "--exclude", "99=x"])
            .status
            .code(),
        Some(1)
    );
    let twice = towpath(at, &["report", "r.json", "r.json"]);
    assert_eq!(
        twice.status.code(),
        Some(1),
        "one measurement must not count twice"
    );
    let text = std::fs::read_to_string(at.join("r.json"))
        .unwrap()
        .replace("\"value\": 9.02", "\"value\": 9.03");
    std::fs::write(at.join("other.json"), text).unwrap();
    let joined = out(&towpath(at, &["report", "r.json", "other.json"]));
    assert!(
        joined.contains("12") && joined.contains("2 blocks were joined"),
        "{joined}"
    );
    assert_eq!(towpath(at, &["report", "fast"]).status.code(), Some(1));
}
