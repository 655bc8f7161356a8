//! The guest boots, runs a program and brings its results back.

use std::time::Duration;

use towpath_guest::{Error, Kernel, Machine, static_program};
use towpath_needs::{Need, can_run};

/// What the research saw in the same kernel; a change there must be looked at.
#[test]
fn udmabuf_answers_as_the_library_expects() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let program = static_program("towpath-guest-tests", "guest-udmabuf").unwrap();
    let report = Machine::new(Kernel::V6_12)
        .program(program)
        .huge_pages(4)
        .run()
        .unwrap();
    assert!(report.is_success(), "{}\n{}", report.output, report.console);
    assert_eq!(
        report.output.matches("ok ").count(),
        16,
        "{}",
        report.output
    );
    assert!(
        !report.console.contains("towpath-guest-init:"),
        "{}",
        report.console
    );
    println!(
        "{} booted {:?} wall {:?}\n{}",
        report.release, report.booted, report.wall, report.output
    );
}

#[test]
fn an_older_kernel_has_no_udmabuf_and_says_so() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let program = static_program("towpath-guest-tests", "guest-udmabuf").unwrap();
    let report = Machine::new(Kernel::V6_1)
        .program(program)
        .args(["create"])
        .run()
        .unwrap();
    assert_eq!(
        report.exit,
        Some(1),
        "{}\n{}",
        report.output,
        report.console
    );
    assert!(
        report.output.contains("FAILED create open /dev/udmabuf"),
        "{}",
        report.output
    );
    assert!(report.release.starts_with("6.1."), "{}", report.release);
    assert!(
        !report.console.contains("towpath-guest-init:"),
        "{}",
        report.console
    );
}

#[test]
fn a_guest_that_does_not_end_is_killed() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let answer = Machine::new(Kernel::V6_12)
        .timeout(Duration::from_millis(300))
        .run();
    assert!(matches!(answer, Err(Error::Timeout { .. })));
}

/// Where an interface is missing (PAGEMAP_SCAN and udmabuf in 6.1) the library falls back and says the same.
#[test]
fn memory_and_textures_work_on_both_kernels() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let program = static_program("towpath-guest-tests", "guest-memory").unwrap();
    for kernel in Kernel::ALL {
        let report = Machine::new(kernel)
            .program(&program)
            .huge_pages(4)
            .run()
            .unwrap();
        assert!(
            report.is_success(),
            "{}\n{}\n{}",
            report.release,
            report.output,
            report.console
        );
        assert_eq!(report.output.matches("ok ").count(), 9, "{}", report.output);
        let has_scan = format!("PAGEMAP_SCAN: {}", kernel == Kernel::V6_12);
        assert!(report.output.contains(&has_scan), "{}", report.output);
        let has_udmabuf = report.output.contains("View(Udmabuf)");
        assert_eq!(has_udmabuf, kernel == Kernel::V6_12, "{}", report.output);
        // Under 15 s on an idle machine; on a busy one no time holds.
        let booted = report.booted.unwrap();
        println!(
            "{} booted in {booted:?}, {:?} in all\n{}",
            report.release, report.wall, report.output
        );
    }
}

/// The program that compares kernels runs one program on both and says which failed where.
#[test]
fn two_kernels_are_compared_by_one_command() {
    if !can_run(&[Need::Qemu]) {
        return;
    }
    let program = static_program("towpath-guest-tests", "guest-memory").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_towpath-guest-run"))
        .args(["--kernel", "6.12", "--kernel", "6.1", "--"])
        .arg(program)
        .arg("cold")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("== 6.12 (6.12."), "{text}");
    assert!(text.contains("== 6.1 (6.1."), "{text}");
    assert!(text.contains("ok cold PAGEMAP_SCAN: true"), "{text}");
    assert!(text.contains("ok cold PAGEMAP_SCAN: false"), "{text}");
}
