//! Wrong arguments and failing drivers.

use std::ptr::{null, null_mut};

use opencl_sys::{CL_FLOAT, CL_TRUE};

use crate::calls::Rect;
use crate::cl::{Cl, call};
use crate::host::{Host, Kind, hash};
use crate::see;

const BYTES: usize = 4 << 20;

/// Arguments that a driver refuses.
pub(crate) fn bad_arguments() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let image = cl.image([256, 256, 1], CL_FLOAT);
    let host = Host::new(Kind::Cold, BYTES);
    let to = host.at(0);
    see("null pointer", cl.read(buffer, BYTES, null_mut()));
    see("past the end", cl.read_at(buffer, 1, BYTES, to, null_mut()));
    see(
        "offset overflow",
        cl.read_at(buffer, usize::MAX, 2, to, null_mut()),
    );
    let list = null();
    let waits = call!(
        cl,
        clEnqueueReadBuffer(cl.queue, buffer, CL_TRUE, 0, 64, to, 3, list, null_mut())
    );
    see("wait list without events", waits);
    let rect = Rect {
        origin: [0; 3],
        host_origin: [0; 3],
        region: [4096, 16, 1],
        row: 4096,
        slice: 0,
        host_row: 100,
        host_slice: 0,
    };
    see("pitch below the row", cl.read_rect(buffer, &rect, to));
    let empty = Rect {
        region: [0, 1, 1],
        host_row: 0,
        ..rect
    };
    see("no bytes", cl.read_rect(buffer, &empty, to));
    see(
        "image outside",
        cl.read_image(image, [257, 1, 1], [0, 0], to, null_mut()),
    );
    see(
        "image pitch",
        cl.read_image(image, [256, 256, 1], [17, 0], to, null_mut()),
    );
    see(
        "image without bytes",
        cl.read_image(image, [0, 1, 1], [0, 0], to, null_mut()),
    );
    see("bytes", format!("{:x}", hash(&host.content())));
    if cl.is_fake() {
        see("queue for buffer", cl.read(cl.queue, BYTES, to));
        let region = [256, 256, 1];
        see(
            "buffer for image",
            cl.read_image(buffer, region, [0, 0], to, null_mut()),
        );
        see("image for buffer", cl.read(image, BYTES, to));
    }
    cl.release(image);
    cl.release(buffer);
    cl.close();
}

/// Errors from the call.
pub(crate) fn driver_errors() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    for code in [4, 5, 6, 36] {
        let host = Host::new(Kind::Cold, BYTES);
        cl.set("fail_call", 1);
        cl.set("fail_times", 1);
        cl.set("fail_code", code);
        see(&format!("error {code}"), cl.read(buffer, BYTES, host.at(0)));
        see("bytes", format!("{:x}", hash(&host.content())));
        see("then", cl.read(buffer, BYTES, host.at(0)));
        see("bytes", format!("{:x}", hash(&host.content())));
    }
    cl.set("lost", 1);
    let host = Host::new(Kind::Cold, BYTES);
    see("lost", cl.read(buffer, BYTES, host.at(0)));
    cl.set("lost", 0);
    cl.release(buffer);
    cl.close();
    cl.print_counts(&["mems", "queues", "events", "contexts"]);
}

/// Errors while the command runs.
pub(crate) fn late_errors() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    cl.set("fail_call", 1);
    cl.set("fail_late", 1);
    cl.set("fail_code", 5);
    let host = Host::new(Kind::Cold, BYTES);
    cl.set("fail_times", 1);
    see("blocking", cl.read(buffer, BYTES, host.at(0)));
    cl.set("fail_times", 1);
    let (answer, event) = cl.start_read(buffer, BYTES, host.at(0), &[]);
    see("not blocking", answer);
    see("event", cl.end(event));
    see("bytes", format!("{:x}", hash(&host.content())));
    cl.release(buffer);
    cl.close();
    cl.print_counts(&["mems", "queues", "events", "contexts"]);
}
