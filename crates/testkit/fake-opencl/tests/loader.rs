//! The driver under the real loader.
#![expect(unsafe_code, reason = "calls OpenCL through the loader")]

use std::ffi::{c_char, c_void};
use std::process::Command;

use libloading::{Library, Symbol};
use towpath_needs::{Need, artifact, can_run};

/// `clinfo` walks everything that a driver says about itself.
#[test]
fn clinfo_lists_the_device() {
    if !can_run(&[Need::Pocl, Need::Clinfo]) {
        return;
    }
    let done = Command::new("clinfo")
        .arg("-l")
        .env("OCL_ICD_VENDORS", artifact("libtowpath_fake_opencl.so"))
        .env("TOWPATH_FAKE_DEVICES", "2")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("towpath fake device 0"), "{text}");
    assert!(text.contains("towpath fake device 1"), "{text}");
}

type GetPlatforms = unsafe extern "C" fn(u32, *mut *mut c_void, *mut u32) -> i32;
type Get = unsafe extern "C" fn(*const c_char) -> u64;
type GetInfo = unsafe extern "C" fn(*mut c_void, u32, usize, *mut c_void, *mut usize) -> i32;

#[test]
fn a_handle_of_another_kind_is_refused_and_counted() {
    // SAFETY: our own library, whose start does nothing.
    let driver = unsafe { Library::new(artifact("libtowpath_fake_opencl.so")) }.unwrap();
    // SAFETY: the function has this type.
    let platforms: Symbol<'_, GetPlatforms> =
        unsafe { driver.get(b"clIcdGetPlatformIDsKHR\0") }.unwrap();
    let mut platform = std::ptr::null_mut();
    // SAFETY: one entry, as said.
    let answer = unsafe { platforms(1, &raw mut platform, std::ptr::null_mut()) };
    assert_eq!(answer, 0);
    // The loader's contract: the handle's first word is the dispatch table; entry 1 is
    // clGetPlatformInfo, entry 12 clGetCommandQueueInfo.
    // SAFETY: as above.
    let table = unsafe { platform.cast::<*const GetInfo>().read() };
    // SAFETY: the table has 149 entries and more.
    let queue_info = unsafe { table.wrapping_add(12).read() };
    let mut not_a_queue = [table.addr(), 7, 7];
    let handle = not_a_queue.as_mut_ptr().cast();
    // SAFETY: the driver reads the head of the handle only, and refuses it.
    let answer = unsafe {
        queue_info(
            handle,
            0x1090,
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    assert_eq!(answer, -36, "CL_INVALID_COMMAND_QUEUE");
    // SAFETY: the function has this type.
    let get: Symbol<'_, Get> = unsafe { driver.get(b"towpath_fake_get\0") }.unwrap();
    // SAFETY: a terminated string.
    let bad = unsafe { get(c"bad_handles".as_ptr()) };
    assert_eq!(bad, 1);
}
