//! Staged copies in place of the driver's own, where the policy chose them and the call may be staged.
//!
//! # When a call may be staged
//!
//! Every row must hold, else the call is forwarded. Each has a test in `tests/end_to_end/staging.rs`.
//!
//! | row | reason |
//! |---|---|
//! | the call blocks | nothing of ours may run after it returned |
//! | not inside an event callback | no calls of ours there |
//! | the queue is in order | only there does the place of one command say what comes before and after it |
//! | the queue keeps no times | the event of a staged call would tell the last row's times |
//! | the memory object is a plain buffer or 2D or 3D image | sub-buffers and images of other objects share memory |
//! | it has no host memory (`USE_HOST_PTR`, `ALLOC_HOST_PTR`) | the driver's copy is a plain one, and pointers may alias |
//! | the host may read (write) it (`HOST_NO_ACCESS` and others) | the driver must refuse the call |
//! | the host range is anonymous, writable (readable) memory | threads of ours would fault where the driver returns an error |
//! | it is not mapped from OpenCL | it is the driver's |
//! | the process is the one that made the staging | a forked child has no queue |
//! | there is a place for another queue's staging | pinned memory is bounded |
//!
//! Whatever the driver refuses on the way (no pinned or device memory, an error in the wait list, a
//! lost device) ends in forwarding the program's call, whose answer is then the driver's own.
#![expect(
    unsafe_code,
    reason = "hands the program's handles and memory to the engine"
)]

mod entries;
mod functions;
mod may;

use std::sync::Arc;

use opencl_sys::{CL_SUCCESS, cl_event, cl_int};
use towpath_measure::Nanos;
use towpath_transfer::engine::{Bring, Shape};
use towpath_transfer::opencl::{HostRows, Region, Transfer as Arguments};
use towpath_transfer::readback::{Footprint, ImageShape};

use self::entries::Entry;
use crate::observe::{Events, Transfer};

pub(crate) use self::entries::{release, release_all, shape};
pub(crate) use self::may::forget;

/// What a staged call ended with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// The answer to the program.
    pub(crate) answer: cl_int,
    /// Time from the arrival of the first chunk on: without what the device was busy with before.
    pub(crate) copying: Nanos,
}

/// Reads through pinned memory. `None`: nothing was done, forward the call.
pub(crate) fn read(
    transfer: &Transfer,
    footprint: &Footprint,
    cold_bytes: Option<u64>,
    shape: Shape,
) -> Option<Done> {
    let call = transfer.call?;
    let events = &transfer.events;
    let entry = allowed(transfer, &call, footprint)?;
    let bring = if cold_bytes == Some(0) {
        Bring::Nothing
    } else {
        Bring::HugePages
    };
    let waits = wait_list(events)?;
    let wants_event = !events.event.is_null();
    // SAFETY: handles of the program's own call, which the driver checks at the first command; the
    // host range is writable memory (`may`), the program's to leave alone until its call returns.
    let staged = unsafe {
        entry
            .staging()
            .read_with(shape, events.queue, &call, bring, waits, wants_event)
    }
    .ok()?;
    let copying = staged.moved().copying;
    let done = |answer| Some(Done { answer, copying });
    let Some(rest) = staged.rest() else {
        return done(CL_SUCCESS);
    };
    let functions = entry.functions();
    // SAFETY: the program's own call, for its last row.
    let answer = unsafe { rest.forward_read(functions, events.queue, true, waits, events.event) };
    if answer != CL_SUCCESS {
        return done(answer);
    }
    // SAFETY: as for the read.
    let finished = unsafe { staged.finish() };
    if finished.is_err() {
        // All rows of one moment, by one command, without a second event.
        let none = std::ptr::null_mut();
        // SAFETY: the program's own call.
        let answer = unsafe { call.forward_read(functions, events.queue, true, &[], none) };
        return done(answer);
    }
    done(answer)
}

/// Writes through pinned memory. `None`: nothing was done, forward the call.
pub(crate) fn write(transfer: &Transfer, footprint: &Footprint, shape: Shape) -> Option<Done> {
    let call = transfer.call?;
    let events = &transfer.events;
    let entry = allowed(transfer, &call, footprint)?;
    let waits = wait_list(events)?;
    let token = if events.event.is_null() {
        None
    } else {
        Some(token(&entry, &call)?)
    };
    // SAFETY: handles of the program's own call, which the driver checks at the copy into place; the
    // host range is readable memory (`may`), the program's to leave alone until its call returns.
    let written = unsafe {
        entry
            .staging()
            .write_with(shape, events.queue, &call, waits)
    };
    let copying = written.ok()?.copying;
    let Some(token) = token else {
        return Some(Done {
            answer: CL_SUCCESS,
            copying,
        });
    };
    let functions = entry.functions();
    // SAFETY: a buffer or image of our own and bytes that live for ever; behind the copy in the queue,
    // so that its event ends after the copy and is of the program's kind of command.
    let answer = unsafe { token.forward_write(functions, events.queue, true, &[], events.event) };
    Some(Done { answer, copying })
}

/// The staging of the queue, if the call may be staged.
fn allowed(transfer: &Transfer, call: &Arguments, footprint: &Footprint) -> Option<Arc<Entry>> {
    may::check(transfer, call, footprint)
        .then(|| entries::of(transfer.events.queue))
        .flatten()
}

/// A call of the same kind that writes four bytes to an object of ours. It gives the program its event.
fn token(entry: &Entry, call: &Arguments) -> Option<Arguments> {
    static BYTES: [u8; 16] = [0; 16];
    let host = BYTES.as_ptr().expose_provenance();
    let (region, rows) = match call.region {
        Region::Buffer { .. } => {
            let memory = entry.token_buffer()?;
            (Region::Buffer { memory, offset: 0 }, HostRows::Bytes(4))
        }
        Region::Rect { .. } => {
            let region = Region::Rect {
                memory: entry.token_buffer()?,
                origin: [0; 3],
                region: [4, 1, 1],
                row_pitch: 0,
                slice_pitch: 0,
            };
            let rows = HostRows::Rect {
                origin: [0; 3],
                row_pitch: 0,
                slice_pitch: 0,
            };
            (region, rows)
        }
        Region::Image { .. } => {
            let region = Region::Image {
                memory: entry.token_image()?,
                origin: [0; 3],
                region: [1, 1, 1],
            };
            let rows = HostRows::Image {
                shape: ImageShape::D2,
                element_bytes: BYTES.len(),
                row_pitch: 0,
                slice_pitch: 0,
            };
            (region, rows)
        }
        _ => return None,
    };
    Some(Arguments { region, host, rows })
}

/// The program's wait list; `None` if its number and its pointer contradict each other.
fn wait_list(events: &Events) -> Option<&[cl_event]> {
    if (events.waits == 0) != events.wait_list.is_null() {
        return None;
    }
    if events.waits == 0 {
        return Some(&[]);
    }
    // SAFETY: OpenCL demands so many events there until the call returns.
    Some(unsafe { std::slice::from_raw_parts(events.wait_list, events.waits as usize) })
}
