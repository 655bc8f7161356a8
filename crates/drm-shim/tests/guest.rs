//! Observing on the kernel's own render node, in the guest.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use towpath_guest::{Kernel, Machine, Report, static_program};
use towpath_needs::{Need, artifact, can_run};

/// The program without its debug information: the guest unpacks all files into its memory.
fn stripped(name: &str, folder: &Path) -> std::path::PathBuf {
    let out = folder.join(name);
    let strip = Command::new("strip")
        .arg("-o")
        .args([&out, &artifact(name)])
        .status();
    assert!(strip.unwrap().success());
    out
}

fn observe() -> Report {
    let folder = tempfile::tempdir().unwrap();
    let program = static_program("towpath-sync-programs", "observe-in-guest").unwrap();
    let mut machine = Machine::new(Kernel::V6_12)
        .program(program)
        .timeout(Duration::from_mins(5));
    for name in [
        "sync-conformance",
        "gears",
        "towpath",
        "libtowpath_drm_shim.so",
    ] {
        machine = machine.file(name, stripped(name, folder.path()));
    }
    for library in [
        "libc.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "ld-linux-x86-64.so.2",
    ] {
        let path = format!("/lib/x86_64-linux-gnu/{library}");
        machine = machine.file(library, std::fs::canonicalize(path).unwrap());
    }
    let report = machine.run().unwrap();
    assert_eq!(
        report.exit,
        Some(0),
        "{}\n{}",
        report.output,
        report.console
    );
    report
}

/// The numbers of a `gears ARM` line: requests, eventfds, frames.
fn gears(report: &Report, arm: &str) -> [u64; 3] {
    let line = report.value(&format!("gears {arm}")).unwrap();
    let numbers = line.split(' ').skip(1).step_by(2);
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

fn has(report: &Report, lines: &[&str]) {
    for line in lines {
        let is_there = report.output.contains(line);
        assert!(is_there, "no {line:?} in {}", report.output);
    }
}

#[test]
fn the_shim_and_towpath_run_observe_programs_on_virtio_gpu() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let report = observe();
    has(
        &report,
        &[
            "waits entered ",
            "waits that only looked ",
            "histogram objects per wait beyond the first ",
            "site DRM_IOCTL_SYNCOBJ_WAIT ",
        ],
    );

    // Gears, 100 frames: the kernel's requests at most half of those of eventfd and poll.
    // Two signals a frame; two registrations, but for the last three frames' release points; two
    // objects destroyed at the end.
    assert_eq!(gears(&report, "eventfd"), [200 + 197 + 2, 197, 100]);
    assert_eq!(gears(&report, "drm"), [200 + 2, 0, 100]);
    assert_eq!(gears(&report, "local"), [0, 0, 100]);

    // What a user sees.
    has(
        &report,
        &[
            "only looked, ",
            "  objects per wait: 1: ",
            "  asleep ",
            "; late after deadlines by ",
            "\"objects_from\": 1",
            "eventfds: 197 made, 197 registered with sync objects; 1.97 made a frame",
            "frames presented: 100",
            "\"eventfds_made_per_frame\": 1.97",
            "DRM_IOCTL_SYNCOBJ_EVENTFD",
        ],
    );
}
