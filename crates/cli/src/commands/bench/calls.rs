//! The calls that are measured, on memory that the bench owns.

#![expect(
    unsafe_code,
    reason = "calls of the OpenCL ABI on the bench's own memory"
)]

use anyhow::{Result, bail};
use towpath_settings::Fixes;
use towpath_transfer::engine::Bring;
use towpath_transfer::opencl::{Buffer, Cl, HostRows, Image, Region, SUCCESS, Staging, Transfer};
use towpath_transfer::readback::{self, ImageShape};

use super::transfer::PIXEL_BYTES;

/// Device memory of a cell.
pub(super) enum Device {
    /// A buffer.
    Buffer(Buffer),
    /// An image and its width and height.
    Image(Image, usize, usize),
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
    let _done = readback::prepare(&call.footprint()?, &context).run();
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

fn checked(what: &str, code: i32) -> Result<()> {
    if code != SUCCESS {
        bail!("the driver refused a {what} with code {code}");
    }
    Ok(())
}
