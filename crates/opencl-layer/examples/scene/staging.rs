//! Calls that may be staged and calls that may not.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use opencl_sys::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_COMPLETE, CL_FLOAT, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR,
    CL_MEM_COPY_HOST_PTR, CL_MEM_HOST_NO_ACCESS, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR,
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE, CL_TRUE, cl_buffer_region,
    cl_event, cl_mem,
};

use crate::calls::Rect;
use crate::cl::{Cl, call, pattern};
use crate::host::{Host, Kind, hash};
use crate::{count, see};

const BYTES: usize = 8 << 20;

/// Copies on the device so far: the mark of a staged call.
fn copies(cl: &Cl) -> u64 {
    [
        "copy_buffer",
        "copy_buffer_rect",
        "copy_image_to_buffer",
        "copy_buffer_to_image",
    ]
    .iter()
    .map(|name| cl.get(name))
    .sum()
}

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

/// Uploads of every shape, with and without event, read back by the plain way.
pub(crate) fn writes() {
    let cl = Cl::open();
    for (name, kind) in [
        ("warm", Kind::Warm),
        ("zero", Kind::Zero),
        ("file", Kind::FilePrivate),
    ] {
        for with_event in [false, true] {
            let name = format!("{name} {with_event}");
            write_buffer(&cl, &name, kind, with_event);
            write_rect(&cl, &name, with_event);
            write_image(&cl, &name, with_event);
        }
    }
    let buffer = cl.buffer(BYTES);
    let content = vec![1; BYTES + 1];
    see("past the end", cl.write(buffer, &content));
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

/// The event's text if there is one.
fn finish(cl: &Cl, with_event: bool, event: cl_event) -> String {
    if with_event {
        cl.end(event)
    } else {
        String::new()
    }
}

fn slot(with_event: bool, event: &mut cl_event) -> *mut cl_event {
    if with_event {
        std::ptr::from_mut(event)
    } else {
        null_mut()
    }
}

fn write_buffer(cl: &Cl, name: &str, kind: Kind, with_event: bool) {
    let buffer = cl.buffer(BYTES);
    let host = Host::new(kind, BYTES + 4096);
    if kind == Kind::Warm {
        host.fill(&pattern(BYTES + 4096, 3));
    }
    let mut event = null_mut();
    let answer = call!(
        cl,
        clEnqueueWriteBuffer(
            cl.queue,
            buffer,
            CL_TRUE,
            100,
            BYTES - 200,
            host.at(77).cast_const(),
            0,
            null(),
            slot(with_event, &mut event)
        )
    );
    see(
        &format!("buffer {name}"),
        format!("{answer} {}", finish(cl, with_event, event)),
    );
    see("content", format!("{:x}", content(cl, buffer)));
    cl.release(buffer);
}

fn write_rect(cl: &Cl, name: &str, with_event: bool) {
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Warm, BYTES);
    host.fill(&pattern(BYTES, 4));
    let rect = Rect {
        origin: [50, 1, 0],
        host_origin: [3, 2, 1],
        region: [1500, 1000, 2],
        row: 2000,
        slice: 2_500_000,
        host_row: 1600,
        host_slice: 0,
    };
    let mut event = null_mut();
    let answer = call!(
        cl,
        clEnqueueWriteBufferRect(
            cl.queue,
            buffer,
            CL_TRUE,
            rect.origin.as_ptr(),
            rect.host_origin.as_ptr(),
            rect.region.as_ptr(),
            rect.row,
            rect.slice,
            rect.host_row,
            rect.host_slice,
            host.at(0).cast_const(),
            0,
            null(),
            slot(with_event, &mut event)
        )
    );
    see(
        &format!("rect {name}"),
        format!("{answer} {}", finish(cl, with_event, event)),
    );
    see("content", format!("{:x}", content(cl, buffer)));
    cl.release(buffer);
}

fn write_image(cl: &Cl, name: &str, with_event: bool) {
    let image = cl.image([600, 400, 1], CL_FLOAT);
    let host = Host::new(Kind::Warm, BYTES);
    host.fill(&pattern(BYTES, 5));
    let (origin, region) = ([7_usize, 5, 0], [500_usize, 300, 1]);
    let mut event = null_mut();
    let answer = call!(
        cl,
        clEnqueueWriteImage(
            cl.queue,
            image,
            CL_TRUE,
            origin.as_ptr(),
            region.as_ptr(),
            8192,
            0,
            host.at(16).cast_const(),
            0,
            null(),
            slot(with_event, &mut event)
        )
    );
    see(
        &format!("image {name}"),
        format!("{answer} {}", finish(cl, with_event, event)),
    );
    let back = Host::new(Kind::Cold, 600 * 400 * 16);
    let code = cl.read_image(image, [600, 400, 1], [0, 0], back.at(0), null_mut());
    see("content", format!("{code} {:x}", hash(&back.content())));
    cl.release(image);
}

fn content(cl: &Cl, buffer: cl_mem) -> u64 {
    let back = Host::new(Kind::Cold, BYTES);
    assert_eq!(cl.read(buffer, BYTES, back.at(0)), 0);
    hash(&back.content())
}

/// The handles of a scene that a second thread uses too.
struct Both<'a>(&'a Cl, cl_mem);

// SAFETY: OpenCL calls on queues and buffers may be made by any thread.
unsafe impl Sync for Both<'_> {}

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
