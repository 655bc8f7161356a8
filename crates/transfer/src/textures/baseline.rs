//! The temporary copy, as virglrenderer does it: what the other ways are measured against.
//!
//! A buffer is allocated for the box, filled row by row (each row looked for from the first piece on),
//! handed to the device, and freed.

use towpath_memory::volatile::VolatileBytes;

use super::backend::{Backend, Copied, Source};
use super::backing::Backing;
use super::error::Result;
use super::gather::Stores;
use super::plan::{Plan, Request};
use super::shape::Texture;

/// Uploads by a temporary copy.
///
/// # Cost
///
/// An allocation, two reads and two writes per byte, O(rows x pieces) steps.
///
/// # Errors
///
/// As [`Transfers::transfer`](super::Transfers::transfer).
pub fn upload<B: Backend>(
    backend: &mut B,
    texture: &Texture,
    image: &mut B::Image,
    backing: &Backing,
    request: &Request,
) -> Result<Copied> {
    let plan = Plan::new(texture, request, backing.len())?;
    let lines = plan.guest.packed();
    let mut temporary: Vec<u8> = Vec::with_capacity(usize::try_from(plan.payload()).unwrap_or(0));
    for layer in 0..plan.guest.layers {
        for row in 0..plan.guest.rows {
            append(
                backing,
                plan.guest.row(layer, row),
                plan.guest.row_bytes,
                &mut temporary,
            );
        }
    }
    let source = Source::Linear {
        bytes: VolatileBytes::of(&mut temporary),
        lines,
    };
    let mut copied = backend.transfer(image, &plan, source, Stores::Cached)?;
    copied.by_cpu += plan.payload();
    Ok(copied)
}

/// One row, looked for from the first piece on.
fn append(backing: &Backing, offset: u64, len: u64, target: &mut Vec<u8>) {
    let (mut start, mut at, end) = (0_u64, offset, offset + len);
    for run in backing.runs() {
        let stop = start + run.len() as u64;
        if at < stop && at < end {
            let count = stop.min(end) - at;
            backing
                .cursor()
                .visit(at, count, |part| part.bytes.append_to(target));
            at += count;
        }
        if at >= end {
            return;
        }
        start = stop;
    }
}
