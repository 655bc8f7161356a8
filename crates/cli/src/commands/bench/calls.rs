//! The calls that are measured, on memory that the bench owns.

#![expect(
    unsafe_code,
    reason = "calls of the OpenCL ABI on the bench's own memory"
)]

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use opencl_sys::cl_icd::cl_icd_dispatch;
use towpath_settings::Fixes;
use towpath_transfer::engine::Bring;
use towpath_transfer::opencl::{
    Buffer, Cl, Functions, HostRows, Image, Region, SUCCESS, Staging, Transfer,
};
use towpath_transfer::readback::{self, ImageShape};

use super::transfer::PIXEL_BYTES;

/// Device memory of a cell.
pub(super) enum Device {
    /// A buffer.
    Buffer(Buffer),
    /// Rows of a buffer: bytes of a row, rows, and bytes from row to row on the device; packed on the
    /// host.
    Rect(Buffer, usize, usize, usize),
    /// An image and its width and height.
    Image(Image, usize, usize),
    /// An image of bytes, its side, and the host's row pitch (0: packed).
    Pixels(Image, usize, usize),
}

impl Device {
    /// The call that moves all of it to or from host memory at `host`.
    pub(super) fn call(&self, host: usize) -> Transfer {
        match self {
            Self::Buffer(buffer) => Transfer {
                region: Region::Buffer {
                    memory: buffer.handle(),
                    offset: 0,
                },
                host,
                rows: HostRows::Bytes(buffer.bytes()),
            },
            Self::Rect(buffer, row_bytes, rows, pitch) => Transfer {
                region: Region::Rect {
                    memory: buffer.handle(),
                    origin: [0; 3],
                    region: [*row_bytes, *rows, 1],
                    row_pitch: *pitch,
                    slice_pitch: 0,
                },
                host,
                rows: HostRows::Rect {
                    origin: [0; 3],
                    row_pitch: 0,
                    slice_pitch: 0,
                },
            },
            Self::Image(image, width, height) => Transfer {
                region: Region::Image {
                    memory: image.handle(),
                    origin: [0; 3],
                    region: [*width, *height, 1],
                },
                host,
                rows: HostRows::Image {
                    shape: ImageShape::D2,
                    element_bytes: PIXEL_BYTES,
                    row_pitch: 0,
                    slice_pitch: 0,
                },
            },
            Self::Pixels(image, side, row_pitch) => Transfer {
                region: Region::Image {
                    memory: image.handle(),
                    origin: [0; 3],
                    region: [*side, *side, 1],
                },
                host,
                rows: HostRows::Image {
                    shape: ImageShape::D2,
                    element_bytes: 4,
                    row_pitch: *row_pitch,
                    slice_pitch: 0,
                },
            },
        }
    }
}

/// The driver's blocking read.
pub(super) fn read(cl: &Cl, call: &Transfer) -> Result<()> {
    // SAFETY: queue and memory object are live; the bench owns the host memory of the call and uses it
    // for nothing else meanwhile.
    let code =
        unsafe { call.forward_read(cl.functions(), cl.queue(), true, &[], std::ptr::null_mut()) };
    checked("read", code)
}

/// The driver's blocking read, by these functions.
pub(super) fn read_by(functions: &Functions, cl: &Cl, call: &Transfer) -> Result<()> {
    // SAFETY: as in `read`; the functions are those of the queue's own driver or of the loader above it.
    let code = unsafe { call.forward_read(functions, cl.queue(), true, &[], std::ptr::null_mut()) };
    checked("read", code)
}

/// The functions of the queue's driver itself for reads: those of the table with which every object of
/// OpenCL begins, by which a loader finds its driver.
pub(super) fn past_the_loader(cl: &Cl) -> Result<Functions> {
    // SAFETY: a live queue of an installable driver begins with the pointer to its table
    // (cl_khr_icd), and the loader has just used it.
    let table = unsafe { cl.queue().cast::<*const cl_icd_dispatch>().read() };
    // SAFETY: as above; drivers keep their table as long as they are loaded.
    let table = unsafe { &*table };
    let mut functions = *cl.functions();
    functions.read_buffer = table
        .clEnqueueReadBuffer
        .context("no clEnqueueReadBuffer")?;
    functions.read_buffer_rect = table
        .clEnqueueReadBufferRect
        .context("no clEnqueueReadBufferRect")?;
    functions.read_image = table.clEnqueueReadImage.context("no clEnqueueReadImage")?;
    Ok(functions)
}

