//! Times, for benches; never asserted in a test.

use std::time::Instant;

use crate::cl::Cl;
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

/// 154 MiB into fresh and into warm memory: prints ns per call.
pub(crate) fn big_reads() {
    let bytes = 3888 * 2592 * 16;
    let cl = Cl::open();
    let buffer = cl.buffer(bytes);
    for _ in 0..5 {
        let host = Host::new(Kind::Cold, bytes);
        for state in ["cold", "warm"] {
            let start = Instant::now();
            assert_eq!(cl.read(buffer, bytes, host.at(0)), 0);
            println!("time {state} {}", start.elapsed().as_nanos());
        }
    }
    cl.release(buffer);
    cl.close();
}
