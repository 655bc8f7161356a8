//! `towpath ab` from outside: exit codes, the result file, failures, interruption, what is left behind.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn towpath(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env("XDG_STATE_HOME", folder.join("state"));
    // A few pages: tests count, they do not measure.
    command.args(["ab", "--warm-host", "1", "--seed", "7"]);
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    towpath(folder).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn result(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("r.json")).unwrap()).unwrap()
}

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

/// Seed 000's table: three variants, three times each, by one command that claims nothing.
#[test]
fn three_variants_three_times_are_described_and_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    let program = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; \
        { echo frametime; echo 500; echo '# in play'; for i in 1 2 3 4 5; do echo $((BASE + n % 2)); done; } > logs/f.csv; \
        if [ $BASE = 40 ]; then head -c 1048576 /dev/zero > logs/cache; fi; echo $TOWPATH_ARM >> order";
    let words = "--describe --pairs 3 --judge bytes-written,over-33.4ms,over-25ms,late,low-1% \
        --frames logs/f.csv --watch logs --a-env BASE=40 --b-env BASE=20 --c-env BASE=10 \
        --a-name before --b-name fix --c-name takeover --json r.json --html r.html --markdown r.md --junit r.xml";
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.extend(["--frames-from-marker", "in play", "--", "sh", "-c", program]);
    let out = run(folder.path(), &words);
    let shown = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{shown}{}", text(&out.stderr));
    assert!(
        shown.starts_with("not tested: n too small. 3 runs per arm can prove nothing"),
        "{shown}"
    );
    for row in [
        "over-33.4ms         before    5 / 5 / 5 (mean 5)",
        "                    fix       0 / 0 / 0 (mean 0)",
        "                    takeover  0 / 0 / 0 (mean 0)",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    assert!(
        shown.contains("frame logs were cut: from marker `in play`"),
        "{shown}"
    );
    let result = result(folder.path());
    assert_eq!(result["judgements"].as_array().unwrap().len(), 0);
    assert_eq!(result["design"]["is_described"], true);
    assert_eq!(result["runs"].as_array().unwrap().len(), 9);
    let order = fs::read_to_string(folder.path().join("order")).unwrap();
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order[..3], ["a", "b", "c"], "the warm-up round");
    for round in order[3..].chunks(3) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, ["a", "b", "c"]);
    }
    for (name, part) in [
        ("r.md", "| before | 5 / 5 / 5 | 5 |"),
        ("r.html", "not tested: n too small"),
        ("r.xml", "tests=\"0\""),
    ] {
        let file = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(file.contains(part), "{name}: {file}");
    }
}

/// With enough rounds both variants are tested against the reference, and corrected together.
#[test]
fn three_variants_with_enough_rounds_are_judged_against_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo cost $((BASE + n % 7))";
    let words = "--pairs 8 --primary cost --a-env BASE=1000 --b-env BASE=2000 --c-env BASE=500 --json r.json";
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.extend([
        "--metric",
        "cost=cost ([0-9.]+)::lower",
        "--",
        "sh",
        "-c",
        program,
    ]);
    let out = run(folder.path(), &words);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let result = result(folder.path());
    let judged: Vec<(String, String, f64)> = result["judgements"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|judged| judged["metric"] == "cost")
        .map(|judged| {
            (
                judged["arm"].as_str().unwrap_or("b").to_owned(),
                judged["judgement"]["verdict"].as_str().unwrap().to_owned(),
                judged["judgement"]["p_adjusted"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        judged,
        [
            ("b".to_owned(), "slower".to_owned(), 2.0 / 128.0),
            ("c".to_owned(), "faster".to_owned(), 2.0 / 128.0)
        ],
        "each p is 1/128; Holm doubles it for two comparisons"
    );
}

/// A program whose cost depends on its arm and a little on the number of its run.
const COST: &str = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo cost $((${BASE:-1000} + n * 7 % 11))";

fn with_cost(folder: &Path, words: &str, program: &str) -> Output {
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.extend([
        "--metric",
        "cost=cost ([0-9.]+)::lower",
        "--primary",
        "cost",
    ]);
    words.extend(["--json", "r.json", "--", "sh", "-c", program]);
    run(folder, &words)
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
