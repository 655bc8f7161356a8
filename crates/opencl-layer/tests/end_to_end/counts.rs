//! What the driver counts with the readback fix on.

use crate::common::{Arm, Driver, command, layer, run, run_with, same};
use towpath_needs::{Need, artifact, can_run};

#[test]
fn no_page_is_cold_when_the_driver_gets_the_call() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let off = run("counts", Driver::Fake, Arm::Off);
    let on = run("counts", Driver::Fake, Arm::On);
    assert!(on.is_complete, "{}", on.status);
    for kind in ["Cold", "Zero", "Half", "Memfd", "FilePrivate"] {
        assert!(
            off.count(&format!("cold.{kind}")) >= 2048,
            "{kind}: {off:?}"
        );
        assert_eq!(on.count(&format!("cold.{kind}")), 0, "{kind}");
        assert_eq!(on.count(&format!("faults.{kind}")), 0, "{kind}");
    }
    assert_eq!(on.count("cold.Warm"), 0);
    assert_eq!(off.count("flush"), 0, "no flush without a prefault");
    assert_eq!(on.count("flush"), 5, "one for each prefault");
    assert_eq!(on.count("read_buffer"), 6, "each call once");
}

#[test]
fn the_queue_is_flushed_before_the_pages_come_in() {
    let [bare, off, on, _] = same("overlap", Driver::Fake);
    assert_eq!(bare.count("flush"), 0);
    assert_eq!(off.count("flush"), 0);
    assert_eq!(on.count("flush"), 1);
}

#[test]
fn two_devices_are_told_apart() {
    let arms = [Arm::Bare, Arm::On].map(|arm| {
        let mut command = command("two-devices", Driver::Fake, arm);
        command.env("TOWPATH_FAKE_DEVICES", "2");
        run_with(command)
    });
    let [bare, on] = &arms;
    assert!(on.is_complete, "{}", on.status);
    assert_eq!(bare.lines, on.lines);
    assert_eq!(on.count("cold_pages"), 0);
    let mut devices: Vec<_> = on.ledgers[0]
        .sites()
        .into_iter()
        .map(|site| site.device)
        .collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices, ["towpath fake device 0", "towpath fake device 1"]);
}

#[test]
fn after_a_fork_shared_pages_are_brought_in() {
    let [_, off, on, _] = same("fork", Driver::Fake);
    assert!(off.count("faults.first") >= 2048, "{off:?}");
    // The driver's thread shares its stack with the child, too.
    assert!(on.count("faults.first") <= 4, "{on:?}");
    assert!(on.count("faults.second") <= 4, "{on:?}");
    if can_run(&[Need::Pocl]) {
        same("fork", Driver::Pocl);
    }
}

#[test]
fn closed_descriptors_do_not_matter() {
    let [_, off, on, _] = same("close-all", Driver::Fake);
    assert_eq!(off.count("cold.after"), 2048);
    assert_eq!(on.count("cold.after"), 0);
}

#[test]
fn children_inherit_the_whole_list_of_layers() {
    let list = format!(
        "{}:{}",
        artifact("libtowpath_penalty_layer.so").display(),
        layer().display()
    );
    let mut cut = command("child", Driver::Fake, Arm::On);
    cut.env("OPENCL_LAYERS", &list);
    let mut whole = command("child", Driver::Fake, Arm::On);
    whole
        .env("OPENCL_LAYERS", &list)
        .env("TOWPATH_OPENCL_LAYERS", &list);
    assert_eq!(run_with(whole).count("layers of the child"), 2);
    // When this fails, the loader no longer cuts the list and the mending can go.
    assert_eq!(run_with(cut).count("layers of the child"), 1);
}

#[test]
fn the_penalty_is_charged_without_the_fix_and_not_with_it() {
    if !can_run(&[Need::Pocl, Need::PagemapScan]) {
        return;
    }
    let list = format!(
        "{}:{}",
        artifact("libtowpath_penalty_layer.so").display(),
        layer().display()
    );
    let charged = |driver, arm| {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = command("kinds-cold", driver, arm);
        command
            .env("OPENCL_LAYERS", &list)
            .env("TOWPATH_PENALTY_NS_PER_PAGE", "1000")
            .env("TOWPATH_PENALTY_LOG", log.path());
        assert!(run_with(command).is_complete);
        let text = std::fs::read_to_string(log.path()).unwrap();
        let cold = text.lines().map(|line| line.rsplit_once(' ').unwrap().1);
        cold.map(|cold| cold.parse::<u64>().unwrap()).sum::<u64>()
    };
    for driver in [Driver::Pocl, Driver::Fake] {
        assert!(charged(driver, Arm::Off) >= 8 * 1024, "{driver:?}");
        assert_eq!(charged(driver, Arm::On), 0, "{driver:?}");
    }
}

#[test]
fn a_hundred_thousand_calls_leak_nothing() {
    let on = run("leak", Driver::Fake, Arm::On);
    assert!(on.is_complete, "{}", on.status);
    for what in ["descriptors", "threads", "mappings"] {
        let (early, late) = (
            on.count(&format!("{what}.early")),
            on.count(&format!("{what}.late")),
        );
        assert_eq!(early, late, "{what}");
    }
    let grown = on
        .count("anonymous KiB.late")
        .saturating_sub(on.count("anonymous KiB.early"));
    assert!(grown < 1024, "{grown} KiB");
    for name in [
        "mems",
        "queues",
        "events",
        "contexts",
        "maps",
        "pinned_bytes",
        "bad_handles",
    ] {
        assert_eq!(on.count(name), 0, "{name}");
    }
    let calls: u64 = on.ledgers[0].sites().iter().map(|site| site.calls).sum();
    assert_eq!(calls, 100_000, "each call is recorded once");
}
