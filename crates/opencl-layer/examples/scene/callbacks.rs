//! Events, callbacks and reads that overlap.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, Ordering};

use opencl_sys::{
    CL_COMPLETE, CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_QUEUED, CL_QUEUE_PROFILING_ENABLE,
    cl_event, cl_int, cl_mem,
};

use crate::cl::{Cl, call, pattern};
use crate::host::{Host, Kind, hash};
use crate::{count, see};

const BYTES: usize = 4 << 20;

/// Wait lists, events in each state, profiling.
pub(crate) fn events() {
    let cl = Cl::with_properties(CL_QUEUE_PROFILING_ENABLE);
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    let mut error = 0;
    let gate = call!(cl, clCreateUserEvent(cl.context, &raw mut error));
    let (answer, event) = cl.start_read(buffer, BYTES, host.at(0), &[gate]);
    see("start", answer);
    see("held", cl.status(event) > CL_COMPLETE);
    see("bytes", format!("{:x}", hash(&host.content())));
    see("open", call!(cl, clSetUserEventStatus(gate, CL_COMPLETE)));
    assert_eq!(call!(cl, clWaitForEvents(1, &raw const event)), 0);
    let mut times = [0_u64; 2];
    let names = [CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_END];
    for (time, name) in times.iter_mut().zip(names) {
        let value: *mut c_void = std::ptr::from_mut(time).cast();
        let code = call!(
            cl,
            clGetEventProfilingInfo(event, name, 8, value, null_mut())
        );
        see("profiling", code);
    }
    see("times in order", times[0] <= times[1]);
    see("end", cl.end(event));
    see("bytes", format!("{:x}", hash(&host.content())));
    assert_eq!(call!(cl, clReleaseEvent(gate)), 0);
    failed_wait(&cl, buffer);
    cl.release(buffer);
    cl.close();
    cl.print_counts(&["mems", "queues", "events", "contexts"]);
}

/// A read that waits for an event that fails.
fn failed_wait(cl: &Cl, buffer: cl_mem) {
    if !cl.is_fake() {
        return;
    }
    let mut error = 0;
    let gate = call!(cl, clCreateUserEvent(cl.context, &raw mut error));
    let host = Host::new(Kind::Cold, BYTES);
    let (answer, event) = cl.start_read(buffer, BYTES, host.at(0), &[gate]);
    see("start", answer);
    see("fail", call!(cl, clSetUserEventStatus(gate, -5)));
    see("end", cl.end(event));
    see("bytes", format!("{:x}", hash(&host.content())));
    assert_eq!(call!(cl, clReleaseEvent(gate)), 0);
}

struct Inner {
    cl: Cl,
    buffer: cl_mem,
    host: Host,
    flushes: AtomicI64,
    answer: AtomicI64,
}

// SAFETY: the callback uses it on the driver's thread while the main thread only waits.
unsafe impl Sync for Inner {}

/// A callback that reads, without blocking, into cold memory.
pub(crate) fn callback() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let inner = Inner {
        cl,
        buffer,
        host: Host::new(Kind::Cold, BYTES),
        flushes: AtomicI64::new(-1),
        answer: AtomicI64::new(-99),
    };
    let outer = Host::new(Kind::Cold, BYTES);
    let cl = &inner.cl;
    let mut error = 0;
    let gate = call!(cl, clCreateUserEvent(cl.context, &raw mut error));
    let (_, event) = cl.start_read(buffer, BYTES, outer.at(0), &[gate]);
    let data = std::ptr::from_ref(&inner).cast_mut().cast();
    see(
        "set",
        call!(
            cl,
            clSetEventCallback(event, CL_COMPLETE, Some(in_callback), data)
        ),
    );
    assert_eq!(call!(cl, clSetUserEventStatus(gate, CL_COMPLETE)), 0);
    assert_eq!(call!(cl, clWaitForEvents(1, &raw const event)), 0);
    while inner.answer.load(Ordering::Acquire) == -99 {
        std::thread::yield_now();
    }
    cl.finish();
    see("answer in callback", inner.answer.load(Ordering::Acquire));
    see("outer", format!("{:x}", hash(&outer.content())));
    see("inner", format!("{:x}", hash(&inner.host.content())));
    let flushes = inner.flushes.load(Ordering::Relaxed);
    count("flushes in callback", u64::try_from(flushes).unwrap_or(0));
    see(
        "no function",
        call!(cl, clSetEventCallback(event, CL_COMPLETE, None, null_mut())),
    );
    see("end", cl.end(event));
    assert_eq!(call!(cl, clReleaseEvent(gate)), 0);
    cl.release(buffer);
    cl.close();
}

