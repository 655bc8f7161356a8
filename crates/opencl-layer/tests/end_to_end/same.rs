//! A program sees the same with and without the layer: bytes, codes, events.

use crate::common::{Arm, Driver, command, layer, run, run_with, same, same_unstaged};
use towpath_needs::{Need, can_run};

#[test]
fn every_kind_of_destination_gets_the_same_bytes() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    for driver in [Driver::Pocl, Driver::Fake] {
        let [_, off, on, _] = same("kinds", driver);
        assert!(
            off.outcomes().contains_key("fix is off"),
            "{:?}",
            off.outcomes()
        );
        let outcomes = on.outcomes();
        // Cold, zero, half, huge, private file, memfd, shared: three offsets each.
        assert!(outcomes["prefaulted"] >= 18, "{outcomes:?}");
        assert_eq!(outcomes["destination is a shared file"], 3, "{outcomes:?}");
    }
}

#[test]
fn gaps_between_rows_stay_untouched() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    for driver in [Driver::Pocl, Driver::Fake] {
        let [_, _, on, _] = same("shapes", driver);
        let touched: Vec<_> = on.lines.iter().filter(|l| l.contains("outside")).collect();
        assert!(touched.len() >= 4);
        assert!(
            touched.iter().all(|line| line.ends_with(" 0")),
            "{touched:?}"
        );
        assert!(on.outcomes()["prefaulted"] >= 4, "{:?}", on.outcomes());
    }
}

/// The look at the destination's pages once took 12 KiB of the calling thread's stack.
#[test]
fn a_thread_with_the_smallest_stack_reads() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same_unstaged("small-stack", Driver::Pocl);
    same_unstaged("small-stack", Driver::Fake);
}

#[test]
fn wrong_arguments_are_refused_alike() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("bad-arguments", Driver::Pocl);
    same("bad-arguments", Driver::Fake);
}

#[test]
fn a_read_only_destination_ends_alike() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    for driver in [Driver::Pocl, Driver::Fake] {
        let arms = [Arm::Bare, Arm::Off, Arm::On].map(|arm| run("read-only", driver, arm));
        for arm in &arms {
            assert_eq!(arms[0].lines, arm.lines);
            assert_eq!(arms[0].status, arm.status);
            assert_eq!(arms[0].is_complete, arm.is_complete);
        }
    }
}

#[test]
fn events_keep_their_meaning() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("events", Driver::Pocl);
    for seen in same("events", Driver::Fake) {
        for name in ["mems", "queues", "events", "contexts"] {
            assert_eq!(seen.count(name), 0, "{name}");
        }
    }
}

#[test]
fn callbacks_see_no_calls_of_ours() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("callback", Driver::Pocl);
    let [_, off, on, _] = same("callback", Driver::Fake);
    assert_eq!(off.count("flushes in callback"), 0);
    assert_eq!(on.count("flushes in callback"), 0);
}

#[test]
fn errors_of_the_driver_reach_the_program() {
    // Staged, an error of one chunk ends in forwarding the call, which then succeeds: staging.rs.
    for scene in ["driver-errors", "late-errors"] {
        for seen in same_unstaged(scene, Driver::Fake) {
            for name in ["mems", "queues", "events", "contexts"] {
                assert_eq!(seen.count(name), 0, "{scene} {name}");
            }
        }
    }
}

#[test]
fn reads_that_overlap_in_time_are_not_corrupted() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("async", Driver::Pocl);
    same("async", Driver::Fake);
}

#[test]
fn mapped_memory_is_left_to_the_driver() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("mapped", Driver::Pocl);
    let [_, _, on, _] = same("mapped", Driver::Fake);
    let outcomes = on.outcomes();
    assert_eq!(
        outcomes["destination is a driver's mapping"], 1,
        "{outcomes:?}"
    );
    assert_eq!(outcomes["prefaulted"], 1, "{outcomes:?}");
}

#[test]
fn objects_made_again_at_the_same_address_are_not_mixed_up() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("again", Driver::Pocl);
    same("again", Driver::Fake);
}

#[test]
fn nonsense_in_the_environment_changes_nothing() {
    let bare = run("kinds-cold", Driver::Fake, Arm::Bare);
    for (name, value) in [
        ("TOWPATH_LEDGER", "/nowhere/at/all"),
        ("TOWPATH_LEDGER", "/dev/null"),
        ("TOWPATH_FIX", "everything, please"),
        ("TOWPATH_TRANSFER", "\u{1F6B2}"),
        ("TOWPATH_LOG", "/proc/version"),
        ("TOWPATH_OPENCL_LAYERS", ":::"),
        ("TOWPATH_CALIBRATION", "/dev/zero"),
    ] {
        let mut command = command("kinds-cold", Driver::Fake, Arm::On);
        let output = command.env(name, value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(output.stderr.is_empty(), "{name}: {output:?}");
        assert!(
            text.ends_with("end\n") && bare.is_complete,
            "{name}: {text}"
        );
    }
}

#[test]
fn a_layer_named_twice_does_no_harm() {
    let list = format!("{0}:{0}", layer().display());
    let mut twice = command("kinds", Driver::Fake, Arm::On);
    twice.env("OPENCL_LAYERS", list);
    let twice = run_with(twice);
    assert!(twice.is_complete, "{}", twice.status);
    assert_eq!(run("kinds", Driver::Fake, Arm::Bare).lines, twice.lines);
}
