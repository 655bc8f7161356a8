//! Device memory, pinned memory and chunk copies by OpenCL calls.

#![expect(unsafe_code, reason = "calls of the OpenCL ABI")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::abi::{
    EVENT_STATUS, FALSE, FLOAT, Functions, Handle, IMAGE_2D, ImageDescription, ImageFormat,
    MAP_READ_WRITE, MEM_ALLOC_HOST_PTR, MEM_READ_WRITE, RGBA, SUCCESS, TRUE, UNORM_INT8,
};
use crate::engine::{Backend, Error, Pinned, Result};

/// A context, a device and an in-order queue of our own.
#[derive(Clone, Debug)]
pub struct Cl {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    functions: Functions,
    context: Handle,
    device: Handle,
    queue: Handle,
}

// SAFETY: OpenCL calls on contexts and queues may be made by any thread (specification, appendix A).
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the queue was made by `on_context` and is released once.
        let _code = unsafe { (self.functions.release_queue)(self.queue) };
        // SAFETY: the context was retained by `on_context` or made by `open`, and is released once.
        let _code = unsafe { (self.functions.release_context)(self.context) };
    }
}

impl Cl {
    /// Makes a context for a device of [`devices`](super::devices).
    ///
    /// # Errors
    ///
    /// - [`Error::Driver`].
    pub fn open(functions: &Functions, device: &super::Device) -> Result<Self> {
        let mut code = SUCCESS;
        // SAFETY: one device handle behind a live pointer; no properties, no callback.
        let context = unsafe {
            (functions.create_context)(
                std::ptr::null(),
                1,
                &raw const device.handle,
                None,
                std::ptr::null_mut(),
                &raw mut code,
            )
        };
        check("clCreateContext", code)?;
        // SAFETY: both handles are live and belong together.
        let made = unsafe { Self::on_context(functions, context, device.handle) };
        // SAFETY: gives up the reference of `clCreateContext`; `on_context` holds its own.
        let _code = unsafe { (functions.release_context)(context) };
        made
    }

    /// Makes a queue of our own in a program's context, which it keeps alive.
    ///
    /// # Errors
    ///
    /// - [`Error::Driver`].
    ///
    /// # Safety
    ///
    /// `context` is live and of the functions' driver, and `device` is one of its devices.
    pub unsafe fn on_context(
        functions: &Functions,
        context: Handle,
        device: Handle,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        check("clRetainContext", unsafe {
            (functions.retain_context)(context)
        })?;
        let mut code = SUCCESS;
        // SAFETY: the caller's promise; no properties: in order, without profiling.
        let queue = unsafe { (functions.create_queue)(context, device, 0, &raw mut code) };
        if code != SUCCESS {
            // SAFETY: gives back the reference taken above.
            let _code = unsafe { (functions.release_context)(context) };
            return Err(Error::Driver {
                call: "clCreateCommandQueue",
                code,
            });
        }
        Ok(Self {
            shared: Arc::new(Shared {
                functions: *functions,
                context,
                device,
                queue,
            }),
        })
    }

    /// Another queue of the same context and device.
    ///
    /// # Errors
    ///
    /// - [`Error::Driver`].
    pub fn another_queue(&self) -> Result<Self> {
        let shared = &self.shared;
        // SAFETY: context and device are live and belong together, as `self` holds them.
        unsafe { Self::on_context(&shared.functions, shared.context, shared.device) }
    }

    /// The functions it calls.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        &self.shared.functions
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> Handle {
        self.shared.queue
    }

