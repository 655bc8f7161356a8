//! Whole reads and writes of a program, staged, and atomic to whatever else is in its queue.
//!
//! A read: one copy command in the program's queue, with the program's wait list, snapshots the
//! region into device memory of our own; chunks then leave that snapshot over our own queue, behind
//! the copy's event. A write: chunks fill device memory of our own; then one copy command in the
//! program's queue puts them in place. Either way the program's queue sees one command.
//!
//! A program that asks for an event gets the driver's own: [`Staged::rest`] is the program's call for
//! its last row, to be forwarded with the event. Another thread's command may have come between, so
//! [`Staged::finish`] then takes the last row from the snapshot as well.

#![expect(unsafe_code, reason = "calls of the OpenCL ABI")]

use std::sync::Mutex;

use super::abi::{Functions, Handle};
use super::backend::{Buffer, Cl, Event, check};
use super::call::{Region, Transfer};
use crate::engine::{Bring, Destination, Engine, Error, Moved, Result, Shape, Source};
use crate::readback::Footprint;

/// Staged reads and writes on one context and device.
#[derive(Debug)]
pub struct Staging {
    engine: Engine<Cl>,
    scratch: Mutex<Vec<Scratch>>,
    scratch_bytes_max: usize,
}

/// Device memory of our own.
#[derive(Debug)]
struct Scratch {
    buffer: Buffer,
    /// The last command that uses it, if it may still run.
    busy: Option<Event>,
}

impl Staging {
    /// Staging on `cl`, keeping at most `scratch_bytes_max` of device memory between calls.
    #[must_use]
    pub const fn new(cl: Cl, shape: Shape, scratch_bytes_max: usize) -> Self {
        Self {
            engine: Engine::new(cl, shape),
            scratch: Mutex::new(Vec::new()),
            scratch_bytes_max,
        }
    }

    /// The engine, for copies between our own buffers.
    #[must_use]
    pub const fn engine(&self) -> &Engine<Cl> {
        &self.engine
    }

    /// Gives pinned and device memory back that is not in use. Waits for our own queue.
    pub fn trim(&self) {
        self.engine.trim();
        if let Ok(mut scratch) = self.scratch.lock() {
            scratch.clear();
        }
        let _code = self.engine.backend().finish();
    }

