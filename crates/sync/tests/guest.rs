//! The rules of sync objects on the kernel itself: virtio-gpu in a virtual machine, with fences of
//! vgem. What passes here and on our own objects is what both mean.

use towpath_guest::{Kernel, Machine, static_program};
use towpath_needs::{Need, can_run};

#[test]
fn the_rules_hold_on_the_kernel() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let program = static_program("towpath-sync-conformance", "sync-conformance").unwrap();
    let report = Machine::new(Kernel::V6_12)
        .program(program)
        .args(["/dev/dri/renderD128", "--vgem", "/dev/dri/card1", "--slow"])
        .run()
        .unwrap();
    assert_eq!(
        report.exit,
        Some(0),
        "{}\n{}",
        report.release,
        report.output
    );
    assert!(
        report.output.contains("276 rules, 0 failed"),
        "{}",
        report.output
    );
}