    /// Allocates device memory.
    ///
    /// # Errors
    ///
    /// - [`Error::Driver`]; many drivers find out only at the first use.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer> {
        self.make_buffer(MEM_READ_WRITE, bytes)
    }

    fn make_buffer(&self, flags: u64, bytes: usize) -> Result<Buffer> {
        let mut code = SUCCESS;
        // SAFETY: the context is live; no host pointer.
        let handle = unsafe {
            (self.shared.functions.create_buffer)(
                self.shared.context,
                flags,
                bytes,
                std::ptr::null_mut(),
                &raw mut code,
            )
        };
        check("clCreateBuffer", code)?;
        Ok(Buffer {
            handle,
            bytes,
            owner: Some(Arc::clone(&self.shared)),
        })
    }

    /// Makes a two-dimensional image of four floats per pixel.
    ///
    /// # Errors
    ///
    /// - [`Error::Driver`].
    pub fn image(&self, width: usize, height: usize) -> Result<Image> {
        self.image_of(FLOAT, width, height)
    }

    /// Makes a two-dimensional image of four bytes per pixel.
    ///
    /// # Errors
    ///
    /// - [`Error::Driver`].
    pub fn byte_image(&self, width: usize, height: usize) -> Result<Image> {
        self.image_of(UNORM_INT8, width, height)
    }

    fn image_of(&self, channel: u32, width: usize, height: usize) -> Result<Image> {
        let format = ImageFormat {
            order: RGBA,
            channel,
        };
        let description = ImageDescription {
            kind: IMAGE_2D,
            width,
            height,
            depth: 0,
            array_size: 0,
            row_pitch: 0,
            slice_pitch: 0,
            mip_levels: 0,
            samples: 0,
            buffer: std::ptr::null_mut(),
        };
        let mut code = SUCCESS;
        // SAFETY: format and description are live structures of the ABI's layout; no host pointer.
        let handle = unsafe {
            (self.shared.functions.create_image)(
                self.shared.context,
                MEM_READ_WRITE,
                &raw const format,
                &raw const description,
                std::ptr::null_mut(),
                &raw mut code,
            )
        };
        check("clCreateImage", code)?;
        Ok(Image {
            handle,
            owner: Arc::clone(&self.shared),
        })
    }

    /// Makes our queue wait for `event` before anything that is enqueued later.
    pub(super) fn wait_behind(&self, event: &Event) -> Result<()> {
        // SAFETY: a live queue and a live event behind a live pointer.
        check("clEnqueueBarrierWithWaitList", unsafe {
            (self.shared.functions.barrier)(
                self.shared.queue,
                1,
                &raw const event.handle,
                std::ptr::null_mut(),
            )
        })
    }

    /// Takes over an event that a call has just made.
    pub(super) fn event(&self, handle: Handle) -> Event {
        Event {
            handle,
            owner: Arc::clone(&self.shared),
        }
    }

    /// Waits for all of our own queue.
    pub(super) fn finish(&self) -> Result<()> {
        // SAFETY: a live queue.
        check("clFinish", unsafe {
            (self.shared.functions.finish)(self.shared.queue)
        })
    }
}

/// Device memory.
#[derive(Debug)]
pub struct Buffer {
    handle: Handle,
    bytes: usize,
    owner: Option<Arc<Shared>>,
}

// SAFETY: calls on memory objects may be made by any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A program's buffer, which stays the program's.
    ///
    /// # Safety
    ///
    /// `handle` is a buffer of at least `bytes` of the engine's context, and live as long as the value.
    #[must_use]
    pub const unsafe fn borrowed(handle: Handle, bytes: usize) -> Self {
        Self {
            handle,
            bytes,
            owner: None,
        }
    }

    /// Its handle.
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn holds(&self, offset: usize, len: usize) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::OutOfBounds {
                offset,
                bytes: len,
                capacity: self.bytes,
            }),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            // SAFETY: made by `make_buffer`, released once.
            let _code = unsafe { (owner.functions.release_memory)(self.handle) };
        }
    }
}

/// An image.
#[derive(Debug)]
pub struct Image {
    handle: Handle,
    owner: Arc<Shared>,
}

// SAFETY: calls on memory objects may be made by any thread.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// Its handle.
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: made by `Cl::image`, released once.
        let _code = unsafe { (self.owner.functions.release_memory)(self.handle) };
    }
}

/// An event that is released when dropped.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) handle: Handle,
    owner: Arc<Shared>,
}

// SAFETY: calls on events may be made by any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Waits as [`Self::wait`], but asleep: drivers spin in `clWaitForEvents`, and several workers wait
    /// here most of the time. Measured on the machine of `bench/record/h200`: 2.9 ms of processor time
    /// for a copy of 2.9 ms become 0.2.
    fn wait_asleep(&self) -> Result<()> {
        let mut pause = PAUSE_MIN;
        while self.is_under_way() {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        // Only a wait makes the device's writes visible, and tells an error.
        self.wait()
    }

    /// Whether the command is known to be neither done nor failed.
    fn is_under_way(&self) -> bool {
        let mut status = 0_i32;
        // SAFETY: a live event; the answer has the size of `status`, which is live.
        let code = unsafe {
            (self.owner.functions.event_info)(
                self.handle,
                EVENT_STATUS,
                size_of::<i32>(),
                (&raw mut status).cast(),
                std::ptr::null_mut(),
            )
        };
        code == SUCCESS && status > 0
    }

    pub(super) fn wait(&self) -> Result<()> {
        // SAFETY: a live event behind a live pointer.
        check("clWaitForEvents", unsafe {
            (self.owner.functions.wait_for_events)(1, &raw const self.handle)
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by an enqueue, released once.
        let _code = unsafe { (self.owner.functions.release_event)(self.handle) };
    }
}

/// Pinned memory: a buffer that the driver allocated on the host, mapped for its whole life.
#[derive(Debug)]
pub struct Slot {
    memory: Buffer,
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<Shared>,
}

// SAFETY: the mapping is this value's alone; it goes through `&self` and `&mut self`.
unsafe impl Send for Slot {}
// SAFETY: `&self` only reads the mapping; everything else takes the slot by value or by `&mut`.
unsafe impl Sync for Slot {}

impl Pinned for Slot {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `bytes` are mapped from `start` until dropped; no copy is under way, since a copy takes
        // the slot by value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: the pointer is that of the mapping made in `pin`, unmapped once.
        let _code = unsafe {
            (self.owner.functions.unmap)(
                self.owner.queue,
                self.memory.handle,
                self.start.as_ptr().cast(),
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
            )
        };
    }
}

/// A slot with a copy under way.
#[derive(Debug)]
pub struct Flight {
    slot: Option<Slot>,
    event: Event,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else {
            return;
        };
        let is_over = match self.event.wait() {
            // The command ended with an error of its own.
            Ok(())
            | Err(Error::Driver {
                code: EVENT_FAILED, ..
            }) => true,
            Err(_unknown) => false,
        };
        if !is_over {
            // The device may still write to it: leaked rather than freed under its hands.
            let _leaked = std::mem::ManuallyDrop::new(slot);
        }
    }
}

