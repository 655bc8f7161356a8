//! What runs get and leave: hooks, metrics, reports.

use std::fs;

use crate::common::{COST, result, run, text, with_cost};

#[test]
fn prepare_and_cleanup_know_their_arm() {
    let folder = tempfile::tempdir().unwrap();
    let out = run(
        folder.path(),
        &[
            "--pairs",
            "6",
            "--prepare",
            "echo p$TOWPATH_ARM >> log; test -d $TOWPATH_ARM_FOLDER",
            "--b-prepare",
            "echo only-b >> log",
            "--cleanup",
            "echo c$TOWPATH_ARM >> log",
            "--",
            "true",
        ],
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let count = |word: &str| log.lines().filter(|line| *line == word).count();
    // Six pairs and the warm-up pair.
    assert_eq!(
        (count("pa"), count("pb"), count("only-b"), count("ca")),
        (7, 7, 7, 7)
    );
}

#[test]
fn nothing_of_ours_is_left_behind_and_a_bare_arm_has_no_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let seen = "env | grep -c TOWPATH_LEDGER >> seen-$TOWPATH_ARM; true";
    let out = run(
        folder.path(),
        &["--pairs", "6", "--a-fix", "bare", "--", "sh", "-c", seen],
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(
        fs::read_to_string(folder.path().join("seen-a")).unwrap(),
        "0\n".repeat(7)
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("seen-b")).unwrap(),
        "1\n".repeat(7)
    );
    let left: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("towpath"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn writes_and_frame_logs_of_each_run_become_metrics() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    // Ten frames of a length that depends on the arm and a little on the run; a file of one MiB in B only.
    let program = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; \
        { echo frametime; for i in 1 2 3 4 5 6 7 8 9 10; do echo $((BASE + (i + n) % 3)); done; } > logs/f.csv; \
        if [ $BASE = 40 ]; then head -c 1048576 /dev/zero > logs/big; fi";
    let out = run(
        folder.path(),
        &[
            "--pairs",
            "8",
            "--frames",
            "logs/*.csv",
            "--watch",
            "logs",
            "--primary",
            "fps",
            "--a-env",
            "BASE=20",
            "--b-env",
            "BASE=40",
            "--json",
            "r.json",
            "--html",
            "r.html",
            "--",
            "sh",
            "-c",
            program,
        ],
    );
    assert_eq!(
        out.status.code(),
        Some(2),
        "{}{}",
        text(&out.stdout),
        text(&out.stderr)
    );
    let result = result(folder.path());
    let value = |arm: &str, metric: &str| {
        let runs = result["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["arm"] == arm).unwrap();
        run["readings"][metric]["value"].as_f64().unwrap()
    };
    assert!(
        (40.0..52.0).contains(&value("a", "fps")),
        "{}",
        value("a", "fps")
    );
    assert!(value("b", "over-33.4ms") >= 9.0);
    assert!(value("a", "bytes-written") < 0.1 && value("b", "bytes-written") >= 1.0);
    assert!(
        fs::read_to_string(folder.path().join("r.html"))
            .unwrap()
            .contains("fps")
    );
}

/// vkgears prints a line each five seconds: repeats of one run, whose spread is kept.
#[test]
fn several_result_lines_of_a_run_are_one_value_with_its_spread() {
    let folder = tempfile::tempdir().unwrap();
    let program = format!("{COST}; echo cost 1020; echo cost 980");
    let words = "--pairs 6 --html r.html --csv r.csv";
    let out = with_cost(folder.path(), words, &program);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let result = result(folder.path());
    for run in result["runs"].as_array().unwrap() {
        let reading = &run["readings"]["cost"];
        let repeats: Vec<f64> = reading["repeats"]
            .as_array()
            .unwrap()
            .iter()
            .map(|repeat| repeat.as_f64().unwrap())
            .collect();
        assert_eq!(repeats.len(), 3);
        let mean = repeats.iter().sum::<f64>() / 3.0;
        assert!((reading["value"].as_f64().unwrap() - mean).abs() < 1e-9);
    }
    let judged = result["judgements"].as_array().unwrap();
    let cost = judged.iter().find(|one| one["metric"] == "cost").unwrap();
    assert_eq!(cost["judgement"]["runs_a"], 6, "not 18");
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains("(3 repeats, deviation "), "{page}");
    let csv = fs::read_to_string(folder.path().join("r.csv")).unwrap();
    assert!(
        csv.contains(",cost,,0,") && csv.contains(",cost,,2,980,"),
        "{csv}"
    );
}

/// GitHub shows nothing of a step summary beyond 1 MiB.
#[test]
fn a_step_summary_stays_below_githubs_limit_whatever_is_in_it_already() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let limit = 1 << 20;
    fs::write(at.join("summary.md"), "x".repeat(limit - 900)).unwrap();
    let out = with_cost(
        at,
        "--pairs 6 --step-summary summary.md --markdown c.md --mail",
        COST,
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let summary = fs::metadata(at.join("summary.md")).unwrap().len();
    assert!(
        summary > u64::try_from(limit).unwrap() - 900 && summary <= u64::try_from(limit).unwrap()
    );
    assert!(fs::metadata(at.join("c.md")).unwrap().len() <= 65_536);
    let shown = text(&out.stdout);
    assert!(
        shown.lines().all(|line| line.chars().count() <= 74),
        "{shown}"
    );
}

/// What was asked for and could not be had is said with its reason, never left out and never 0.
#[test]
fn what_cannot_be_read_is_unavailable_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--pairs 6 --watch-disk /proc --metric other=other:([0-9]+)::lower";
    let out = with_cost(folder.path(), words, COST);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let shown = text(&out.stdout)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        shown.contains("other is unavailable: its pattern matched nothing in the output")
            && shown.contains("slow-reads is unavailable: "),
        "{shown}"
    );
    let result = result(folder.path());
    for run in result["runs"].as_array().unwrap() {
        assert!(run["readings"]["slow-reads"]["unavailable"].is_string());
        let queue = &run["readings"]["run-queue"];
        assert!(
            queue["value"].is_number() || queue["unavailable"].is_string(),
            "{queue}"
        );
        let written = &run["readings"]["disk-written"];
        assert!(written["value"].is_number() || written["unavailable"].is_string());
    }
}
