//! Staged copies: the table of calls that may be staged, errors on the way, and what is given back.

use crate::common::{Arm, Driver, Seen, command, run, run_with, same};
use towpath_ledger::Outcome;
use towpath_needs::{Need, can_run};
use towpath_settings::calibration::{Entry, Key, Snapshot};
use towpath_transfer::engine::Shape;
use towpath_transfer::policy::{Calibration, Class, Direction, Mechanism, Timing, Warmth};

fn nothing_left(seen: &Seen) {
    for name in [
        "mems",
        "queues",
        "events",
        "contexts",
        "maps",
        "pinned_bytes",
    ] {
        assert_eq!(seen.count(name), 0, "{name}: {seen:?}");
    }
}

#[test]
fn each_row_of_the_table_is_kept() {
    let [bare, off, on, staged] = same("staging-rows", Driver::Fake);
    for unstaged in [&bare, &off, &on] {
        let copies = unstaged
            .counts
            .iter()
            .filter(|(name, _)| name.starts_with("copies."));
        assert_eq!(
            copies.map(|(_, copies)| copies).sum::<u64>(),
            0,
            "{unstaged:?}"
        );
    }
    // The first queue of the scene has a place; of five more, three have.
    let allowed = ["plain", "plain again", "queue 0", "queue 1", "queue 2"];
    for (name, copies) in &staged.counts {
        if let Some(row) = name.strip_prefix("copies.") {
            assert_eq!(*copies, u64::from(allowed.contains(&row)), "{row}");
        }
    }
    nothing_left(&staged);
}

#[test]
fn writes_arrive_alike_with_and_without_event() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("staging-writes", Driver::Pocl);
    let [_, _, _, staged] = same("staging-writes", Driver::Fake);
    nothing_left(&staged);
    for call in [
        "clEnqueueWriteBuffer",
        "clEnqueueWriteBufferRect",
        "clEnqueueWriteImage",
    ] {
        let sites = staged.ledgers[0].sites();
        let outcomes = sites.iter().filter(|site| site.call == call);
        let mut all = outcomes.flat_map(|site| &site.outcomes);
        assert!(all.any(|outcome| outcome.text() == text()), "{call}");
    }
}

fn text() -> &'static str {
    Outcome::Staged.text()
}

#[test]
fn every_shape_and_kind_is_staged_somewhere() {
    for scene in ["kinds", "shapes", "events", "again"] {
        let seen = run(scene, Driver::Fake, Arm::Staged);
        let staged = seen.outcomes().get(text()).copied().unwrap_or(0);
        // Queues with times are never staged.
        assert_eq!(
            staged > 0,
            scene != "events",
            "{scene}: {:?}",
            seen.outcomes()
        );
    }
}

#[test]
fn a_staged_read_is_of_one_moment() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    for driver in [Driver::Pocl, Driver::Fake] {
        let seen = run("staging-one-moment", driver, Arm::Staged);
        assert!(seen.is_complete, "{}", seen.status);
        assert_eq!(seen.lines, ["mixed 0"], "{driver:?}");
        assert!(seen.outcomes()[text()] >= 20, "{:?}", seen.outcomes());
    }
}

#[test]
fn a_read_that_waits_holds_up_no_other_queue() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("staging-gate", Driver::Pocl);
    same("staging-gate", Driver::Fake);
}

#[test]
fn a_driver_that_fails_half_way_costs_no_byte_and_no_object() {
    hold_through_failures(&run("staging-failures", Driver::Fake, Arm::Staged));
}

/// Forced, a small machine has one thread; by the calibration there are three, and chunks in parts.
#[test]
fn a_driver_that_fails_with_parts_on_their_way_costs_neither() {
    let wide = Mechanism::staged(Shape::new(3, Shape::LARGE_CHUNK_BYTES));
    hold_through_failures(&calibrated("staging-failures", wide, SECOND));
}

