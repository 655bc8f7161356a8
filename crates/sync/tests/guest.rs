//! The kernel itself: virtio-gpu in a virtual machine, with fences of vgem. What passes here and on our
//! own objects is what both mean.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use towpath_guest::{Kernel, Machine, Report, static_program};
use towpath_needs::{Need, can_run};

fn run(package: &str, bin: &str, args: &[&str]) -> Report {
    let program = static_program(package, bin).unwrap();
    let machine = Machine::new(Kernel::V6_12)
        .program(program)
        .args(args.iter().copied());
    machine.timeout(Duration::from_mins(5)).run().unwrap()
}

#[test]
fn the_rules_hold_on_the_kernel() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let args = ["/dev/dri/renderD128", "--vgem", "/dev/dri/card1", "--slow"];
    let report = run("towpath-sync-conformance", "sync-conformance", &args);
    assert_eq!(
        report.exit,
        Some(0),
        "{}\n{}",
        report.release,
        report.output
    );
    assert!(
        report.output.contains("295 rules, 0 failed"),
        "{}",
        report.output
    );
}

#[test]
fn the_bindings_work_on_the_kernel() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let report = run(
        "towpath-sync-programs",
        "drm-provider",
        &["/dev/dri/renderD128"],
    );
    assert_eq!(
        report.exit,
        Some(0),
        "{}\n{}",
        report.release,
        report.output
    );
}

/// Allocations of the kernel for one call on so many objects.
fn allocations(output: &str, call: &str, objects: u32) -> f64 {
    let start = format!("{call} {objects} ");
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn our_waits_make_the_kernel_allocate_nothing() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let report = run(
        "towpath-sync-programs",
        "kernel-costs",
        &["/dev/dri/renderD128"],
    );
    assert_eq!(
        report.exit,
        Some(0),
        "{}\n{}",
        report.release,
        report.output
    );
    let of = |call, objects| allocations(&report.output, call, objects);
    for objects in [1, 4, 5, 64, 256] {
        for call in ["local-wait", "local-wait-that-sleeps", "local-signal"] {
            // The mean of a hundred calls: a tenth leaves room for what the kernel does besides.
            assert!(
                of(call, objects) < 0.1,
                "{call} {objects}: {}",
                report.output
            );
        }
    }
    // What the series takes out is still there in this kernel: else this table needs a new look.
    assert!(of("WAIT", 1) > 3.5, "{}", report.output);
    assert!(of("QUERY", 1) > 1.5, "{}", report.output);
    assert!(of("TIMELINE_SIGNAL", 1) > 4.5, "{}", report.output);
    // One for each object at least, at the widest too: nothing was lost while counting.
    for objects in [64, 256] {
        for call in ["SIGNAL", "TIMELINE_SIGNAL"] {
            assert!(of(call, objects) >= f64::from(objects), "{}", report.output);
        }
    }
}

/// A first version read what was left in a buffer that had overflowed, so that its figures for 256
/// objects were too low.
#[test]
fn a_count_of_which_events_were_lost_is_refused() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let report = run(
        "towpath-sync-programs",
        "kernel-costs",
        &["/dev/dri/renderD128", "64"],
    );
    assert_eq!(report.exit, Some(1), "{}", report.output);
    assert!(
        report.output.contains("the trace lost events"),
        "{}",
        report.output
    );
    assert!(!report.output.contains("SIGNAL 256"), "{}", report.output);
}
