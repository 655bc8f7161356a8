//! Reads and writes in place of `clEnqueueRead*` and `clEnqueueWrite*`.

use std::ffi::c_void;
use std::time::Instant;

use towpath_memory::residency::cold_bytes;
use towpath_settings::Fixes;
use towpath_transfer::engine::Bring;
use towpath_transfer::opencl::{HostRows, Region, SUCCESS, Transfer};
use towpath_transfer::policy::{Direction, Mechanism, Warmth};
use towpath_transfer::readback::{Context, Footprint, prepare, wrote};

use super::{Transfers, tp_transfer};
use crate::boundary::{Answer, borrow, guard, nanoseconds, one, put_if_wanted};
use crate::status::{tp_status, tp_status as Status};

/// How a transfer was done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub enum tp_mechanism {
    /// The driver's own call alone.
    TP_FORWARDED = 0,
    /// The destination's pages brought in where the rules say so, then the driver's own call.
    TP_PREFAULTED = 1,
    /// By pinned chunks and threads of ours.
    TP_STAGED = 2,
    /// From pieces by pinned chunks, without a buffer for the whole.
    TP_GATHERED = 3,
}

/// One transfer, for a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct tp_transfer_report {
    /// How it was done.
    pub mechanism: tp_mechanism,
    /// The driver's code (CL_SUCCESS is 0).
    pub driver_code: i32,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes of the host memory whose pages were absent; 0 where nobody looked.
    pub cold_bytes: u64,
    /// Time of the whole call, in nanoseconds.
    pub taken_ns: u64,
}

/// A box of pixels of an image, and how its rows lie in host memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct tp_image_box {
    /// First pixel: column, row, slice (or image of an array).
    pub origin: [usize; 3],
    /// Pixels, rows, slices; each at least 1.
    pub size: [usize; 3],
    /// Bytes from row to row in host memory; 0: packed.
    pub row_pitch: usize,
    /// Bytes from slice to slice in host memory; 0: packed.
    pub slice_pitch: usize,
}

/// Reads `bytes` bytes of a buffer from `offset` into host memory, and returns when they are there: a blocking
/// `clEnqueueReadBuffer`, done by the way that was measured to be the fastest.
///
/// `queue` is the program's cl_command_queue of the handle's context; the read has its place among the queue's
/// commands. `report` may be NULL. TP_ERROR_INVALID: the bytes are not within the buffer, or the queue is of another
/// context; nothing was read. TP_ERROR_DRIVER: the driver refused its own call; its code is in the report.
///
/// # Safety
///
/// `transfer` is null or a live handle; `queue` and `buffer` are null or live; `to` is null or valid for writes of
/// `bytes` bytes that nobody else uses meanwhile; `report` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_read_buffer(
    transfer: *const tp_transfer,
    queue: *mut c_void,
    buffer: *mut c_void,
    offset: usize,
    to: *mut c_void,
    bytes: usize,
    report: *mut tp_transfer_report,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        let call = transfers.buffer_call(queue, (buffer, offset), to, bytes)?;
        // SAFETY: the caller's promise, and the checks of `buffer_call`.
        unsafe { transfers.run(queue, &call, Direction::Read, report) }
    })
}

/// Writes `bytes` bytes of host memory to a buffer from `offset` on, and returns when the program may change its
/// memory: a blocking `clEnqueueWriteBuffer`. As `tp_transfer_read_buffer`.
///
/// # Safety
///
/// As `tp_transfer_read_buffer`, with `from` valid for reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_write_buffer(
    transfer: *const tp_transfer,
    queue: *mut c_void,
    buffer: *mut c_void,
    offset: usize,
    from: *const c_void,
    bytes: usize,
    report: *mut tp_transfer_report,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        let call = transfers.buffer_call(queue, (buffer, offset), from, bytes)?;
        // SAFETY: the caller's promise, and the checks of `buffer_call`.
        unsafe { transfers.run(queue, &call, Direction::Write, report) }
    })
}

/// Reads a box of an image into `to_bytes` bytes of host memory: a blocking `clEnqueueReadImage`. As
/// `tp_transfer_read_buffer`; TP_ERROR_INVALID also if the box is not within the image, or its rows do not fit
/// `to_bytes`. Bytes between rows stay as they are.
///
/// # Safety
///
/// As `tp_transfer_read_buffer`; `part` is null or valid for a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_read_image(
    transfer: *const tp_transfer,
    queue: *mut c_void,
    image: *mut c_void,
    part: *const tp_image_box,
    to: *mut c_void,
    to_bytes: usize,
    report: *mut tp_transfer_report,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        // SAFETY: one value, by the caller's promise.
        let part = unsafe { one(part) }?;
        let call = transfers.image_call(queue, image, &part, to, to_bytes)?;
        // SAFETY: the caller's promise, and the checks of `image_call`.
        unsafe { transfers.run(queue, &call, Direction::Read, report) }
    })
}

