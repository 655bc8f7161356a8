//! Observing on the kernel's own render node, in the guest.

use std::time::Duration;

use towpath_guest::{Kernel, Machine, static_program};
use towpath_needs::{Need, artifact, can_run};

#[test]
fn the_shim_observes_a_program_on_virtio_gpu() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let program = static_program("towpath-sync-programs", "observe-in-guest").unwrap();
    let mut machine = Machine::new(Kernel::V6_12)
        .program(program)
        .timeout(Duration::from_mins(5))
        .file("sync-conformance", artifact("sync-conformance"))
        .file("libtowpath_drm_shim.so", artifact("libtowpath_drm_shim.so"));
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
    for line in [
        "waits entered ",
        "waits that only looked ",
        "site DRM_IOCTL_SYNCOBJ_WAIT ",
    ] {
        assert!(
            report.output.contains(line),
            "no {line:?} in {}",
            report.output
        );
    }
}
