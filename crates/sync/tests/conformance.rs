//! The rules of sync objects on the objects of one process.

mod common;

use std::sync::Arc;

use towpath_sync::kernel::Device;
use towpath_sync::local::Local;

use common::Face;

#[test]
fn the_rules_hold_in_process() {
    let face = Face(Arc::new(Device::new(Local)));
    let (count, failed) = towpath_sync_conformance::run(&face, true, None);
    assert!(
        failed.is_empty(),
        "{} of {count} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(count >= 250, "only {count} rules");
    assert_eq!(
        face.0.open_files(),
        0,
        "descriptors that nobody holds keep nothing"
    );
}

#[test]
fn the_rules_hold_between_processes_objects() {
    let face = Face(Arc::new(Device::new(towpath_sync::shared::Shared::new())));
    let (count, failed) = towpath_sync_conformance::run(&face, true, None);
    assert!(
        failed.is_empty(),
        "{} of {count} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
