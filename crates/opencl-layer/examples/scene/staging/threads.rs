//! Several threads on one driver.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cl::{Cl, call, pattern};
use crate::host::{Host, Kind, hash};
use crate::see;
use opencl_sys::{CL_COMPLETE, CL_TRUE, cl_event};

use super::{BYTES, Both, slot};

/// Reads while another thread fills the same queue: each read is of one moment.
pub(crate) fn one_moment() {
    let cl = Cl::open();
    let buffer = cl.buffer_of(cl.context, &vec![0; BYTES]);
    let both = Both(&cl, buffer);
    let stop = AtomicBool::new(false);
    let mut mixed = 0;
    std::thread::scope(|scope| {
        let (both, stop) = (&both, &stop);
        scope.spawn(move || {
            let Both(cl, buffer) = both;
            let mut value = 0_u8;
            while !stop.load(Ordering::Relaxed) {
                value = value.wrapping_add(1);
                let pattern = (&raw const value).cast();
                let (queue, buffer) = (cl.queue, *buffer);
                let code = call!(
                    cl,
                    clEnqueueFillBuffer(queue, buffer, pattern, 1, 0, BYTES, 0, null(), null_mut())
                );
                assert_eq!(code, 0);
                cl.finish();
            }
        });
        for round in 0..24 {
            let host = Host::new(Kind::Cold, BYTES);
            let mut event = null_mut();
            let with_event = round % 2 == 0;
            let code = cl.read_at(buffer, 0, BYTES, host.at(0), slot(with_event, &mut event));
            assert_eq!(code, 0);
            if with_event {
                cl.end(event);
            }
            let content = host.content();
            mixed += u64::from(content.iter().any(|byte| *byte != content[0]));
        }
        stop.store(true, Ordering::Relaxed);
    });
    see("mixed", mixed);
    cl.release(buffer);
    cl.close();
}

/// One read by a thread that has hardly any stack.
pub(crate) fn small_stack() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    let mut read = Read {
        both: Both(&cl, buffer),
        to: host.at(0),
        code: 1,
    };
    // SAFETY: an all-zero structure is only a place for `init`.
    let mut attributes = unsafe { std::mem::zeroed() };
    // SAFETY: a live structure.
    assert_eq!(unsafe { libc::pthread_attr_init(&raw mut attributes) }, 0);
    // The standard library's threads have as much beside what the C library needs, this one in all.
    // SAFETY: initialised above.
    let set =
        unsafe { libc::pthread_attr_setstacksize(&raw mut attributes, libc::PTHREAD_STACK_MIN) };
    assert_eq!(set, 0);
    let mut thread = 0;
    let argument = (&raw mut read).cast();
    // SAFETY: the argument lives until the thread is joined, and is its alone until then.
    let made = unsafe {
        libc::pthread_create(&raw mut thread, &raw const attributes, read_once, argument)
    };
    assert_eq!(made, 0);
    // SAFETY: made above, joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, null_mut()) }, 0);
    see("read", read.code);
    see("bytes", format!("{:x}", hash(&host.content())));
    cl.release(buffer);
    cl.close();
}

struct Read<'a> {
    both: Both<'a>,
    to: *mut c_void,
    code: i32,
}

extern "C" fn read_once(argument: *mut c_void) -> *mut c_void {
    let read: *mut Read<'_> = argument.cast();
    // SAFETY: `small_stack` waits for this thread before it uses it again.
    let read = unsafe { &mut *read };
    let Both(cl, buffer) = &read.both;
    read.code = cl.read(*buffer, BYTES, read.to);
    null_mut()
}

/// One queue's read waits for an event that another queue's user sets after a read of its own.
pub(crate) fn gate() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let mut error = 0;
    let gate = call!(cl, clCreateUserEvent(cl.context, &raw mut error));
    let other = cl.make_queue(cl.context, 0, 0);
    let both = Both(&cl, buffer);
    let handles = [gate.expose_provenance(), other.expose_provenance()];
    std::thread::scope(|scope| {
        let both = &both;
        scope.spawn(move || {
            let Both(cl, buffer) = both;
            let host = Host::new(Kind::Cold, BYTES);
            let gate: cl_event = std::ptr::with_exposed_provenance_mut(handles[0]);
            let queue = std::ptr::with_exposed_provenance_mut(handles[1]);
            std::thread::sleep(std::time::Duration::from_millis(50));
            let list = null();
            let code = call!(
                cl,
                clEnqueueReadBuffer(
                    queue,
                    *buffer,
                    CL_TRUE,
                    0,
                    BYTES,
                    host.at(0),
                    0,
                    list,
                    null_mut()
                )
            );
            assert_eq!(code, 0);
            assert!(host.content() == pattern(BYTES, 1));
            assert_eq!(call!(cl, clSetUserEventStatus(gate, CL_COMPLETE)), 0);
        });
        let host = Host::new(Kind::Cold, BYTES);
        let code = call!(
            cl,
            clEnqueueReadBuffer(
                cl.queue,
                buffer,
                CL_TRUE,
                0,
                BYTES,
                host.at(0),
                1,
                &raw const gate,
                null_mut()
            )
        );
        see("gated", code);
        see("bytes", format!("{:x}", hash(&host.content())));
    });
    assert_eq!(call!(cl, clReleaseEvent(gate)), 0);
    assert_eq!(call!(cl, clReleaseCommandQueue(other)), 0);
    cl.release(buffer);
    cl.close();
}
