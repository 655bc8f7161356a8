//! Programs that fork and read on both sides, and programs with more rights than their caller.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use towpath_needs::{Need, artifact, can_run};

use crate::common::{Arm, Driver, Seen, layer, run, run_with, same_unstaged};

#[test]
fn a_child_and_its_parent_both_read_and_both_are_recorded() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    for driver in [Driver::Pocl, Driver::Fake] {
        for arm in [Arm::Bare, Arm::On] {
            let seen = run("forks-that-read", driver, arm);
            assert!(seen.is_complete, "{}", seen.status);
            assert!(
                seen.lines.contains(&"child 7".to_owned()),
                "{:?}",
                seen.lines
            );
            if arm == Arm::On {
                assert_eq!(seen.ledgers.len(), 2, "one for each process");
                assert_eq!(seen.outcomes()["prefaulted"], 2, "{:?}", seen.outcomes());
            }
        }
    }
}

#[test]
fn a_program_that_closes_all_descriptors_sees_the_same() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    same_unstaged("close-all", Driver::Pocl);
}

/// The layer initialised by hand, in a copy of the scene with this mode, started by an unprivileged user.
fn initialise(mode: u32) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    // Others must reach what lies in it.
    open(folder.path(), 0o755);
    let scene = folder.path().join("scene");
    let copy = folder.path().join("layer.so");
    fs::copy(artifact("examples/scene"), &scene).unwrap();
    fs::copy(layer(), &copy).unwrap();
    open(&copy, 0o755);
    open(&scene, mode);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&scene)
        .arg("initialise")
        .env("TOWPATH_TEST_LAYER", &copy)
        .env("TOWPATH_FIX", "readback");
    run_with(command)
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The environment of such a program is its caller's word: `TOWPATH_LEDGER` would let any user make files
/// with the program's rights.
#[test]
fn in_a_setuid_program_the_layer_takes_nothing_over_and_records_nothing() {
    if !can_run(&[Need::Root]) {
        return;
    }
    let plain = initialise(0o755);
    assert!(plain.is_complete, "{}", plain.status);
    assert_eq!(plain.count("secure"), 0);
    assert!(plain.count("taken") > 5, "{:?}", plain.counts);
    let setuid = initialise(0o4755);
    assert!(setuid.is_complete, "{}", setuid.status);
    if setuid.count("secure") == 0 {
        eprintln!("skipped: the folder for temporary files does not honour setuid");
        return;
    }
    assert_eq!(setuid.count("taken"), 0, "{:?}", setuid.counts);
    assert!(setuid.ledgers.is_empty());
}