fn hold_through_failures(seen: &Seen) {
    assert!(seen.is_complete, "{}", seen.status);
    for name in [
        "mems",
        "queues",
        "events",
        "contexts",
        "pinned_bytes",
        "bad_handles",
    ] {
        assert_eq!(seen.count(name), 0, "{name}: {seen:?}");
    }
    // Of 160 failures most are ours to bear.
    assert!(seen.count("told") < 40, "{seen:?}");
    assert!(seen.outcomes().contains_key(text()), "{seen:?}");
}

#[test]
fn shortage_and_loss_end_in_the_drivers_own_answer() {
    for seen in same("staging-shortage", Driver::Fake) {
        nothing_left(&seen);
        assert_eq!(seen.count("bad_handles"), 0);
    }
}

#[test]
fn everything_is_given_back_with_the_programs_queue() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same("staging-reopened", Driver::Pocl);
    same("staging-reopened", Driver::Fake);
}

#[test]
fn a_hundred_thousand_calls_leak_nothing_staged() {
    let seen = run("leak", Driver::Fake, Arm::Staged);
    assert!(seen.is_complete, "{}", seen.status);
    for what in ["descriptors", "threads", "mappings"] {
        let early = seen.count(&format!("{what}.early"));
        let late = seen.count(&format!("{what}.late"));
        assert!(late <= early + 8, "{what}: {early} {late}");
    }
    nothing_left(&seen);
    assert_eq!(seen.count("bad_handles"), 0);
}

/// A command with `auto` and a calibration of the fake device that chose `mechanism` for all, where the
/// driver's own call took `forward_ns` for 1 MiB.
fn calibrated(scene: &str, mechanism: Mechanism, forward_ns: u64) -> Seen {
    let class = |(direction, warmth)| Class {
        direction,
        warmth,
        bytes: 1 << 20,
        forward_ns,
        forward_cpu_ns: forward_ns,
        options: vec![Timing {
            mechanism,
            ns: 1_000_000,
            cpu_ns: 1_000_000,
        }],
        choice: mechanism,
    };
    let calibration = Calibration {
        classes: vec![
            class((Direction::Read, Warmth::Cold)),
            class((Direction::Read, Warmth::Warm)),
            class((Direction::Write, Warmth::Warm)),
        ],
    };
    let key = Key::of_this_machine(Calibration::SUBJECT, "towpath fake device 0", "1.0");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frozen");
    let entry = Entry::new(key, &calibration).unwrap();
    Snapshot::new(vec![entry]).write(&file).unwrap();
    let mut command = command(scene, Driver::Fake, Arm::Off);
    command
        .env("TOWPATH_FIX", "auto")
        .env("TOWPATH_CALIBRATION", &file);
    run_with(command)
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn the_calibration_decides() {
    let staged = calibrated(
        "kinds-cold",
        Mechanism::staged(Shape::new(2, 1 << 20)),
        SECOND,
    );
    assert_eq!(staged.outcomes()[text()], 16, "{:?}", staged.outcomes());
    let forward = calibrated("kinds-cold", Mechanism::Forward, SECOND).outcomes();
    assert_eq!(forward[Outcome::NoGain.text()], 16, "{forward:?}");
    let prefault = calibrated("kinds-cold", Mechanism::Prefault, SECOND).outcomes();
    assert_eq!(prefault[Outcome::Prefaulted.text()], 16, "{prefault:?}");
    // A staging that never comes up to what forwarding took is given up after eight calls.
    let losing = calibrated("kinds-cold", Mechanism::staged(Shape::new(2, 1 << 20)), 1).outcomes();
    assert_eq!(losing[text()], 8, "{losing:?}");
    // Of another device: as if there were none.
    let mut other = command("kinds-cold", Driver::Fake, Arm::Off);
    other
        .env("TOWPATH_FIX", "auto")
        .env("XDG_STATE_HOME", "/nowhere");
    let other = run_with(other).outcomes();
    assert_eq!(other[Outcome::Prefaulted.text()], 16, "{other:?}");
}

#[test]
fn a_queue_released_in_a_callback_takes_its_staging_along_later() {
    for seen in same("staging-in-callback", Driver::Fake) {
        nothing_left(&seen);
    }
}
