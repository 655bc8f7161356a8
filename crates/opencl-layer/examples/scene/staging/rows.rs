//! Each row of the table of calls that may be staged and calls that may not.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use crate::cl::{Cl, call};
use crate::host::{Host, Kind, hash};
use crate::{count, see};
use opencl_sys::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_HOST_NO_ACCESS,
    CL_MEM_USE_HOST_PTR, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE,
    CL_TRUE, cl_buffer_region, cl_mem,
};

use super::{BYTES, copies};

/// One line for each row of the table: how many copies the call made on the device.
fn row(cl: &Cl, name: &str, body: impl FnOnce() -> i32) {
    let before = copies(cl);
    see(name, body());
    count(&format!("copies.{name}"), copies(cl) - before);
}

/// Calls that hold every row but one.
pub(crate) fn rows() {
    let mut cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    row(&cl, "plain", || cl.read(buffer, BYTES, host.at(0)));
    row(&cl, "small", || cl.read(buffer, 4096, host.at(0)));
    row(&cl, "not blocking", || {
        let (answer, event) = cl.start_read(buffer, BYTES, host.at(0), &[]);
        cl.end(event);
        answer
    });
    for kind in [
        Kind::FileShared,
        Kind::FilePrivate,
        Kind::Memfd,
        Kind::Shared,
    ] {
        let host = Host::new(kind, BYTES);
        row(&cl, &format!("{kind:?}"), || {
            cl.read(buffer, BYTES, host.at(0))
        });
    }
    objects(&cl, &host);
    mapped(&cl, buffer);
    let plain = cl.queue;
    for (name, properties) in [
        ("times", CL_QUEUE_PROFILING_ENABLE),
        ("out of order", CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE),
    ] {
        cl.queue = cl.make_queue(cl.context, 0, properties);
        row(&cl, name, || cl.read(buffer, BYTES, host.at(0)));
        assert_eq!(call!(cl, clReleaseCommandQueue(cl.queue)), 0);
    }
    let queues: Vec<_> = (0..5).map(|_| cl.make_queue(cl.context, 0, 0)).collect();
    for (number, queue) in queues.iter().enumerate() {
        cl.queue = *queue;
        row(&cl, &format!("queue {number}"), || {
            cl.read(buffer, BYTES, host.at(0))
        });
    }
    for queue in queues {
        assert_eq!(call!(cl, clReleaseCommandQueue(queue)), 0);
    }
    cl.queue = plain;
    row(&cl, "plain again", || cl.read(buffer, BYTES, host.at(0)));
    see("bytes", format!("{:x}", hash(&host.content())));
    cl.release(buffer);
    cl.close();
    cl.print_counts(&[
        "mems",
        "queues",
        "events",
        "contexts",
        "maps",
        "pinned_bytes",
    ]);
}

/// Memory objects of other kinds.
fn objects(cl: &Cl, host: &Host) {
    let backing = Host::new(Kind::Warm, BYTES);
    for (name, flags, pointer) in [
        ("USE_HOST_PTR", CL_MEM_USE_HOST_PTR, backing.at(0)),
        ("ALLOC_HOST_PTR", CL_MEM_ALLOC_HOST_PTR, null_mut()),
        ("HOST_NO_ACCESS", CL_MEM_HOST_NO_ACCESS, null_mut()),
    ] {
        let mut error = 0;
        let memory = call!(
            cl,
            clCreateBuffer(cl.context, flags, BYTES, pointer, &raw mut error)
        );
        assert_eq!(error, 0);
        row(cl, name, || cl.read(memory, BYTES, host.at(0)));
        cl.release(memory);
    }
    let parent = cl.buffer(2 * BYTES);
    let region = cl_buffer_region {
        origin: 4096,
        size: BYTES,
    };
    let info: *const c_void = (&raw const region).cast();
    let mut error = 0;
    let kind = CL_BUFFER_CREATE_TYPE_REGION;
    let sub = call!(cl, clCreateSubBuffer(parent, 0, kind, info, &raw mut error));
    assert_eq!(error, 0);
    row(cl, "sub-buffer", || cl.read(sub, BYTES, host.at(0)));
    cl.release(sub);
    cl.release(parent);
}

fn mapped(cl: &Cl, source: cl_mem) {
    let target = cl.buffer(BYTES);
    let mut error = 0;
    let pointer = call!(
        cl,
        clEnqueueMapBuffer(
            cl.queue,
            target,
            CL_TRUE,
            CL_MAP_WRITE,
            0,
            BYTES,
            0,
            null(),
            null_mut(),
            &raw mut error
        )
    );
    row(cl, "mapped", || cl.read(source, BYTES, pointer));
    let code = call!(
        cl,
        clEnqueueUnmapMemObject(cl.queue, target, pointer, 0, null(), null_mut())
    );
    assert_eq!(code, 0);
    cl.release(target);
}