unsafe extern "C" fn in_callback(_event: cl_event, status: cl_int, data: *mut c_void) {
    // SAFETY: the scene's `Inner`, which outlives the callback.
    let inner = unsafe { &*data.cast::<Inner>() };
    let calls = |inner: &Inner| {
        if inner.cl.is_fake() {
            inner.cl.get("flush") + inner.cl.get("info")
        } else {
            0
        }
    };
    let before = calls(inner);
    let (answer, event) = inner
        .cl
        .start_read(inner.buffer, BYTES, inner.host.at(0), &[]);
    let extra = calls(inner) - before;
    let _code = call!(inner.cl, clReleaseEvent(event));
    inner
        .flushes
        .store(i64::try_from(extra).unwrap_or(-1), Ordering::Relaxed);
    inner
        .answer
        .store(i64::from(answer + status), Ordering::Release);
}

/// Work queued before a read starts while the pages come in: the flush comes first.
pub(crate) fn overlap() {
    let cl = Cl::open();
    let buffer = cl.buffer(16 << 20);
    cl.set("hold_until_flush", 1);
    let mut event = null_mut();
    let zero = 0_u32;
    let code = call!(
        cl,
        clEnqueueFillBuffer(
            cl.queue,
            buffer,
            (&raw const zero).cast(),
            4,
            0,
            4096,
            0,
            std::ptr::null(),
            &raw mut event
        )
    );
    see("fill", code);
    see("held", cl.status(event) > CL_COMPLETE);
    let host = Host::new(Kind::Cold, 16 << 20);
    see("read", cl.read(buffer, 16 << 20, host.at(0)));
    see("bytes", format!("{:x}", hash(&host.content())));
    see("end", cl.end(event));
    cl.print_counts(&["flush", "cold_pages"]);
    cl.release(buffer);
    cl.close();
}

/// The driver writes to the first part of a page while we bring the rest in.
pub(crate) fn asynchronous() {
    let cl = Cl::open();
    let buffer = cl.buffer(8 << 20);
    let expected = pattern(8 << 20, 1);
    for round in 0..20 {
        let host = Host::new(Kind::Cold, 16 << 20);
        // Neither ends on a page: the two reads share one, and the first is still going on.
        let first = (5 << 20) + 1000 + round * 7;
        let (code, one) = cl.start_read(buffer, first, host.at(0), &[]);
        assert_eq!(code, 0);
        let (code, two) = cl.start_read(buffer, 8 << 20, host.at(first), &[]);
        assert_eq!(code, 0);
        // A third, blocking, over the tail of the second.
        let tail = first + (8 << 20) - 4096;
        assert_eq!(cl.read(buffer, 1 << 20, host.at(tail)), 0);
        assert_eq!(cl.end(one).split(' ').next(), Some("0"));
        assert_eq!(cl.end(two).split(' ').next(), Some("0"));
        let content = host.content();
        assert!(content[..first] == expected[..first], "round {round}");
        assert!(
            content[first..tail] == expected[..tail - first],
            "round {round}"
        );
        assert!(
            content[tail..tail + (1 << 20)] == expected[..1 << 20],
            "round {round}"
        );
    }
    see("rounds", 20);
    cl.release(buffer);
    cl.close();
}
