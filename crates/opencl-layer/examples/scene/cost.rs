//! Times, for benches; never asserted in a test.

use std::ptr::null_mut;
use std::time::Instant;

use opencl_sys::CL_FLOAT;

use crate::cl::{Cl, pattern};
use crate::host::{Host, Kind};

/// Sixty-four bytes, many times: prints ns per call of each batch.
pub(crate) fn small_reads() {
    let cl = Cl::open();
    let buffer = cl.buffer(4096);
    let host = Host::new(Kind::Warm, 4096);
    for _ in 0..12 {
        let start = Instant::now();
        for _ in 0..5000 {
            assert_eq!(cl.read(buffer, 64, host.at(0)), 0);
        }
        println!("time small {}", start.elapsed().as_nanos() / 5000);
    }
    cl.release(buffer);
    cl.close();
}

/// Small reads that the driver refuses at once: all that is left is the way to it and back. Prints ns per
/// call of each batch.
pub(crate) fn refused_reads() {
    let cl = Cl::open();
    let buffer = cl.buffer(4096);
    let host = Host::new(Kind::Warm, 4096);
    for _ in 0..12 {
        let start = Instant::now();
        for _ in 0..100_000 {
            assert_ne!(cl.read_at(buffer, 8192, 64, host.at(0), null_mut()), 0);
        }
        println!("time refused {}", start.elapsed().as_nanos() / 100_000);
    }
    cl.release(buffer);
    cl.close();
}

/// The seed's picture, 3888x2592 of four floats: cold and warm reads of image and buffer, and writes,
/// all with events. Prints ns per call, and checks the bytes of each.
pub(crate) fn transfers() {
    let (width, height) = (3888, 2592);
    let bytes = width * height * 16;
    let cl = Cl::open();
    let image = cl.image([width, height, 1], CL_FLOAT);
    let buffer = cl.buffer(bytes);
    let contents = [pattern(bytes, 2), pattern(bytes, 1)];
    let source = Host::new(Kind::Warm, bytes);
    source.fill(&contents[1]);
    for _ in 0..8 {
        // A virtual machine that got its memory back is slow to give it again.
        let warmer = Host::new(Kind::Huge, 2 * bytes);
        warmer.touch();
        drop(warmer);
        for (name, content) in ["image", "buffer"].iter().zip(&contents) {
            let host = Host::new(Kind::Cold, bytes);
            for state in ["cold", "warm"] {
                let mut event = null_mut();
                let start = Instant::now();
                let code = if *name == "image" {
                    cl.read_image(
                        image,
                        [width, height, 1],
                        [0, 0],
                        host.at(0),
                        &raw mut event,
                    )
                } else {
                    cl.read_at(buffer, 0, bytes, host.at(0), &raw mut event)
                };
                println!("time {name}-{state} {}", start.elapsed().as_nanos());
                assert_eq!(code, 0);
                cl.end(event);
                assert!(host.content()[..bytes] == content[..], "{name} {state}");
            }
        }
        let start = Instant::now();
        // SAFETY: the mapping lives, and no command runs that writes to it.
        let content = unsafe { std::slice::from_raw_parts(source.address, bytes) };
        assert_eq!(cl.write(buffer, content), 0);
        cl.finish();
        println!("time write-warm {}", start.elapsed().as_nanos());
    }
    cl.release(image);
    cl.release(buffer);
    cl.close();
}
