//! Buffers and images from scattered pieces: gathered chunk by chunk into pinned memory, and from there by the
//! driver, without a buffer for the whole.

use std::ffi::c_void;
use std::time::Instant;

use towpath_memory::lanes::Lanes;
use towpath_memory::volatile::VolatileBytes;
use towpath_transfer::engine::{Bytes, Engine, HostKind, Shape};
use towpath_transfer::opencl::{Cl, HostRows, Region, SUCCESS, Transfer};
use towpath_transfer::policy::Direction;
use towpath_transfer::readback::ImageShape;

use super::calls::{tp_image_box, tp_mechanism, tp_transfer_report};
use super::{Transfers, tp_transfer};
use crate::boundary::{Answer, borrow, guard, nanoseconds, one, put_if_wanted};
use crate::gather::{Lines, Pieces};
use crate::pieces::tp_piece;
use crate::status::{tp_status, tp_status as Status};

/// Writes the `bytes` bytes from `from` of the pieces, end to end, to a buffer from `offset` on.
///
/// Returns when the program may change the pieces. One read and one write per byte on the host. In several commands
/// of the queue: another thread's command may come between them. `report` may be NULL. Errors as
/// `tp_transfer_write_buffer` and `tp_pieces_gather`; after TP_ERROR_DRIVER the buffer may hold a part.
///
/// # Safety
///
/// As `tp_transfer_write_buffer` and `tp_pieces_gather`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_write_buffer_pieces(
    transfer: *const tp_transfer,
    queue: *mut c_void,
    buffer: *mut c_void,
    offset: usize,
    pieces: *const tp_piece,
    count: usize,
    from: usize,
    bytes: usize,
    report: *mut tp_transfer_report,
) -> tp_status {
    guard(|| {
        let start = Instant::now();
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        transfers.check_buffer(queue, buffer, offset, bytes)?;
        // SAFETY: the caller's promise.
        let pieces = unsafe { Pieces::take(pieces, count) }?;
        pieces.holds(from, bytes)?;
        let mut sink = Sink::new(transfers, bytes.min(CHUNK_BYTES))?;
        let mut cursor = pieces.cursor();
        let mut done = 0;
        let mut code = SUCCESS;
        while done < bytes && code == SUCCESS {
            let part = (bytes - done).min(CHUNK_BYTES);
            let room = sink.room(part)?;
            let mut lanes = Lanes::new(true);
            // SAFETY: `holds` found these bytes in the pieces, which are readable by the caller's promise.
            unsafe { cursor.copy(from + done, &VolatileBytes::of(room), &mut lanes) };
            lanes.finish();
            let region = Region::Buffer {
                memory: buffer,
                offset: offset + done,
            };
            // SAFETY: live handles by the caller's promise; the bytes are within the buffer.
            code = unsafe { sink.write(queue, region, HostRows::Bytes(part)) };
            done += part;
        }
        drop(sink);
        // SAFETY: the caller's promise.
        unsafe { say(report, code, bytes, start) }?;
        transfers.answer(code)
    })
}

/// Writes rows that lie in pieces to a box of an image. The box's pitches are those of the rows in the pieces, whose
/// first byte is the one at `from`.
///
/// As `tp_transfer_write_buffer_pieces`, in commands of whole rows.
///
/// # Safety
///
/// As `tp_transfer_write_image` and `tp_pieces_gather`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_write_image_pieces(
    transfer: *const tp_transfer,
    queue: *mut c_void,
    image: *mut c_void,
    part: *const tp_image_box,
    pieces: *const tp_piece,
    count: usize,
    from: usize,
    report: *mut tp_transfer_report,
) -> tp_status {
    guard(|| {
        let start = Instant::now();
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        // SAFETY: one value, by the caller's promise.
        let part = unsafe { one(part) }?;
        let (shape, pixel_bytes) = transfers.check_image(queue, image, &part)?;
        // SAFETY: the caller's promise.
        let pieces = unsafe { Pieces::take(pieces, count) }?;
        let [width, rows, slices] = part.size;
        let row_bytes = width
            .checked_mul(pixel_bytes)
            .ok_or(Status::TP_ERROR_INVALID)?;
        let guest = Lines {
            offset: from,
            row_bytes,
            rows,
            stride: part.row_pitch,
            slices,
            slice_stride: part.slice_pitch,
        }
        .packed()?;
        pieces.holds(0, guest.end()?)?;
        let image = Target {
            image,
            shape,
            pixel_bytes,
            part,
        };
        // SAFETY: the caller's promise; all rows are in the pieces.
        let code = unsafe { image.fill(transfers, queue, &pieces, &guest) }?;
        // SAFETY: the caller's promise.
        unsafe { say(report, code, row_bytes * rows * slices, start) }?;
        transfers.answer(code)
    })
}