impl Backend for Cl {
    type Memory = Buffer;
    type Slot = Slot;
    type Flight = Flight;

    fn pin(&self, bytes: usize) -> Result<Slot> {
        let none = |_refused| Error::NoPinnedMemory { bytes };
        let memory = self
            .make_buffer(MEM_READ_WRITE | MEM_ALLOC_HOST_PTR, bytes)
            .map_err(none)?;
        let mut code = SUCCESS;
        // SAFETY: live queue and buffer, the whole of it; blocking, so the pointer is usable at once.
        let start = unsafe {
            (self.shared.functions.map_buffer)(
                self.shared.queue,
                memory.handle,
                TRUE,
                MAP_READ_WRITE,
                0,
                bytes,
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
                &raw mut code,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if code == SUCCESS => Ok(Slot {
                memory,
                start,
                bytes,
                owner: Arc::clone(&self.shared),
            }),
            _ => Err(Error::NoPinnedMemory { bytes }),
        }
    }

    fn start_read(&self, from: &Buffer, at: usize, len: usize, slot: Slot) -> Result<Flight> {
        from.holds(at, len)?;
        let len = len.min(slot.bytes);
        let to: *mut c_void = slot.start.as_ptr().cast();
        let mut event = std::ptr::null_mut();
        // SAFETY: live queue and buffer; `len` bytes are within the slot, which stays with the flight
        // until the event is done.
        check("clEnqueueReadBuffer", unsafe {
            (self.shared.functions.read_buffer)(
                self.shared.queue,
                from.handle,
                FALSE,
                at,
                len,
                to,
                0,
                std::ptr::null(),
                &raw mut event,
            )
        })?;
        Ok(Flight {
            slot: Some(slot),
            event: self.event(event),
        })
    }

    fn start_write(&self, to: &Buffer, at: usize, len: usize, slot: Slot) -> Result<Flight> {
        to.holds(at, len)?;
        let len = len.min(slot.bytes);
        let from: *const c_void = slot.start.as_ptr().cast_const().cast();
        let mut event = std::ptr::null_mut();
        // SAFETY: as in `start_read`, the other way.
        check("clEnqueueWriteBuffer", unsafe {
            (self.shared.functions.write_buffer)(
                self.shared.queue,
                to.handle,
                FALSE,
                at,
                len,
                from,
                0,
                std::ptr::null(),
                &raw mut event,
            )
        })?;
        Ok(Flight {
            slot: Some(slot),
            event: self.event(event),
        })
    }

    fn flush(&self) -> Result<()> {
        // SAFETY: a live queue.
        check("clFlush", unsafe {
            (self.shared.functions.flush)(self.shared.queue)
        })
    }

    fn is_over(&self, flight: &Flight) -> bool {
        !flight.event.is_under_way()
    }

    fn wait(&self, mut flight: Flight) -> Result<Slot> {
        flight.event.wait_asleep()?;
        flight.slot.take().ok_or(Error::NoPinnedMemory { bytes: 0 })
    }
}

/// First sleep; the system adds some 50 microseconds of its own.
const PAUSE_MIN: Duration = Duration::from_micros(10);
/// Longest sleep, behind work of the program's that takes long: what a copy may be late at most.
const PAUSE_MAX: Duration = Duration::from_micros(100);
/// `CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST`: what a wait for a failed command answers.
const EVENT_FAILED: i32 = -14;

pub(super) const fn check(call: &'static str, code: i32) -> Result<()> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(Error::Driver { call, code })
    }
}
