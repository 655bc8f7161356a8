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

/// ROCm's emulated devices once attached the state of a closed descriptor to whatever got its number.
#[test]
fn a_closed_descriptor_names_nothing_when_its_number_is_given_again() {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    use towpath_sync_conformance::{Ops, Target as _};

    let face = Face(Arc::new(Device::new(Local)));
    let client = face.open().unwrap();
    let ops = Ops(&*client);
    let fences = face.fences().unwrap();
    let handle = ops.create(0).unwrap();
    let mut file = fences.sync_file(1).unwrap();
    let number = file.as_raw_fd();
    assert_eq!(ops.import_sync_file(handle, file.as_fd()), Ok(()));
    let null = std::fs::File::open("/dev/null").unwrap();
    rustix::io::dup2(&null, &mut file).unwrap();
    assert_eq!(file.as_raw_fd(), number);
    assert_eq!(
        ops.import_sync_file(handle, file.as_fd()),
        Err(libc::EINVAL)
    );
}
