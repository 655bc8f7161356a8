//! Calls that may be staged and calls that may not.

mod failures;
mod rows;
mod threads;
mod writes;

use std::ptr::null_mut;

use crate::cl::Cl;
use crate::host::{Host, Kind, hash};
use opencl_sys::{cl_event, cl_mem};

pub(crate) use failures::{failures, released_in_callback, reopened, shortage};
pub(crate) use rows::rows;
pub(crate) use threads::{gate, one_moment, small_stack};
pub(crate) use writes::writes;

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

fn content(cl: &Cl, buffer: cl_mem) -> u64 {
    let back = Host::new(Kind::Cold, BYTES);
    assert_eq!(cl.read(buffer, BYTES, back.at(0)), 0);
    hash(&back.content())
}

fn slot(with_event: bool, event: &mut cl_event) -> *mut cl_event {
    if with_event {
        std::ptr::from_mut(event)
    } else {
        null_mut()
    }
}

/// The handles of a scene that a second thread uses too.
struct Both<'a>(&'a Cl, cl_mem);

// SAFETY: OpenCL calls on queues and buffers may be made by any thread.
unsafe impl Sync for Both<'_> {}
