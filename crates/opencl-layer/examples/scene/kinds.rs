//! Destinations of every kind, and shapes with gaps.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use opencl_sys::{CL_FLOAT, CL_TRUE, CL_UNSIGNED_INT8};
use towpath_cold::{PAGE, Rows};

use crate::calls::Rect;
use crate::cl::{Cl, call, pattern};
use crate::host::{Host, Kind, hash};
use crate::{count, see};

const BYTES: usize = 4 << 20;

/// Reads into each kind of destination, aligned and not: codes, events and bytes.
pub(crate) fn kinds() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    for kind in Kind::ALL {
        for offset in [0, 64, PAGE - 1] {
            let host = Host::new(*kind, BYTES + PAGE);
            let mut event = null_mut();
            let answer = cl.read_at(buffer, 0, BYTES, host.at(offset), &raw mut event);
            see(
                &format!("{kind:?}+{offset}"),
                format!("{answer} {} {:x}", cl.end(event), hash(&host.content())),
            );
        }
    }
    cl.release(buffer);
    cl.close();
}

/// Rectangles and images, whose gaps must stay untouched.
pub(crate) fn shapes() {
    let cl = Cl::open();
    rectangle(&cl);
    image(&cl, [512, 300, 1], CL_FLOAT, [512, 300, 1], [3 * PAGE, 0]);
    image(&cl, [700, 300, 1], CL_FLOAT, [600, 200, 1], [0, 0]);
    image(
        &cl,
        [128, 64, 9],
        CL_UNSIGNED_INT8,
        [100, 50, 8],
        [1000, 30 * PAGE],
    );
    svm(&cl);
    cl.close();
}

fn rectangle(cl: &Cl) {
    let buffer = cl.buffer(BYTES);
    let rect = Rect {
        origin: [100, 3, 0],
        host_origin: [77, 2, 1],
        region: [5000, 150, 2],
        row: 6000,
        slice: 1_200_000,
        host_row: 4 * PAGE,
        host_slice: 640 * PAGE,
    };
    let host = Host::new(Kind::Cold, 2000 * PAGE);
    let rows = Rows::rect(
        host.address.addr(),
        rect.host_origin,
        rect.region,
        rect.host_row,
        rect.host_slice,
    );
    let answer = cl.read_rect(buffer, &rect, host.at(0));
    report(&host, &rows, "rect", answer);
    cl.release(buffer);
}

fn image(cl: &Cl, extent: [usize; 3], channel: u32, region: [usize; 3], pitches: [usize; 2]) {
    let image = cl.image(extent, channel);
    let element = if channel == CL_FLOAT { 16 } else { 4 };
    let host = Host::new(Kind::Cold, 3000 * PAGE);
    let rows = Rows::image(
        host.address.addr() + 64,
        element,
        region,
        pitches[0],
        pitches[1],
    );
    let answer = cl.read_image(image, region, pitches, host.at(64), null_mut());
    report(&host, &rows, &format!("image {extent:?}"), answer);
    cl.release(image);
}

fn svm(cl: &Cl) {
    let bytes = 2 << 20;
    let shared = call!(cl, clSVMAlloc(cl.context, 1, bytes, 0));
    if shared.is_null() {
        see("svm", "none");
        return;
    }
    let content = pattern(bytes, 5);
    see("to svm", copy(cl, shared, content.as_ptr().cast(), bytes));
    let host = Host::new(Kind::Cold, bytes);
    let answer = copy(cl, host.at(0), shared, bytes);
    report(
        &host,
        &Rows::flat(host.address.addr(), bytes),
        "svm",
        answer,
    );
    call!(cl, clSVMFree(cl.context, shared));
}

fn copy(cl: &Cl, to: *mut c_void, from: *const c_void, bytes: usize) -> i32 {
    call!(
        cl,
        clEnqueueSVMMemcpy(cl.queue, CL_TRUE, to, from, bytes, 0, null(), null_mut())
    )
}

/// Code and bytes; and how many pages outside of the rows were touched, which must be none.
fn report(host: &Host, rows: &Rows, name: &str, answer: i32) {
    let in_rows = towpath_cold::pages(rows).unwrap();
    let untouched = host.cold_pages() - in_rows.cold;
    let outside = (host.bytes / PAGE) as u64 - in_rows.total;
    // A driver may touch the rows only; so may we.
    see(&format!("{name} touched outside"), outside - untouched);
    see(name, format!("{answer} {:x}", hash(&host.content())));
}

/// What the fake driver counts: cold pages at its door, and faults while it copied.
pub(crate) fn counts() {
    let cl = Cl::open();
    let buffer = cl.buffer(16 << 20);
    for kind in [
        Kind::Cold,
        Kind::Zero,
        Kind::Half,
        Kind::Warm,
        Kind::Memfd,
        Kind::FilePrivate,
    ] {
        let host = Host::new(kind, 17 << 20);
        let before = (cl.get("cold_pages"), cl.get("copy_faults"));
        assert_eq!(cl.read(buffer, 16 << 20, host.at(64)), 0);
        count(&format!("cold.{kind:?}"), cl.get("cold_pages") - before.0);
        count(
            &format!("faults.{kind:?}"),
            cl.get("copy_faults") - before.1,
        );
        let content = host.content();
        assert!(content[64..64 + (16 << 20)] == pattern(16 << 20, 1));
    }
    cl.print_counts(&["flush", "read_buffer", "info"]);
    cl.release(buffer);
    cl.close();
}

/// Reads into memory that may not be written: whatever happens must not depend on the layer.
pub(crate) fn read_only() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let host = Host::new(Kind::Cold, BYTES);
    host.protect(libc::PROT_READ);
    see("start", 0);
    let answer = cl.read(buffer, BYTES, host.at(0));
    see("answer", answer);
}

/// Cold destinations only.
pub(crate) fn cold() {
    let cl = Cl::open();
    let buffer = cl.buffer(BYTES);
    let image = cl.image([512, 512, 1], CL_FLOAT);
    for _ in 0..8 {
        let host = Host::new(Kind::Cold, BYTES);
        assert_eq!(cl.read(buffer, BYTES, host.at(0)), 0);
        let host = Host::new(Kind::Cold, BYTES);
        let code = cl.read_image(image, [512, 512, 1], [0, 0], host.at(0), null_mut());
        assert_eq!(code, 0);
    }
    cl.release(buffer);
    cl.release(image);
    cl.close();
}
