//! What is claimed, and when a comparison ends.

use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::common::{COST, result, run, text, with_cost};

#[test]
fn a_metric_of_the_program_is_proven_and_every_run_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let metric = "score=score ([0-9.]+):points:higher";
    // The number of the run makes the values differ a little; B's are twice as high.
    let program =
        "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo score $((BASE + n % 3))";
    let out = run(
        folder.path(),
        &[
            "--pairs",
            "8",
            "--metric",
            metric,
            "--primary",
            "score",
            "--a-env",
            "BASE=100",
            "--b-env",
            "BASE=200",
            "--json",
            "r.json",
            "--",
            "sh",
            "-c",
            program,
        ],
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("score"), "{}", text(&out.stdout));
    let result = result(folder.path());
    assert_eq!(result["schema"], "towpath.ab/1");
    assert_eq!(result["runs"].as_array().unwrap().len(), 16);
    assert_eq!(result["design"]["seed"], 7);
    let score = result["judgements"]
        .as_array()
        .unwrap()
        .iter()
        .find(|j| j["metric"] == "score")
        .unwrap();
    assert_eq!(score["judgement"]["verdict"], "faster");
    assert_eq!(score["is_primary"], true);
}

#[test]
fn a_proven_regression_is_exit_code_two() {
    let folder = tempfile::tempdir().unwrap();
    let metric = "cost=cost ([0-9.]+)::lower";
    let program =
        "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo cost $((BASE + n % 3))";
    let args = [
        "--pairs",
        "8",
        "--metric",
        metric,
        "--primary",
        "cost",
        "--a-env",
        "BASE=100",
        "--b-env",
        "BASE=200",
        "--",
        "sh",
        "-c",
        program,
    ];
    assert_eq!(run(folder.path(), &args).status.code(), Some(2));
    let quiet: Vec<&str> = ["--fail-on", "never"].into_iter().chain(args).collect();
    assert_eq!(run(folder.path(), &quiet).status.code(), Some(0));
}

#[test]
fn equal_arms_show_the_noise_floor() {
    let folder = tempfile::tempdir().unwrap();
    let out = with_cost(folder.path(), "--null --pairs 8", COST);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let shown: Vec<String> = text(&out.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let shown = shown.join(" ");
    assert!(shown.contains("both arms the same on purpose"), "{shown}");
    assert!(
        shown.contains("noise floor of cost: pairs scatter by 0.")
            && shown.contains("with 6 pairs")
            && shown.contains("with 50 pairs"),
        "{shown}"
    );
    let result = result(folder.path());
    assert_eq!(result["design"]["is_null"], true);
    assert_eq!(result["a"]["fix"], result["b"]["fix"]);
}

#[test]
fn a_search_until_proven_ends_by_itself_and_says_how_it_was_judged() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--until-proven --pairs 60 --a-env BASE=1000 --b-env BASE=2000";
    let out = with_cost(folder.path(), words, COST);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let result = result(folder.path());
    let runs = result["runs"].as_array().unwrap().len();
    // Eight pairs of one sign are the least that a stake of twenty takes.
    assert_eq!(runs, 16, "{}", text(&out.stdout));
    let judged = &result["judgements"].as_array().unwrap();
    let cost = judged.iter().find(|one| one["metric"] == "cost").unwrap();
    assert_eq!(cost["judgement"]["method"], "sign-process");
    let shown = text(&out.stdout).replace('\n', " ");
    assert!(shown.contains("until proven by the e-process"), "{shown}");
}

#[test]
fn a_budget_ends_in_time_and_keeps_whole_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let start = std::time::Instant::now();
    let out = with_cost(folder.path(), "--budget 3s", &format!("{COST}; sleep 0.1"));
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(start.elapsed() < Duration::from_secs(30));
    let result = result(folder.path());
    let runs = result["runs"].as_array().unwrap();
    assert!(
        runs.len() >= 2 && runs.len().is_multiple_of(2),
        "{}",
        runs.len()
    );
    let last = runs.last().unwrap()["started_s"].as_f64().unwrap();
    assert!(last <= 3.0, "a pair was begun at {last} s");
    assert_eq!(result["design"]["stop"]["rule"], "budget");
}

#[test]
fn a_machine_that_drifts_is_noted_and_each_arm_has_its_own_state() {
    let folder = tempfile::tempdir().unwrap();
    // Each run is slower than the one before; each arm counts its own runs in its own folder.
    let program = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo cost $((1000 + 30 * n)); \
        echo x >> $TOWPATH_ARM_FOLDER/mine; wc -l < $TOWPATH_ARM_FOLDER/mine >> seen-$TOWPATH_ARM";
    let out = with_cost(folder.path(), "--pairs 8", program);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let shown = text(&out.stdout).replace('\n', " ");
    assert!(
        shown.contains("drift: cost of fixes off changed by +"),
        "{shown}"
    );
    for arm in ["a", "b"] {
        let seen = fs::read_to_string(folder.path().join(format!("seen-{arm}"))).unwrap();
        let counts: Vec<usize> = seen
            .lines()
            .map(|line| line.trim().parse().unwrap())
            .collect();
        assert_eq!(
            counts,
            (1..=9).collect::<Vec<_>>(),
            "one warm-up run, then eight"
        );
    }
}

#[test]
fn blocks_of_both_sides_of_a_reboot_are_joined_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    with_cost(at, "--pairs 6 --a-env BASE=1000 --b-env BASE=900", COST);
    let first = result(at);
    let mut second = first.clone();
    second["machine"]["boot_id"] = "another".into();
    second["machine"]["kernel"] = "7.0".into();
    second["runs"][0]["readings"]["cost"]["value"] = 1003.5.into();
    fs::write(at.join("after.json"), second.to_string()).unwrap();
    let mut report = Command::new(env!("CARGO_BIN_EXE_towpath"));
    let report = report.current_dir(at);
    let out = report
        .args(["report", "r.json", "after.json", "--json", "both.json"])
        .output()
        .unwrap();
    let shown = text(&out.stdout)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(out.status.code(), Some(0), "{shown}");
    assert!(
        shown.contains("2 blocks were joined; pairs lie within blocks")
            && shown.contains("block 2 was measured after another boot")
            && shown.contains("kernel is `7.0`")
            && shown.contains("12 pairs"),
        "{shown}"
    );
    let both: Value = serde_json::from_slice(&fs::read(at.join("both.json")).unwrap()).unwrap();
    assert_eq!(both["runs"].as_array().unwrap().len(), 24);
}