/// The driver's blocking write.
pub(super) fn write(cl: &Cl, call: &Transfer) -> Result<()> {
    // SAFETY: as in `read`.
    let code =
        unsafe { call.forward_write(cl.functions(), cl.queue(), true, &[], std::ptr::null_mut()) };
    checked("write", code)
}

/// Waits until the queue is empty.
pub(super) fn finish(cl: &Cl) -> Result<()> {
    // SAFETY: a live queue.
    checked("finish", unsafe { (cl.functions().finish)(cl.queue()) })
}

/// Brings the destination in by the rule table, then the driver's read: what the layer does.
pub(super) fn prefault_and_read(cl: &Cl, call: &Transfer) -> Result<()> {
    let rules = readback::Rules::default();
    let context = readback::Context {
        fixes: Fixes::forced(),
        rules: &rules,
    };
    let plan = readback::prepare(&call.footprint()?, &context);
    if plan.is_prefault() {
        // SAFETY: a live queue.
        checked("flush", unsafe { (cl.functions().flush)(cl.queue()) })?;
    }
    let _done = plan.run();
    read(cl, call)
}

/// A staged read, with the program's event or without: what the layer does.
pub(super) fn staged_read(
    cl: &Cl,
    staging: &Staging,
    call: &Transfer,
    bring: Bring,
    with_event: bool,
) -> Result<()> {
    // SAFETY: as in `read`.
    let staged = unsafe { staging.read(cl.queue(), call, bring, &[], with_event) }?;
    if let Some(rest) = staged.rest() {
        let mut event = std::ptr::null_mut();
        // SAFETY: as in `read`; the event is released below.
        let code =
            unsafe { rest.forward_read(cl.functions(), cl.queue(), true, &[], &raw mut event) };
        checked("read of the last row", code)?;
        // SAFETY: the event that the call has just made.
        checked("release", unsafe { (cl.functions().release_event)(event) })?;
    }
    // SAFETY: as in `read`.
    unsafe { staged.finish() }?;
    Ok(())
}

/// A staged write.
pub(super) fn staged_write(cl: &Cl, staging: &Staging, call: &Transfer) -> Result<()> {
    // SAFETY: as in `read`.
    let _moved = unsafe { staging.write(cl.queue(), call, &[]) }?;
    Ok(())
}

/// Work for the device of a known length: copies between two buffers of its own.
pub(super) struct Work {
    from: Buffer,
    to: Buffer,
    copy: Duration,
}

impl Work {
    /// Makes the buffers and times a copy.
    pub(super) fn new(cl: &Cl) -> Result<Self> {
        let mut work = Self {
            from: cl.buffer(WORK_BYTES)?,
            to: cl.buffer(WORK_BYTES)?,
            copy: Duration::ZERO,
        };
        // The first makes the memory; the others are timed together.
        work.copy_times(cl, 2)?;
        finish(cl)?;
        let start = Instant::now();
        work.copy_times(cl, 8)?;
        finish(cl)?;
        work.copy = start.elapsed() / 8;
        Ok(work)
    }

    /// Queues about `length` of work and lets the device begin.
    pub(super) fn queue(&self, cl: &Cl, length: Duration) -> Result<()> {
        let count = length.as_secs_f64() / self.copy.as_secs_f64().max(1e-6);
        // At most a second or so of work; the cast saturates.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped"
        )]
        let count = count.round().clamp(0.0, 10_000.0) as usize;
        self.copy_times(cl, count)?;
        // SAFETY: a live queue.
        checked("flush", unsafe { (cl.functions().flush)(cl.queue()) })
    }

    fn copy_times(&self, cl: &Cl, count: usize) -> Result<()> {
        for _ in 0..count {
            // SAFETY: a live queue and two live buffers of this size.
            let code = unsafe {
                (cl.functions().copy_buffer)(
                    cl.queue(),
                    self.from.handle(),
                    self.to.handle(),
                    0,
                    0,
                    WORK_BYTES,
                    0,
                    std::ptr::null(),
                    std::ptr::null_mut(),
                )
            };
            checked("copy", code)?;
        }
        Ok(())
    }
}

/// 16 MiB: a few microseconds on a GPU, under two milliseconds on a processor.
const WORK_BYTES: usize = 16 << 20;

fn checked(what: &str, code: i32) -> Result<()> {
    if code != SUCCESS {
        bail!("the driver refused a {what} with code {code}");
    }
    Ok(())
}
