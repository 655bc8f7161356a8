//! Writes, plain and of rectangles and images.

use std::ptr::{null, null_mut};

use crate::calls::Rect;
use crate::cl::{Cl, call, pattern};
use crate::host::{Host, Kind, hash};
use crate::see;
use opencl_sys::{CL_FLOAT, CL_TRUE, cl_event};

use super::{BYTES, content, slot};

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
