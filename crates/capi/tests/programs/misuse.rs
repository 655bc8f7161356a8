//! Wrong calls, and whatever else a program may do to the library.
#![expect(unsafe_code, reason = "calls of exported functions")]

use std::ffi::{CString, c_void};
use std::process::Command;

use towpath::{tp_blob_free, tp_blob_open, tp_blob_save, tp_status};

use towpath_needs::{Need, can_run};

use crate::common::{Installed, says_ok, source, valgrind};

#[test]
fn wrong_calls_get_a_status_and_change_nothing() {
    if !can_run(&[Need::Cc]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("misuse.c"), &["-std=c11", "-lm"]);
    says_ok(Command::new(program).arg(installed.path().join("blobs")));
}

/// Under Valgrind a look beyond a handle of another kind is an error, whatever the answer.
#[test]
fn wrong_calls_read_nothing_that_is_not_theirs() {
    if !can_run(&[Need::Cc, Need::Valgrind]) {
        return;
    }
    let installed = Installed::new();
    let program = installed.build("cc", &source("misuse.c"), &["-std=c11"]);
    let mut valgrind = valgrind();
    valgrind.arg(program).arg(installed.path().join("blobs"));
    says_ok(valgrind.arg("watched"));
}

/// A panic on the way, here of the program's own function in Rust, is a status, and not a word on standard error.
#[test]
fn a_panic_inside_is_a_status_and_prints_nothing() {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "misuse::inner_panic", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(
        done.status.success() && said.contains("1 passed"),
        "{said}{errors}"
    );
    assert_eq!(errors, "");
}

#[test]
#[ignore = "runs in a child"]
fn inner_panic() {
    extern "C-unwind" fn panics(_: *mut c_void, _: *mut usize, _: *mut c_void) -> i32 {
        std::hint::black_box(None::<i32>).unwrap()
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = CString::new(folder.path().to_str().unwrap()).unwrap();
    let mut blob = std::ptr::null_mut();
    // SAFETY: two C strings, and a place for the handle.
    let opened = unsafe { tp_blob_open(folder.as_ptr(), c"a".as_ptr(), &raw mut blob) };
    assert_eq!(opened, tp_status::TP_OK);
    let none = std::ptr::null_mut();
    // SAFETY: a live handle, and a function of this type.
    let saved = unsafe { tp_blob_save(blob, Some(panics), none, 0, std::ptr::null_mut()) };
    assert_eq!(saved, tp_status::TP_ERROR_DEFECT);
    // SAFETY: a live handle that nobody uses afterwards.
    let freed = unsafe { tp_blob_free(blob) };
    assert_eq!(freed, tp_status::TP_OK);
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
