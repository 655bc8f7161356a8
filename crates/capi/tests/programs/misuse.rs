//! Wrong calls, several copies of the library, and layers of ours beside it in one process.

use std::path::Path;
use std::process::Command;

use towpath_needs::{Need, artifact, can_run};

use crate::common::{Installed, example, says_ok, source};

#[test]
fn wrong_calls_get_a_status_and_change_nothing() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("misuse.c"), &["-std=c11", "-lm"]);
    says_ok(Command::new(program).arg(installed.path().join("blobs")));
}

#[test]
fn two_copies_of_the_library_live_in_one_process() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("copies.c"), &["-std=c11", "-ldl"]);
    says_ok(
        Command::new(program)
            .arg(installed.copy("one.so"))
            .arg(installed.copy("two.so")),
    );
}

#[test]
fn the_drm_shim_lives_beside_two_copies() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("copies.c"), &["-std=c11", "-ldl"]);
    let ledger = installed.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    says_ok(
        Command::new(program)
            .env("LD_PRELOAD", artifact("libtowpath_drm_shim.so"))
            .env("TOWPATH_DRM_EMULATE", "local")
            .env("TOWPATH_LEDGER", &ledger)
            .arg("--node")
            .arg(installed.copy("one.so"))
            .arg(installed.copy("two.so")),
    );
    assert_eq!(ledgers(&ledger), 1, "the shim's, and none of the library's");
}

#[test]
fn the_drm_shim_lives_beside_an_example() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &example("syncobj.c"), &["-std=c99"]);
    says_ok(
        Command::new(program)
            .env("LD_PRELOAD", artifact("libtowpath_drm_shim.so"))
            .env("TOWPATH_DRM_EMULATE", "shared")
            .env("TOWPATH_LEDGER", installed.path()),
    );
}

/// Both bring the destination in: the layer finds it warm where the library was first.
#[test]
fn the_opencl_layer_lives_beside_the_readback_example() {
    if !can_run(&[Need::Cc, Need::Pocl, Need::PagemapScan]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &example("readback.c"), &["-std=c11", "-lOpenCL"]);
    let ledger = installed.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    says_ok(
        Command::new(program)
            .env("POCL_CACHE_DIR", installed.path())
            .env("OPENCL_LAYERS", artifact("libtowpath_opencl_layer.so"))
            .env("TOWPATH_FIX", "readback")
            .env("TOWPATH_LEDGER", &ledger),
    );
    assert_eq!(ledgers(&ledger), 1);
}

fn ledgers(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap();
    names
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "ledger"))
        .count()
}

#[test]
fn threads_forks_limits_and_closing_do_no_harm() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("hostile.c"), &["-std=c11", "-ldl"]);
    says_ok(
        Command::new(program)
            .arg(installed.copy("another.so"))
            .arg(installed.path().join("blobs")),
    );
}
