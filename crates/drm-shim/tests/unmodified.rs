//! Unmodified programs under the preloaded library: the rules of sync objects through `ioctl`, a
//! program that uses libdrm, and what the ledger says of both.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use towpath_ledger::{Counter, Histogram, LedgerFile, read_folder};
use towpath_needs::artifact;

fn preloaded(program: &Path, emulate: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", artifact("libtowpath_drm_shim.so"))
        .env("TOWPATH_DRM_EMULATE", emulate);
    command
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn conformance(emulate: &str) -> Output {
    preloaded(&artifact("sync-conformance"), emulate)
        .args(["/dev/dri/renderD128", "--fd-timeline"])
        .args(["--sw-sync", "/sys/kernel/debug/sync/sw_sync"])
        .output()
        .unwrap()
}

#[test]
fn the_rules_hold_through_ioctl_on_objects_of_the_process() {
    let output = conformance("local");
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("294 rules, 0 failed"),
        "{}",
        text(&output)
    );
}

#[test]
fn the_rules_hold_through_ioctl_on_shared_objects() {
    let output = conformance("shared");
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("294 rules, 0 failed"),
        "{}",
        text(&output)
    );
}

#[test]
fn without_emulation_the_program_meets_the_machine_as_it_is() {
    let output = preloaded(&artifact("sync-conformance"), "")
        .args(["/dev/dri/no-such-node", "--only", "create-signaled"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(text(&output).contains("No such file"), "{}", text(&output));
}

/// Builds a C program of this folder.
fn c_program(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name);
    let program = folder.join("program");
    let built = Command::new("cc")
        .args(["-Wall", "-Werror", "-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    program
}

fn ledger(folder: &Path) -> LedgerFile {
    let (mut ledgers, problems) = read_folder(folder);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(ledgers.len(), 1);
    ledgers.remove(0)
}

#[test]
fn a_program_of_libdrm_runs_unchanged_and_the_ledger_says_what_it_cost() {
    let folder = tempfile::tempdir().unwrap();
    let ledgers = folder.path().join("ledgers");
    std::fs::create_dir(&ledgers).unwrap();
    let program = c_program("libdrm_user.c", folder.path());
    let output = preloaded(&program, "local")
        .env("TOWPATH_LEDGER", &ledgers)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));

    // The program: 10 waits on 1 object of which 9 repeat a point, 3 on 4 objects, 5 that only look
    // at a point that is not there, 1 that runs out of time, 2 eventfds of which one is registered.
    let ledger = ledger(&ledgers);
    assert_eq!(ledger.counter(Counter::WaitsEntered), 19);
    assert_eq!(ledger.counter(Counter::WaitsRepeated), 9);
    assert_eq!(ledger.counter(Counter::WaitsPolled), 5);
    assert_eq!(ledger.counter(Counter::WaitsTimedOut), 1);
    assert_eq!(ledger.counter(Counter::EventfdsMade), 2);
    assert_eq!(ledger.counter(Counter::EventfdsRegistered), 1);
    let site = ledger
        .sites()
        .into_iter()
        .find(|site| site.call == "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT")
        .unwrap();
    assert_eq!(site.calls, 19);
    let objects = ledger
        .histograms()
        .into_iter()
        .find_map(|(known, buckets)| (known == Histogram::WaitMoreObjects).then_some(buckets))
        .unwrap();
    // Of one object, of two, of three or four.
    assert_eq!(objects.0[..3], [16, 0, 3]);
    assert!(ledger.counter(Counter::WaitNanosAsleep) >= 5_000_000);
    assert!(ledger.counter(Counter::WaitNanosLate) > 0);
}

/// Requests of all kinds and eventfds made in 200 frames of gears; `None` if there was no call to
/// record.
fn gears(arm: &str) -> Option<(u64, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let output = preloaded(&artifact("gears"), "local")
        .args(["/dev/dri/renderD128", arm, "200"])
        .env("TOWPATH_LEDGER", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arm}: {}", text(&output));
    let ledger = read_folder(folder.path()).0.pop()?;
    let requests = ledger.sites().iter().map(|site| site.calls).sum();
    Some((requests, ledger.counter(Counter::EventfdsMade)))
}

#[test]
fn a_frame_of_gears_makes_half_the_requests_of_eventfd_and_poll() {
    // Two signals a frame; two registrations, but for the last three frames' release points; two
    // objects destroyed at the end.
    assert_eq!(gears("eventfd"), Some((400 + 397 + 2, 397)));
    assert_eq!(gears("drm"), Some((400 + 2, 0)));
    assert_eq!(gears("local"), None);
}

/// Runs a C program of this folder on both kinds of object.
fn passes_on_both(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = c_program(name, folder.path());
    for emulate in ["local", "shared"] {
        let output = preloaded(&program, emulate).output().unwrap();
        assert!(output.status.success(), "{emulate}: {}", text(&output));
    }
}

/// A first version never ended a wait by a signal, so that a program that leaves its wait that way hung.
#[test]
fn bad_addresses_a_full_table_and_signals_are_codes_not_crashes() {
    passes_on_both("hostile.c");
}

/// A first version listed one fence for every sync file, whatever it was merged of, and called it by a
/// name that the kernel does not keep: the kernel's own tests of sync files failed.
#[test]
fn sync_files_and_software_timelines_are_the_kernels() {
    passes_on_both("sync_files.c");
}

/// A first version answered `open` only: programs that look first, or that were built with
/// `_FORTIFY_SOURCE`, met a machine without the node.
#[test]
fn looks_at_a_node_and_every_way_to_open_it_find_it() {
    passes_on_both("looks.c");
}

#[test]
fn a_passed_point_of_a_private_object_is_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let output = preloaded(&artifact("drm-provider"), "local")
        .arg("/dev/dri/renderD128")
        .env("TOWPATH_LEDGER", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    // Of some 300 waits on objects that nobody else has, those for a fence from elsewhere reach the
    // kernel once and after the reset; after the exports every wait does: three, and three sleepers.
    let entered = ledger(folder.path()).counter(Counter::WaitsEntered);
    assert!((5..=12).contains(&entered), "{entered} waits");
}
