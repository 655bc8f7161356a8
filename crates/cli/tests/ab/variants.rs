//! More than two variants.

use std::fs;

use crate::common::{result, run, text};

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
