//! `towpath bench waits`: counts are what they are on any machine; times are only there.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::process::Command;

use serde_json::Value;
use towpath_needs::{Need, can_run};

fn waits() -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("waits.json");
    let output = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["bench", "waits", "--rounds", "2", "--frames", "50"])
        .arg("--json")
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let json = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    (text, json)
}

/// The element of a list whose field holds this text.
fn find<'a>(list: &'a Value, field: &str, text: &str) -> &'a Value {
    let mut all = list.as_array().unwrap().iter();
    all.find(|one| {
        one[field]
            .as_str()
            .is_some_and(|there| there.contains(text))
    })
    .unwrap_or_else(|| panic!("no {text:?} in {list}"))
}

#[test]
fn counts_hold_and_every_peer_is_there() {
    let (text, json) = waits();
    let calls = &json["counts"]["calls"];
    for (what, syscalls) in [
        ("wait on 1 reached, local", 0.0),
        ("wait on 64 reached, local", 0.0),
        ("wait on 1 that sleeps, local", 1.0),
        ("wait-any of 64 that sleeps, local", 1.0),
        ("wait-all of 64 that sleeps, local", 1.0),
        ("signal without waiter, local", 0.0),
        ("query, local", 0.0),
        ("wait on 1 reached, shared", 0.0),
        ("wait-any of 64 that sleeps, shared", 1.0),
        ("signal without waiter, shared", 0.0),
    ] {
        let count = find(calls, "what", what);
        assert_eq!(count["allocations"], 0.0, "{what}");
        // A signal to the traced process makes a call be made again now and then.
        let made = count["syscalls"].as_f64().unwrap();
        assert!(
            (syscalls..=syscalls + 0.1).contains(&made),
            "{what}: {made}"
        );
    }
    // What counts nothing would find nothing: a peer that is known to allocate.
    let listener = find(calls, "what", "event-listener");
    assert!(listener["allocations"].as_f64().unwrap() >= 1.0);
    let wakeups = &json["counts"]["wakeups"];
    let sleeps = |what| {
        let row = find(wakeups, "what", what);
        row["sleeps_per_waiter"].as_f64().unwrap()
    };
    assert!(sleeps("timeline, local") <= 1.5, "{wakeups}");
    assert!(sleeps("condition variable") >= 5.0, "{wakeups}");

    for arm in [
        "bare futex, threads on two cores",
        "mutex and condition variable, threads",
        "eventfd and poll, threads",
        "futex_waitv, threads",
        "event-listener, threads",
        "wait-any of 2, shared",
    ] {
        let samples = &find(&json["rows"], "arm", arm)["samples"];
        assert_eq!(samples.as_array().unwrap().len(), 2, "{arm}");
    }
    for duel in ["threads on two cores", "processes on two cores"] {
        let duel = find(&json["duels"], "what", duel);
        assert_eq!(duel["peer"].as_array().unwrap().len(), 20);
        assert!(duel["median_ratio"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(json["gears"]["pairs"].as_array().unwrap().len(), 4);
    assert!(text.contains("sleeps of one satisfied waiter"), "{text}");
}

#[test]
fn lavapipe_is_a_peer_or_said_to_be_missing() {
    let (text, json) = waits();
    if !can_run(&[Need::Lavapipe]) {
        assert!(text.contains("skipped: Mesa lavapipe: "), "{text}");
        return;
    }
    let blocked = find(&json["rows"], "arm", "wait-any of 2, Mesa lavapipe");
    // It spins: milliseconds of 20. Ours is held to 0.2 ms by the record of a quiet machine.
    let burnt = blocked["samples"][0].as_f64().unwrap();
    assert!(burnt > 1000.0, "{burnt} us");
    find(&json["rows"], "arm", "Mesa lavapipe, threads on one core");
    find(
        &json["rows"],
        "arm",
        "wait-all on 64 reached, Mesa lavapipe",
    );
}

#[test]
fn a_machine_without_a_loader_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["bench", "waits", "--rounds", "1", "--frames", "10"])
        .env("VK_ICD_FILENAMES", "/dev/null")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("skipped: Mesa lavapipe: "), "{text}");
}