/// An image to be written in parts.
struct Target {
    image: *mut c_void,
    shape: ImageShape,
    pixel_bytes: usize,
    part: tp_image_box,
}

impl Target {
    /// # Safety
    ///
    /// The handles are live, the box is in the image, the pieces are readable and hold all rows.
    unsafe fn fill(
        &self,
        transfers: &Transfers,
        queue: *mut c_void,
        pieces: &Pieces<'_>,
        guest: &Lines,
    ) -> Answer<i32> {
        let at_once = (CHUNK_BYTES / guest.row_bytes).clamp(1, guest.rows);
        let mut sink = Sink::new(transfers, at_once * guest.row_bytes)?;
        let mut cursor = pieces.cursor();
        let [x, y, z] = self.part.origin;
        for slice in 0..guest.slices {
            let mut row = 0;
            while row < guest.rows {
                let rows = at_once.min(guest.rows - row);
                let room = sink.room(rows * guest.row_bytes)?;
                let mut lanes = Lanes::new(true);
                for (to, row) in room.chunks_mut(guest.row_bytes).zip(row..) {
                    let at = guest.offset + slice * guest.slice_stride + row * guest.stride;
                    // SAFETY: the caller's promise; the lanes are done before the rows are handed on.
                    unsafe { cursor.copy(at, &VolatileBytes::of(to), &mut lanes) };
                }
                lanes.finish();
                let region = Region::Image {
                    memory: self.image,
                    origin: [x, y + row, z + slice],
                    region: [self.part.size[0], rows, 1],
                };
                let packed = HostRows::Image {
                    shape: self.shape,
                    element_bytes: self.pixel_bytes,
                    row_pitch: 0,
                    slice_pitch: 0,
                };
                // SAFETY: the caller's promise; the rows are packed in the sink's memory.
                let code = unsafe { sink.write(queue, region, packed) };
                if code != SUCCESS {
                    return Ok(code);
                }
                row += rows;
            }
        }
        Ok(SUCCESS)
    }
}

/// Pinned memory for a chunk, given back at the end.
struct Sink<'a> {
    transfers: &'a Transfers,
    staging: std::sync::Arc<towpath_transfer::opencl::Staging>,
    memory: Option<towpath_transfer::engine::HostBuffer<towpath_transfer::opencl::Slot>>,
}

impl<'a> Sink<'a> {
    /// Room for `bytes`; more than a chunk only where one row alone is longer.
    fn new(transfers: &'a Transfers, bytes: usize) -> Answer<Self> {
        let staging = transfers.staging(Shape::new(1, CHUNK_BYTES))?;
        let engine: &Engine<Cl> = staging.engine();
        let memory = engine
            .host_buffer(Bytes(bytes), HostKind::Pinned)
            .map_err(|_none| Status::TP_ERROR_MEMORY)?;
        Ok(Self {
            transfers,
            staging,
            memory: Some(memory),
        })
    }

    fn room(&mut self, bytes: usize) -> Answer<&mut [u8]> {
        let memory = self.memory.as_mut().ok_or(Status::TP_ERROR_MEMORY)?;
        memory
            .bytes_mut()
            .get_mut(..bytes)
            .ok_or(Status::TP_ERROR_MEMORY)
    }

    /// Writes what was put into the room; the driver's code.
    ///
    /// # Safety
    ///
    /// The handles are live, and the region takes no more bytes than there were room for.
    unsafe fn write(&mut self, queue: *mut c_void, region: Region, rows: HostRows) -> i32 {
        let Some(memory) = self.memory.as_mut() else {
            return SUCCESS;
        };
        let call = Transfer {
            region,
            host: memory.bytes_mut().as_mut_ptr().expose_provenance(),
            rows,
        };
        // SAFETY: the caller's promise.
        unsafe { self.transfers.forward(queue, &call, Direction::Write) }
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.staging.engine().recycle(memory);
        }
    }
}

/// # Safety
///
/// `report` is null or valid for a write.
unsafe fn say(report: *mut tp_transfer_report, code: i32, bytes: usize, start: Instant) -> Answer {
    let done = tp_transfer_report {
        mechanism: tp_mechanism::TP_GATHERED,
        driver_code: code,
        bytes: bytes as u64,
        cold_bytes: 0,
        taken_ns: nanoseconds(start.elapsed()),
    };
    // SAFETY: the caller's promise.
    unsafe { put_if_wanted(report, done) }
}

/// 4 MiB: two chunks of staging; fewer commands for what is copied once.
const CHUNK_BYTES: usize = 4 << 20;
