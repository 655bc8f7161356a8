//! A C program that was compiled against the shape of Mesa's sync provider uses ours.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "calls a C function")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use towpath_sync::Provider;
use towpath_sync::kernel::Device;
use towpath_sync::local::Local;
use towpath_sync::shared::Shared;
use towpath_sync::vtable::{self, SyncProvider};

type Test = unsafe extern "C" fn(*mut SyncProvider) -> i32;

/// Line of the C program that failed, or zero.
fn run_c<P: Provider>(provider: P) -> i32 {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("vtable.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vtable.c");
    let built = Command::new("cc")
        .args(["-Wall", "-Werror", "-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .status()
        .unwrap();
    assert!(built.success());
    // SAFETY: the library has no initialisers.
    let library = unsafe { libloading::Library::new(&library) }.unwrap();
    // SAFETY: the C function has this type.
    let test = unsafe { library.get::<Test>(b"towpath_test_vtable") }.unwrap();
    let table = vtable::new(Arc::new(Device::new(provider)));
    // SAFETY: the table is new; the function finalizes it.
    unsafe { test(table) }
}

#[test]
fn c_uses_the_table_on_objects_of_the_process() {
    assert_eq!(run_c(Local), 0, "the line of vtable.c");
}

#[test]
fn c_uses_the_table_on_shared_objects() {
    assert_eq!(run_c(Shared::new()), 0, "the line of vtable.c");
}
