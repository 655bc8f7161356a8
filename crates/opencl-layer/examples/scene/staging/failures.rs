//! Calls that fail, and objects that go away meanwhile.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cl::{Cl, call, pattern};
use crate::host::{Host, Kind, hash};
use crate::{count, see};
use opencl_sys::{CL_COMPLETE, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_WRITE, CL_TRUE, cl_event};

use super::{BYTES, slot};

/// The driver fails at every step of a staged read or write: the bytes are right, or the error is told.
pub(crate) fn failures() {
    let names = [
        "copy_buffer",
        "read_buffer",
        "write_buffer",
        "map",
        "unmap",
        "create_buffer",
        "create_queue",
        "flush",
        "finish",
        "marker",
    ];
    let mut told = 0;
    let mut tried = 0;
    for name in names {
        for skip in 0..4 {
            for late in [0, 1] {
                for with_event in [false, true] {
                    told += u64::from(failure(name, skip, late, with_event));
                    tried += 1;
                }
            }
        }
    }
    see("tried", tried);
    count("told", told);
    let cl = Cl::open();
    cl.close();
    cl.print_counts(&[
        "mems",
        "queues",
        "events",
        "contexts",
        "maps",
        "pinned_bytes",
        "bad_handles",
    ]);
}

/// One failure in a read and a write; answers whether the program was told.
fn failure(name: &str, skip: u64, late: u64, with_event: bool) -> bool {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    cl.script(name, skip, late, 5);
    let mut event = null_mut();
    let read = cl.read_at(buffer, 0, BYTES, host.at(0), slot(with_event, &mut event));
    let label = format!("{name} {skip} {late} {with_event}");
    if read == 0 {
        assert!(host.content() == pattern(BYTES, 1), "{label}");
    }
    if !event.is_null() {
        assert_eq!(call!(cl, clReleaseEvent(event)), 0, "{label}");
    }
    cl.script(name, skip, late, 5);
    let written = cl.write(buffer, &pattern(BYTES, 8));
    cl.set("fail_times", 0);
    let back = Host::new(Kind::Cold, BYTES);
    assert_eq!(cl.read(buffer, BYTES, back.at(0)), 0, "{label}");
    // A copy into place that fails when it runs is told by nobody where the program has no event, as
    // with the driver's own write.
    if written == 0 && late == 0 {
        assert!(back.content() == pattern(BYTES, 8), "{label}");
    }
    cl.release(buffer);
    cl.close();
    read != 0 || written != 0
}

/// No pinned memory, no device memory, a device that is lost.
pub(crate) fn shortage() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    cl.set("pinned_limit", 1);
    see("no pinned memory", cl.read(buffer, BYTES, host.at(0)));
    see("bytes", format!("{:x}", hash(&host.content())));
    cl.set("pinned_limit", 9 << 20);
    let host = Host::new(Kind::Cold, BYTES);
    see("little pinned memory", cl.read(buffer, BYTES, host.at(0)));
    see("bytes", format!("{:x}", hash(&host.content())));
    cl.set("pinned_limit", 0);
    cl.set("device_limit", cl.get("device_bytes") + 1);
    let large = Host::new(Kind::Cold, BYTES);
    see("no device memory", cl.read(buffer, BYTES, large.at(0)));
    see("bytes", format!("{:x}", hash(&large.content())));
    cl.set("lost", 1);
    see("lost", cl.read(buffer, BYTES, large.at(0)));
    cl.set("lost", 0);
    see("found", cl.read(buffer, BYTES, large.at(0)));
    cl.release(buffer);
    cl.close();
    cl.print_counts(&[
        "mems",
        "queues",
        "events",
        "contexts",
        "maps",
        "pinned_bytes",
        "bad_handles",
    ]);
}

/// The second context and queue of a program that gave the first ones back.
pub(crate) fn reopened() {
    for _ in 0..5 {
        let cl = Cl::open();
        let mut error = 0;
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let content = pattern(BYTES, 6);
        let pointer = content.as_ptr().cast_mut().cast();
        let buffer = call!(
            cl,
            clCreateBuffer(cl.context, flags, BYTES, pointer, &raw mut error)
        );
        let host = Host::new(Kind::Cold, BYTES);
        see("read", cl.read(buffer, BYTES, host.at(0)));
        see("bytes", format!("{:x}", hash(&host.content())));
        cl.release(buffer);
        cl.close();
        if cl.is_fake() {
            for name in [
                "mems",
                "queues",
                "events",
                "contexts",
                "maps",
                "pinned_bytes",
            ] {
                see(name, cl.get(name));
            }
        }
    }
}

struct Last {
    cl: *const Cl,
    done: AtomicBool,
}

/// The program gives its queue back inside a callback.
pub(crate) fn released_in_callback() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    see("read", cl.read(buffer, BYTES, host.at(0)));
    let last = Last {
        cl: &raw const cl,
        done: AtomicBool::new(false),
    };
    let (code, event) = cl.start_read(buffer, BYTES, host.at(0), &[]);
    see("start", code);
    let data = std::ptr::from_ref(&last).cast_mut().cast();
    let notify = Some(release_queue as unsafe extern "C" fn(cl_event, i32, *mut c_void));
    see(
        "set",
        call!(cl, clSetEventCallback(event, CL_COMPLETE, notify, data)),
    );
    while !last.done.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    see("end", cl.end(event));
    let second = cl.make_queue(cl.context, 0, 0);
    let list = null();
    let code = call!(
        cl,
        clEnqueueReadBuffer(
            second,
            buffer,
            CL_TRUE,
            0,
            BYTES,
            host.at(0),
            0,
            list,
            null_mut()
        )
    );
    see("second", code);
    see("bytes", format!("{:x}", hash(&host.content())));
    assert_eq!(call!(cl, clReleaseCommandQueue(second)), 0);
    cl.release(buffer);
    assert_eq!(call!(cl, clReleaseContext(cl.context)), 0);
    cl.print_counts(&[
        "mems",
        "queues",
        "events",
        "contexts",
        "maps",
        "pinned_bytes",
    ]);
}

unsafe extern "C" fn release_queue(_event: cl_event, _status: i32, data: *mut c_void) {
    // SAFETY: the scene's `Last`, which outlives the callback.
    let last = unsafe { &*data.cast::<Last>() };
    // SAFETY: as above.
    let cl = unsafe { &*last.cl };
    assert_eq!(call!(cl, clReleaseCommandQueue(cl.queue)), 0);
    last.done.store(true, Ordering::Release);
}