    /// Reads all rows of a call into host memory.
    ///
    /// With `wants_event`, the last row is left out: forward [`Staged::rest`] with the program's event,
    /// then call [`Staged::finish`]. Without, the call is done and must not be forwarded.
    ///
    /// # Errors
    ///
    /// Whatever the driver refused. Nothing is under way then; forward the program's call as it is.
    ///
    /// # Safety
    ///
    /// `queue`, the region's memory and the events of `wait_list` are live and of this context. Host
    /// memory is writable for the call's footprint and used by nobody else until this returns.
    pub unsafe fn read(
        &self,
        queue: Handle,
        call: &Transfer,
        bring: Bring,
        wait_list: &[Handle],
        wants_event: bool,
    ) -> Result<Staged<'_>> {
        let shape = self.engine.shape();
        // SAFETY: the caller's promise.
        unsafe { self.read_with(shape, queue, call, bring, wait_list, wants_event) }
    }

    /// As [`Self::read`], by another shape; pinned memory stays within that of the engine's.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    ///
    /// # Safety
    ///
    /// As [`Self::read`].
    pub unsafe fn read_with(
        &self,
        shape: Shape,
        queue: Handle,
        call: &Transfer,
        bring: Bring,
        wait_list: &[Handle],
        wants_event: bool,
    ) -> Result<Staged<'_>> {
        let footprint = call.footprint().map_err(|_unclear| UNCLEAR)?;
        let bytes = footprint.bytes();
        let rest = if wants_event {
            Some(call.last_row().ok_or(UNCLEAR)?)
        } else {
            None
        };
        // SAFETY: the caller's promise.
        let to = unsafe { Destination::new(footprint, bring) };
        let first = bytes - rest.map_or(0, |(_, bytes)| bytes);
        let scratch = self.take_scratch(bytes)?;
        // SAFETY: the caller's promise; the scratch holds `bytes`.
        let copied = unsafe {
            self.copy(
                queue,
                &call.region,
                &scratch.buffer,
                bytes,
                wait_list,
                false,
            )
        }?;
        let cl = self.engine.backend();
        cl.wait_behind(&copied)?;
        // SAFETY: the caller's promise.
        check("clFlush", unsafe { (cl.functions().flush)(queue) })?;
        let moved = self
            .engine
            .read_with(shape, &scratch.buffer, 0, &to.first(first));
        // A command behind one that failed may run all the same, on whatever was in the scratch.
        match moved.and_then(|moved| copied.wait().map(|()| moved)) {
            Ok(moved) => Ok(Staged {
                staging: self,
                scratch: Some(scratch),
                moved,
                rest: rest.map(|(call, _)| call),
                last: Footprint::buffer(
                    footprint.envelope().end() - (bytes - first),
                    bytes - first,
                )
                .ok(),
                first,
            }),
            Err(error) => {
                self.give_scratch(scratch, Some(copied));
                Err(error)
            }
        }
    }

    /// Writes all rows of a call from host memory, for a program that asks for no event.
    ///
    /// Returns when the program may change its memory; the copy into place is in the program's queue,
    /// flushed.
    ///
    /// # Errors
    ///
    /// As [`Self::read`]; nothing was changed on the device that the program can see.
    ///
    /// # Safety
    ///
    /// As [`Self::read`], with host memory readable and unchanged until this returns.
    pub unsafe fn write(
        &self,
        queue: Handle,
        call: &Transfer,
        wait_list: &[Handle],
    ) -> Result<Moved> {
        let shape = self.engine.shape();
        // SAFETY: the caller's promise.
        unsafe { self.write_with(shape, queue, call, wait_list) }
    }

    /// As [`Self::write`], by another shape; pinned memory stays within that of the engine's.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    ///
    /// # Safety
    ///
    /// As [`Self::write`].
    pub unsafe fn write_with(
        &self,
        shape: Shape,
        queue: Handle,
        call: &Transfer,
        wait_list: &[Handle],
    ) -> Result<Moved> {
        let footprint = call.footprint().map_err(|_unclear| UNCLEAR)?;
        // SAFETY: the caller's promise.
        let from = unsafe { Source::new(footprint) };
        let scratch = self.take_scratch(footprint.bytes())?;
        let moved = match self.engine.write_with(shape, &from, &scratch.buffer, 0) {
            Ok(moved) => moved,
            Err(error) => {
                self.give_scratch(scratch, None);
                return Err(error);
            }
        };
        let bytes = footprint.bytes();
        // SAFETY: the caller's promise; the scratch holds `bytes`.
        let copied =
            unsafe { self.copy(queue, &call.region, &scratch.buffer, bytes, wait_list, true) };
        let (event, answer) = match copied {
            Ok(event) => (Some(event), Ok(moved)),
            Err(error) => (None, Err(error)),
        };
        if event.is_some() {
            // SAFETY: the caller's promise.
            let _code = unsafe { (self.engine.backend().functions().flush)(queue) };
        }
        self.give_scratch(scratch, event);
        answer
    }

    /// The one command in the program's queue: region to scratch, or scratch to region.
    unsafe fn copy(
        &self,
        queue: Handle,
        region: &Region,
        scratch: &Buffer,
        bytes: usize,
        wait_list: &[Handle],
        is_write: bool,
    ) -> Result<Event> {
        let cl = self.engine.backend();
        let calls = cl.functions();
        let mut event = std::ptr::null_mut();
        let command = Command {
            queue,
            scratch: scratch.handle(),
            is_write,
            count: u32::try_from(wait_list.len()).unwrap_or(u32::MAX),
            events: if wait_list.is_empty() {
                std::ptr::null()
            } else {
                wait_list.as_ptr()
            },
            event: &raw mut event,
        };
        match region {
            Region::Buffer { memory, offset } => {
                // SAFETY: the caller's promise; `bytes` fit the scratch.
                unsafe { command.bytes(calls, *memory, *offset, bytes) }?;
            }
            Region::Rect { .. } => {
                // SAFETY: the caller's promise; packed, the region fits the scratch.
                unsafe { command.rect(calls, region) }?;
            }
            Region::Image {
                memory,
                origin,
                region,
            } => {
                // SAFETY: the caller's promise; packed, the region fits the scratch.
                unsafe { command.image(calls, *memory, origin, region) }?;
            }
        }
        Ok(cl.event(event))
    }

    /// Device memory of at least `bytes`; our queue will not touch it before its last use is over.
    fn take_scratch(&self, bytes: usize) -> Result<Scratch> {
        let found = self.scratch.lock().ok().and_then(|mut scratch| {
            let fitting = scratch.iter().position(|one| one.buffer.bytes() >= bytes)?;
            Some(scratch.swap_remove(fitting))
        });
        let Some(mut scratch) = found else {
            return Ok(Scratch {
                buffer: self.engine.backend().buffer(bytes)?,
                busy: None,
            });
        };
        if let Some(event) = scratch.busy.take() {
            // The program's queue may be another one than last time, so both of ours must wait: what we
            // enqueue by the barrier, what goes to the program's queue by this wait.
            event.wait()?;
        }
        Ok(scratch)
    }

    fn give_scratch(&self, mut scratch: Scratch, busy: Option<Event>) {
        scratch.busy = busy;
        let Ok(mut kept) = self.scratch.lock() else {
            return;
        };
        kept.push(scratch);
        let mut sum: usize = kept.iter().map(|one| one.buffer.bytes()).sum();
        while sum > self.scratch_bytes_max && !kept.is_empty() {
            sum -= kept.remove(0).buffer.bytes();
        }
    }
}

