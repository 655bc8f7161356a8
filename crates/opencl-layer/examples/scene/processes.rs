//! Forks, closed descriptors, children.

use crate::cl::Cl;
use crate::host::{Host, Kind, hash};
use crate::{count, see};

const BYTES: usize = 8 << 20;

/// Reads before and after a fork whose child lives on: shared pages look present and fault.
pub(crate) fn fork() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Warm, BYTES);
    see("before", cl.read(buffer, BYTES, host.at(0)));
    // SAFETY: the child only sleeps and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: async-signal-safe functions only.
        unsafe { libc::pause() };
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    if cl.is_fake() {
        let before = cl.get("copy_faults");
        see("after", cl.read(buffer, BYTES, host.at(0)));
        count("faults.first", cl.get("copy_faults") - before);
        let before = cl.get("copy_faults");
        see("again", cl.read(buffer, BYTES, host.at(0)));
        count("faults.second", cl.get("copy_faults") - before);
    } else {
        see("after", cl.read(buffer, BYTES, host.at(0)));
        see("again", cl.read(buffer, BYTES, host.at(0)));
    }
    see("bytes", format!("{:x}", hash(&host.content())));
    // SAFETY: the child made above.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    let cold = Host::new(Kind::Cold, BYTES);
    see("cold after", cl.read(buffer, BYTES, cold.at(0)));
    see("bytes", format!("{:x}", hash(&cold.content())));
    cl.release(buffer);
    cl.close();
}

/// A program that closes every descriptor it did not open.
pub(crate) fn close_all() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    see("before", cl.read(buffer, BYTES, host.at(0)));
    for descriptor in 3..256 {
        // SAFETY: this program opened none of them, the libraries may have; that is the point.
        unsafe { libc::close(descriptor) };
    }
    let other = Host::new(Kind::Cold, BYTES);
    let before = cl.is_fake().then(|| cl.get("cold_pages"));
    see("after", cl.read(buffer, BYTES, other.at(0)));
    if let Some(before) = before {
        count("cold.after", cl.get("cold_pages") - before);
    }
    see("bytes", format!("{:x}", hash(&other.content())));
    cl.release(buffer);
    cl.close();
}

/// What a child process sees of the layers, once this one used OpenCL.
pub(crate) fn child() {
    let cl = Cl::open();
    let done = std::process::Command::new("sh")
        .args(["-c", "echo $OPENCL_LAYERS"])
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    count("layers of the child", text.trim().split(':').count() as u64);
    cl.close();
}

/// Forks before any OpenCL; then both processes read, each with a device of its own.
pub(crate) fn forks_that_read() {
    // SAFETY: nothing has threads yet.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    let answer = cl.read(buffer, BYTES, host.at(0));
    let bytes = hash(&host.content());
    cl.release(buffer);
    cl.close();
    if child == 0 {
        let is_good = answer == 0 && bytes != hash(&vec![0; BYTES]);
        // SAFETY: leaves without the parent's buffers.
        unsafe { libc::_exit(if is_good { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    see("child", libc::WEXITSTATUS(status));
    see("parent", answer);
    see("bytes", format!("{bytes:x}"));
}

/// Loads the layer named by `TOWPATH_TEST_LAYER` as a loader would, and counts what it takes over.
pub(crate) fn initialise() {
    type Initialise =
        unsafe extern "C" fn(u32, *const usize, *mut u32, *mut *const usize) -> libc::c_int;
    extern "C" fn below() -> libc::c_int {
        -1
    }
    #[expect(clippy::disallowed_methods, reason = "a program of tests")]
    let path = std::env::var_os("TOWPATH_TEST_LAYER").unwrap();
    // SAFETY: the layer's constructors do nothing.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    // SAFETY: the type is that of the layers' header.
    let start = unsafe { library.get::<Initialise>(b"clInitLayer") }.unwrap();
    let target = [below as *const () as usize; 150];
    let (mut entries, mut table) = (0, std::ptr::null());
    // SAFETY: the table has as many entries as are said.
    let answer = unsafe { start(150, target.as_ptr(), &raw mut entries, &raw mut table) };
    see("answer", answer);
    // SAFETY: the layer gave so many entries, and keeps them.
    let table = unsafe { std::slice::from_raw_parts(table, entries as usize) };
    let taken = table.iter().filter(|function| **function != 0).count();
    count("taken", taken as u64);
    // SAFETY: reads the auxiliary vector.
    count("secure", unsafe { libc::getauxval(libc::AT_SECURE) });
    let _kept = std::mem::ManuallyDrop::new(library);
}