/// Writes rows of host memory to a box of an image: a blocking `clEnqueueWriteImage`. As `tp_transfer_read_image`.
///
/// # Safety
///
/// As `tp_transfer_read_image`, with `from` valid for reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_write_image(
    transfer: *const tp_transfer,
    queue: *mut c_void,
    image: *mut c_void,
    part: *const tp_image_box,
    from: *const c_void,
    from_bytes: usize,
    report: *mut tp_transfer_report,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        // SAFETY: one value, by the caller's promise.
        let part = unsafe { one(part) }?;
        let call = transfers.image_call(queue, image, &part, from, from_bytes)?;
        // SAFETY: the caller's promise, and the checks of `image_call`.
        unsafe { transfers.run(queue, &call, Direction::Write, report) }
    })
}

impl Transfers {
    /// A call on a buffer whose every byte is inside.
    fn buffer_call(
        &self,
        queue: *mut c_void,
        (buffer, offset): (*mut c_void, usize),
        host: *const c_void,
        bytes: usize,
    ) -> Answer<Transfer> {
        self.check_buffer(queue, buffer, offset, bytes)?;
        if host.is_null() {
            return Err(Status::TP_ERROR_NULL);
        }
        Ok(Transfer {
            region: Region::Buffer {
                memory: buffer,
                offset,
            },
            host: host.expose_provenance(),
            rows: HostRows::Bytes(bytes),
        })
    }

    /// Whether `bytes` from `offset` are in a buffer, and the queue of our context.
    pub(super) fn check_buffer(
        &self,
        queue: *mut c_void,
        buffer: *mut c_void,
        offset: usize,
        bytes: usize,
    ) -> Answer {
        if queue.is_null() || buffer.is_null() {
            return Err(Status::TP_ERROR_NULL);
        }
        self.driver.is_of(queue, self.context)?;
        let has = self.driver.buffer_bytes(buffer)?;
        match offset.checked_add(bytes) {
            // As in OpenCL, nothing is no size.
            Some(end) if end <= has && bytes > 0 => Ok(()),
            _ => Err(Status::TP_ERROR_INVALID),
        }
    }

    /// A call on an image whose every pixel is inside, and every host byte within `host_bytes`.
    fn image_call(
        &self,
        queue: *mut c_void,
        image: *mut c_void,
        part: &tp_image_box,
        host: *const c_void,
        host_bytes: usize,
    ) -> Answer<Transfer> {
        let (shape, element_bytes) = self.check_image(queue, image, part)?;
        if host.is_null() {
            return Err(Status::TP_ERROR_NULL);
        }
        let call = Transfer {
            region: Region::Image {
                memory: image,
                origin: part.origin,
                region: part.size,
            },
            host: host.expose_provenance(),
            rows: HostRows::Image {
                shape,
                element_bytes,
                row_pitch: part.row_pitch,
                slice_pitch: part.slice_pitch,
            },
        };
        let footprint = call
            .footprint()
            .map_err(|_unclear| Status::TP_ERROR_INVALID)?;
        let used = footprint.envelope().end().checked_sub(call.host);
        if used.is_none_or(|used| used > host_bytes) {
            return Err(Status::TP_ERROR_INVALID);
        }
        Ok(call)
    }

    /// Whether a box is in an image, and the queue of our context; the image's shape and bytes of a pixel.
    pub(super) fn check_image(
        &self,
        queue: *mut c_void,
        image: *mut c_void,
        part: &tp_image_box,
    ) -> Answer<(towpath_transfer::readback::ImageShape, usize)> {
        if queue.is_null() || image.is_null() {
            return Err(Status::TP_ERROR_NULL);
        }
        self.driver.is_of(queue, self.context)?;
        let known = self.driver.image(image)?;
        let sides = part.origin.iter().zip(&part.size).zip(&known.size);
        for ((origin, size), whole) in sides {
            let end = origin.checked_add(*size);
            if *size == 0 || end.is_none_or(|end| end > *whole) {
                return Err(Status::TP_ERROR_INVALID);
            }
        }
        Ok((known.shape, known.pixel_bytes))
    }

    /// # Safety
    ///
    /// Those of the entry functions; the call was checked; `report` is null or valid for a write.
    unsafe fn run(
        &self,
        queue: *mut c_void,
        call: &Transfer,
        direction: Direction,
        report: *mut tp_transfer_report,
    ) -> Answer {
        let start = Instant::now();
        let footprint = call
            .footprint()
            .map_err(|_unclear| Status::TP_ERROR_INVALID)?;
        // SAFETY: the caller's promise.
        let (mechanism, cold, code) =
            unsafe { self.choose_and_do(queue, call, &footprint, direction) };
        let done = tp_transfer_report {
            mechanism,
            driver_code: code,
            bytes: footprint.bytes() as u64,
            cold_bytes: cold as u64,
            taken_ns: nanoseconds(start.elapsed()),
        };
        // SAFETY: the caller's promise.
        unsafe { put_if_wanted(report, done) }?;
        self.answer(code)
    }