/// A read that has been staged.
#[derive(Debug)]
pub struct Staged<'a> {
    staging: &'a Staging,
    scratch: Option<Scratch>,
    moved: Moved,
    rest: Option<Transfer>,
    last: Option<Footprint>,
    first: usize,
}

impl Staged<'_> {
    /// What was moved.
    #[must_use]
    pub const fn moved(&self) -> Moved {
        self.moved
    }

    /// The call to forward with the program's event; `None` if nothing is to be forwarded.
    #[must_use]
    pub const fn rest(&self) -> Option<&Transfer> {
        self.rest.as_ref()
    }

    /// After the rest was forwarded and is done: takes the last row from the snapshot too, so that all
    /// rows are of one moment.
    ///
    /// # Errors
    ///
    /// The driver's refusal; the last row is then the one that was forwarded.
    ///
    /// # Safety
    ///
    /// Host memory is as promised to [`Staging::read`].
    pub unsafe fn finish(mut self) -> Result<()> {
        let (Some(last), Some(scratch), Some(_rest)) = (self.last, &self.scratch, &self.rest)
        else {
            return Ok(());
        };
        // SAFETY: the caller's promise.
        let to = unsafe { Destination::new(last, Bring::Nothing) };
        let answer = self.staging.engine.read(&scratch.buffer, self.first, &to);
        self.rest = None;
        answer.map(|_moved| ())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            // Every read of it has ended, and with them the copy they waited for.
            self.staging.give_scratch(scratch, None);
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Unmaps of pinned slots are in our queue: they must be over before it goes.
        self.trim();
    }
}

/// One copy command in the program's queue.
struct Command {
    queue: Handle,
    scratch: Handle,
    is_write: bool,
    count: u32,
    events: *const Handle,
    event: *mut Handle,
}

impl Command {
    unsafe fn bytes(
        &self,
        calls: &Functions,
        memory: Handle,
        offset: usize,
        bytes: usize,
    ) -> Result<()> {
        let (a, b, from, to) = if self.is_write {
            (self.scratch, memory, 0, offset)
        } else {
            (memory, self.scratch, offset, 0)
        };
        // SAFETY: the promise of `Staging::read` and `write`.
        check("clEnqueueCopyBuffer", unsafe {
            (calls.copy_buffer)(
                self.queue,
                a,
                b,
                from,
                to,
                bytes,
                self.count,
                self.events,
                self.event,
            )
        })
    }

    unsafe fn rect(&self, calls: &Functions, rect: &Region) -> Result<()> {
        let Region::Rect {
            memory,
            origin,
            region,
            row_pitch,
            slice_pitch,
        } = rect
        else {
            return Ok(());
        };
        let zero = [0_usize; 3];
        let theirs = (*memory, origin.as_ptr(), *row_pitch, *slice_pitch);
        let ours = (self.scratch, zero.as_ptr(), 0, 0);
        let (a, b) = if self.is_write {
            (ours, theirs)
        } else {
            (theirs, ours)
        };
        // SAFETY: the promise of `Staging::read` and `write`; the arrays live over the call.
        check("clEnqueueCopyBufferRect", unsafe {
            (calls.copy_buffer_rect)(
                self.queue,
                a.0,
                b.0,
                a.1,
                b.1,
                region.as_ptr(),
                a.2,
                a.3,
                b.2,
                b.3,
                self.count,
                self.events,
                self.event,
            )
        })
    }

    unsafe fn image(
        &self,
        calls: &Functions,
        memory: Handle,
        origin: &[usize; 3],
        region: &[usize; 3],
    ) -> Result<()> {
        let (at, size, ours) = (origin.as_ptr(), region.as_ptr(), self.scratch);
        if self.is_write {
            // SAFETY: the promise of `Staging::write`; the arrays live over the call.
            return check("clEnqueueCopyBufferToImage", unsafe {
                (calls.copy_buffer_to_image)(
                    self.queue,
                    ours,
                    memory,
                    0,
                    at,
                    size,
                    self.count,
                    self.events,
                    self.event,
                )
            });
        }
        // SAFETY: the promise of `Staging::read`; the arrays live over the call.
        check("clEnqueueCopyImageToBuffer", unsafe {
            (calls.copy_image_to_buffer)(
                self.queue,
                memory,
                ours,
                at,
                size,
                0,
                self.count,
                self.events,
                self.event,
            )
        })
    }
}

/// What a call without a clear footprint is answered with: it is to be forwarded.
const UNCLEAR: Error = Error::OutOfBounds {
    offset: 0,
    bytes: 0,
    capacity: 0,
};
