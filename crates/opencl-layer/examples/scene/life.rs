//! Objects that come and go.

use std::ptr::{null, null_mut};

use opencl_sys::{CL_FLOAT, CL_MAP_READ, CL_TRUE, CL_UNSIGNED_INT8};

use crate::cl::{Cl, call, pattern};
use crate::host::{Host, Kind, hash};
use crate::{count, see};

const BYTES: usize = 4 << 20;

/// Two devices, each with its own context and queue, used in turn.
pub(crate) fn two_devices() {
    let mut cl = Cl::open();
    let other = cl.make_context(1);
    let other_queue = cl.make_queue(other, 1, 0);
    let first = cl.buffer(BYTES);
    let second = cl.buffer_of(other, &pattern(BYTES, 9));
    let first_queue = cl.queue;
    for _ in 0..3 {
        for (queue, buffer) in [(first_queue, first), (other_queue, second)] {
            cl.queue = queue;
            let host = Host::new(Kind::Cold, BYTES);
            see("read", cl.read(buffer, BYTES, host.at(0)));
            see("bytes", format!("{:x}", hash(&host.content())));
        }
    }
    // Of the wrong context.
    cl.queue = first_queue;
    let host = Host::new(Kind::Cold, BYTES);
    see("wrong context", cl.read(second, BYTES, host.at(0)));
    cl.release(first);
    cl.release(second);
    assert_eq!(call!(cl, clReleaseCommandQueue(other_queue)), 0);
    assert_eq!(call!(cl, clReleaseContext(other)), 0);
    cl.close();
    cl.print_counts(&["cold_pages", "mems", "queues", "events", "contexts"]);
}

/// A program that releases and makes everything again: addresses come back with other meanings.
pub(crate) fn again() {
    let mut cl = Cl::open();
    for round in 0..30 {
        let (channel, element) = if round % 2 == 0 {
            (CL_FLOAT, 16)
        } else {
            (CL_UNSIGNED_INT8, 4)
        };
        let image = cl.image([512, 512, 1], channel);
        let host = Host::new(Kind::Cold, 512 * 512 * 16);
        let code = cl.read_image(image, [512, 512, 1], [0, 0], host.at(0), null_mut());
        assert_eq!(code, 0);
        let bytes = 512 * 512 * element;
        assert!(
            host.content()[..bytes] == pattern(bytes, 2),
            "round {round}"
        );
        // With the element size of the image before, pages past the end would be touched.
        let touched = (host.bytes / 4096) as u64 - host.cold_pages();
        see("pages touched", touched);
        cl.release(image);
        assert_eq!(call!(cl, clReleaseCommandQueue(cl.queue)), 0);
        cl.queue = cl.make_queue(cl.context, 0, 0);
    }
    cl.close();
    cl.print_counts(&["mems", "queues", "events", "contexts"]);
}

/// A hundred thousand calls.
pub(crate) fn leak() {
    let cl = Cl::open();
    let buffer = cl.buffer(2 << 20);
    let image = cl.image([256, 256, 1], CL_FLOAT);
    let host = Host::new(Kind::Cold, 2 << 20);
    for call in 0..100_000 {
        let code = match call % 100 {
            0 => {
                host.advise(libc::MADV_DONTNEED);
                cl.read(buffer, 2 << 20, host.at(0))
            }
            1 => cl.read_image(image, [256, 256, 1], [0, 0], host.at(0), null_mut()),
            2 => {
                let (code, event) = cl.start_read(buffer, 1 << 20, host.at(0), &[]);
                cl.end(event);
                code
            }
            3 => cl.write(buffer, &[7; 4096]),
            _ => cl.read(buffer, 64, host.at(0)),
        };
        assert_eq!(code, 0);
        if call == 2000 || call == 99_999 {
            let stage = if call == 2000 { "early" } else { "late" };
            count(&format!("descriptors.{stage}"), entries("/proc/self/fd"));
            count(&format!("threads.{stage}"), entries("/proc/self/task"));
            count(&format!("mappings.{stage}"), lines("/proc/self/maps"));
            count(&format!("anonymous KiB.{stage}"), resident_kib());
        }
    }
    cl.release(buffer);
    cl.release(image);
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

fn entries(folder: &str) -> u64 {
    std::fs::read_dir(folder).unwrap().count() as u64
}

fn lines(file: &str) -> u64 {
    std::fs::read_to_string(file).unwrap().lines().count() as u64
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A mapped pointer as destination.
pub(crate) fn mapped() {
    let cl = Cl::open();
    let source = cl.buffer(BYTES);
    let target = cl.buffer_of(cl.context, &vec![0; BYTES]);
    let mut error = 0;
    let pointer = call!(
        cl,
        clEnqueueMapBuffer(
            cl.queue,
            target,
            CL_TRUE,
            CL_MAP_READ,
            0,
            BYTES,
            0,
            null(),
            null_mut(),
            &raw mut error
        )
    );
    see("map", error);
    see("read", cl.read(source, BYTES, pointer));
    cl.print_counts(&["flush"]);
    let unmap = call!(
        cl,
        clEnqueueUnmapMemObject(cl.queue, target, pointer, 0, null(), null_mut())
    );
    see("unmap", unmap);
    let again = call!(
        cl,
        clEnqueueUnmapMemObject(cl.queue, target, pointer, 0, null(), null_mut())
    );
    if cl.is_fake() {
        see("unmap again", again);
    }
    cl.finish();
    let host = Host::new(Kind::Cold, BYTES);
    see("read back", cl.read(target, BYTES, host.at(0)));
    see("bytes", format!("{:x}", hash(&host.content())));
    cl.release(source);
    cl.release(target);
    cl.close();
    cl.print_counts(&["mems", "maps"]);
}