    pub(super) fn answer(&self, code: i32) -> Answer {
        if code == SUCCESS {
            return Ok(());
        }
        self.log
            .warn(&format!("the driver refused a transfer with code {code}"));
        Err(Status::TP_ERROR_DRIVER)
    }

    /// # Safety
    ///
    /// As [`Self::run`].
    unsafe fn choose_and_do(
        &self,
        queue: *mut c_void,
        call: &Transfer,
        footprint: &Footprint,
        direction: Direction,
    ) -> (tp_mechanism, usize, i32) {
        let policy = self.policy();
        let cold = if footprint.bytes() >= LOOK_BYTES_MIN {
            cold_bytes(footprint.envelope()).cold().unwrap_or(0)
        } else {
            0
        };
        let warmth = if direction == Direction::Read && cold * 2 >= footprint.bytes() {
            Warmth::Cold
        } else {
            Warmth::Warm
        };
        let mode = towpath_settings::Mode::Auto;
        let chosen = policy.choose(mode, direction, warmth, footprint.bytes());
        if let (Some(shape), true) = (chosen.shape(), self.may_stage(call)) {
            let begun = Instant::now();
            // SAFETY: the caller's promise.
            let staged = unsafe { self.stage(queue, call, shape, (direction, warmth)) };
            if staged.is_ok() {
                policy.took(
                    direction,
                    warmth,
                    footprint.bytes(),
                    nanoseconds(begun.elapsed()),
                );
                return (tp_mechanism::TP_STAGED, cold, SUCCESS);
            }
            self.log.note("not staged this time: done by the driver");
        }
        let mut mechanism = tp_mechanism::TP_FORWARDED;
        if direction == Direction::Read && chosen != Mechanism::Forward {
            // SAFETY: the caller's promise.
            mechanism = unsafe { self.bring_in(queue, footprint, &policy.rules()) };
        }
        // SAFETY: the caller's promise.
        let code = unsafe { self.forward(queue, call, direction) };
        if code == SUCCESS && direction == Direction::Read {
            wrote(footprint);
        }
        (mechanism, cold, code)
    }

    fn may_stage(&self, call: &Transfer) -> bool {
        match call.region {
            Region::Buffer { memory, .. } | Region::Image { memory, .. } => {
                self.driver.may_stage(memory)
            }
            _ => false,
        }
    }

    /// # Safety
    ///
    /// As [`Self::run`].
    unsafe fn stage(
        &self,
        queue: *mut c_void,
        call: &Transfer,
        shape: towpath_transfer::engine::Shape,
        (direction, warmth): (Direction, Warmth),
    ) -> Answer {
        let staging = self.staging(shape)?;
        let refused = |error: towpath_transfer::engine::Error| {
            self.log.note(&error.to_string());
            Status::TP_ERROR_DRIVER
        };
        match direction {
            Direction::Read => {
                let bring = match warmth {
                    Warmth::Cold | Warmth::ColdHuge => Bring::HugePages,
                    Warmth::Warm => Bring::Nothing,
                };
                // SAFETY: live handles of this context; the host memory is the caller's for the call.
                let staged = unsafe { staging.read(queue, call, bring, &[], false) };
                staged.map(drop).map_err(refused)
            }
            Direction::Write => {
                // SAFETY: as above.
                let written = unsafe { staging.write(queue, call, &[]) };
                written.map(drop).map_err(refused)
            }
        }
    }

    /// Prefaults as the rules say; the queue works meanwhile.
    ///
    /// # Safety
    ///
    /// `queue` is live.
    unsafe fn bring_in(
        &self,
        queue: *mut c_void,
        footprint: &Footprint,
        rules: &towpath_transfer::readback::Rules,
    ) -> tp_mechanism {
        let context = Context {
            fixes: Fixes::auto(),
            rules,
        };
        let plan = prepare(footprint, &context);
        if !plan.is_prefault() {
            return tp_mechanism::TP_FORWARDED;
        }
        // SAFETY: a live queue; if this fails the read that follows says so.
        let _flushed = unsafe { (self.driver.functions.flush)(queue) };
        let _done = plan.run();
        tp_mechanism::TP_PREFAULTED
    }

    /// # Safety
    ///
    /// As [`Self::run`].
    pub(super) unsafe fn forward(
        &self,
        queue: *mut c_void,
        call: &Transfer,
        direction: Direction,
    ) -> i32 {
        let (calls, none) = (&self.driver.functions, std::ptr::null_mut());
        match direction {
            Direction::Read => {
                // SAFETY: live handles, and host memory that was checked to fit, valid by the caller's promise.
                unsafe { call.forward_read(calls, queue, true, &[], none) }
            }
            Direction::Write => {
                // SAFETY: as above.
                unsafe { call.forward_write(calls, queue, true, &[], none) }
            }
        }
    }
}

/// 256 KiB: below it the look at the page tables costs as much as the faults.
const LOOK_BYTES_MIN: usize = 256 << 10;
