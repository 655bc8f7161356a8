//! What the functions do that no example shows.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use towpath_guest::{Kernel, Machine};
use towpath_needs::{Need, artifact, can_run};
use towpath_settings::calibration::{Entry, Key, Store};
use towpath_transfer::engine::Shape;
use towpath_transfer::opencl::{Functions, devices};
use towpath_transfer::policy::{Calibration, Direction, Mechanism, Warmth};

use crate::common::{Installed, look_at, says_ok, source};

fn runs(name: &str) {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source(name), &["-std=c11", "-lm"]);
    says_ok(&mut Command::new(program));
}

#[test]
fn objects_pass_between_processes() {
    runs("share.c");
}

#[test]
fn frame_metrics_come_with_their_meaning() {
    runs("frames.c");
}

#[test]
fn the_header_is_strict_c99_and_cpp17() {
    if !can_run(&[Need::Cc, Need::Cxx]) {
        return;
    }
    let installed = Installed::new();
    let strict = ["-pedantic", "-Wconversion", "-Wshadow"];
    let header = source("header.c");
    let c99 = [&["-std=c99", "-Wstrict-prototypes"][..], &strict].concat();
    let program = installed.build("cc", &header, &c99);
    assert!(Command::new(program).status().unwrap().success());
    for standard in ["-std=c++17", "-std=c++20"] {
        let words = [&[standard][..], &strict].concat();
        let program = installed.build("c++", &header, &words);
        assert!(Command::new(program).status().unwrap().success());
    }
}

/// Sizes, places and numbers by which compiled programs know the library; and the header where addresses are short.
#[test]
fn the_layout_of_the_header_stays() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    Installed::new().build("cc", &source("layout.c"), &["-std=c11"]);
    if cfg!(target_arch = "x86_64") {
        // Freestanding, since there are no headers of a 32-bit C library.
        look_at(&source("header.c"), &["-m32", "-ffreestanding"]);
    }
}

#[test]
fn transfers_arrive_whole_by_every_way() {
    if !can_run(&[Need::Cc, Need::Pocl, Need::PagemapScan]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("transfer.c"), &["-std=c11", "-lOpenCL"]);
    let calibrations = installed.path().join("calibrations");
    says_ok(
        installed
            .drivers(&mut Command::new(&program))
            .arg(&calibrations),
    );
    assert_eq!(std::fs::read_dir(&calibrations).unwrap().count(), 1);
}

/// The library's own calls come by the layer as well: both must go on working, whoever is first.
#[test]
fn transfers_pass_through_the_opencl_layer() {
    if !can_run(&[Need::Cc, Need::Pocl, Need::PagemapScan]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("transfer.c"), &["-std=c11", "-lOpenCL"]);
    let ledger = installed.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    says_ok(
        installed
            .drivers(&mut Command::new(&program))
            .arg(installed.path().join("calibrations"))
            .env("OPENCL_LAYERS", artifact("libtowpath_opencl_layer.so"))
            .env("TOWPATH_FIX", "readback,upload")
            .env("TOWPATH_LEDGER", &ledger),
    );
}

/// A stored calibration names staging for one machine, the driver's own call for another.
#[test]
fn a_stored_calibration_decides_the_way() {
    if !can_run(&[Need::Cc, Need::Pocl, Need::PagemapScan]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("transfer.c"), &["-std=c11", "-lOpenCL"]);
    let staged = Mechanism::staged(Shape::new(2, 1 << 20));
    for (read, write, numbers) in [
        (staged, staged, ["2", "2"]),
        (Mechanism::Prefault, Mechanism::Forward, ["1", "0"]),
        (Mechanism::Forward, staged, ["0", "2"]),
    ] {
        let folder = installed.path().join("calibrations");
        store(&folder, read, write);
        says_ok(
            installed
                .drivers(&mut Command::new(&program))
                .arg(&folder)
                .args(numbers),
        );
    }
}

fn store(folder: &Path, read: Mechanism, write: Mechanism) {
    let functions = Functions::load("libOpenCL.so.1").unwrap();
    let device = &devices(&functions).unwrap()[0];
    // In the form in which it is stored: a calibration of an older version lacks what came later.
    let class = |direction: Direction, warmth: Warmth, choice: Mechanism| {
        serde_json::json!({
            "direction": direction, "warmth": warmth, "bytes": 1 << 20,
            "forward_ns": 1_000_000_000, "options": [], "choice": choice,
        })
    };
    let calibration = serde_json::json!({ "classes": [
        class(Direction::Read, Warmth::Cold, read),
        class(Direction::Read, Warmth::Warm, read),
        class(Direction::Write, Warmth::Warm, write),
    ] });
    let key = Key::of_this_machine(Calibration::SUBJECT, &device.name, &device.driver);
    let entry = Entry::new(key, &calibration).unwrap();
    Store::new(folder).save(&entry).unwrap();
}

#[test]
fn a_store_gives_back_what_was_saved_and_only_that() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("cache.c"), &["-std=c11"]);
    says_ok(Command::new(program).arg(installed.path().join("store")));
}

#[test]
fn where_memory_is_scarce_a_large_call_says_so() {
    runs("scarce.c");
}

/// The header says what becomes of an exception that leaves the program's own function.
#[test]
fn an_exception_through_the_library_ends_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    if !can_run(&[Need::Cxx]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("c++", &source("throw.cpp"), &["-std=c++17"]);
    let folder = installed.path().join("blobs");
    for what in ["source", "log"] {
        let done = Command::new(&program).arg(&folder).arg(what).output();
        let done = done.unwrap();
        assert_eq!(done.status.signal(), Some(6), "{what}: {done:?}");
    }
    says_ok(Command::new(&program).arg(&folder).arg("caught"));
}

/// Statically linked, since the guest has no library: this is also the test of `libtowpath.a`.
#[test]
fn the_kernels_objects_in_a_static_program_in_the_guest() {
    if !can_run(&[Need::Cc, Need::Qemu]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build_static(&source("drm.c"));
    let report = Machine::new(Kernel::V6_12)
        .program(program)
        .args(["/dev/dri/renderD128"])
        .timeout(Duration::from_mins(5))
        .run()
        .unwrap();
    assert_eq!(
        report.exit,
        Some(0),
        "{}\n{}",
        report.release,
        report.output
    );
    assert!(report.output.contains("ok"), "{}", report.output);
}
