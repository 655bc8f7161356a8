//! Bytes in scattered pieces: gathered without a second copy, or seen as one.

use std::ffi::c_void;

use towpath_memory::lanes::Lanes;
use towpath_memory::view::{FilePiece, View};
use towpath_memory::volatile::VolatileBytes;

use crate::boundary::{
    Answer, Opaque, affordable, borrow, descriptor, give, guard, one, put_bytes, slice, slice_mut,
    take,
};
use crate::gather::{Lines, Pieces, joined};
use crate::status::{tp_status, tp_status as Status};

/// One piece of memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tp_piece {
    /// First byte.
    pub address: *const c_void,
    /// Bytes.
    pub bytes: usize,
}

/// One piece of a memory file.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tp_file_piece {
    /// The memory file (memfd).
    pub fd: i32,
    /// First byte in it.
    pub offset: u64,
    /// Bytes. Pages must not be torn between pieces: see `tp_view_create`.
    pub bytes: u64,
}

/// One mapping over the pieces of memory files. Freed by `tp_view_free`.
#[derive(Debug)]
pub struct tp_view {
    _opaque: (),
}

impl Opaque for tp_view {
    type Value = View;
    const MARK: u64 = 0x7669_6577_7669_6577;
}

/// Copies the `bytes` from `offset` of the pieces, end to end, to `destination`.
///
/// Not 0 in `streaming`: past the caches, for large copies that a device reads next. One read and one write
/// per byte; no allocation. TP_ERROR_INVALID: the pieces hold less; nothing was copied.
///
/// # Safety
///
/// `pieces` is null or valid for reads of `count` values, each piece valid for reads of its bytes;
/// `destination` is null or valid for writes of `bytes` bytes, apart from the pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_pieces_gather(
    pieces: *const tp_piece,
    count: usize,
    offset: usize,
    destination: *mut c_void,
    bytes: usize,
    streaming: i32,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let pieces = unsafe { Pieces::take(pieces, count) }?;
        // SAFETY: the caller's promise.
        let to = unsafe { slice_mut(destination.cast::<u8>(), bytes) }?;
        pieces.holds(offset, bytes)?;
        let mut lanes = Lanes::new(streaming != 0);
        let mut cursor = pieces.cursor();
        // SAFETY: `holds` found these bytes in the pieces, readable by the caller's promise; the lanes are done
        // before this returns.
        unsafe { cursor.copy(offset, &VolatileBytes::of(to), &mut lanes) };
        lanes.finish();
        Ok(())
    })
}

/// Rows of a texture in pieces, as transfer commands of virtual GPUs name them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct tp_rows {
    /// First byte of the first row, counted over all pieces; any value.
    pub offset: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Rows of a slice; at least 1.
    pub rows: usize,
    /// Bytes from row to row in the pieces; 0: packed.
    pub stride: usize,
    /// Slices, layers or faces; at least 1.
    pub slices: usize,
    /// Bytes from slice to slice in the pieces; 0: packed.
    pub slice_stride: usize,
}

/// Copies a texture's rows from pieces into memory of `destination_bytes` bytes, row by row as it wants them, such as
/// a mapped pixel-unpack buffer. Bytes between the destination's rows stay as they are.
///
/// `row_pitch` and `slice_pitch` are the destination's; 0: packed. `streaming` as in `tp_pieces_gather`. Rows without
/// gaps on both sides are copied as one. TP_ERROR_INVALID: a row is outside the pieces or the destination, or pitches
/// let rows overlap; nothing was copied. All sums are checked, so the numbers may be a guest's.
///
/// # Safety
///
/// As `tp_pieces_gather`; `rows` is null or valid for a read, and not in memory that a guest changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_pieces_gather_rows(
    pieces: *const tp_piece,
    count: usize,
    rows: *const tp_rows,
    destination: *mut c_void,
    destination_bytes: usize,
    row_pitch: usize,
    slice_pitch: usize,
    streaming: i32,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let pieces = unsafe { Pieces::take(pieces, count) }?;
        // SAFETY: the caller's promise.
        let given = unsafe { one(rows) }?;
        let from = Lines::from(given).packed()?;
        let to = Lines {
            offset: 0,
            stride: row_pitch,
            slice_stride: slice_pitch,
            ..Lines::from(given)
        }
        .packed()?;
        pieces.holds(0, from.end()?)?;
        if to.overlaps() || to.end()? > destination_bytes {
            return Err(Status::TP_ERROR_INVALID);
        }
        // SAFETY: the caller's promise.
        let memory = unsafe { slice_mut(destination.cast::<u8>(), destination_bytes) }?;
        let (from, to) = joined(from, to);
        let memory = VolatileBytes::of(memory);
        let mut lanes = Lanes::new(streaming != 0);
        let mut cursor = pieces.cursor();
        for slice in 0..from.slices {
            for row in 0..from.rows {
                let at = to.at(slice, row);
                // `end` found every row inside.
                if let Some(place) = memory.get(at, to.row_bytes) {
                    // SAFETY: as above, readable by the caller's promise.
                    unsafe { cursor.copy(from.at(slice, row), &place, &mut lanes) };
                }
            }
        }
        lanes.finish();
        Ok(())
    })
}

/// Maps the pieces of memory files one behind the other and stores the handle in `*view`.
///
/// The caller owns the handle and frees it with `tp_view_free`; the files may be closed meanwhile. Cost: one
/// mapping per run of pieces that do not continue each other, a few microseconds each: for pieces that are
/// used several times.
///
/// The first piece may begin, and the last may end, inside a page: `tp_view_data` then gives the first byte of the
/// piece itself, not of its page. Every border between two pieces must be a page border of both files (of the huge
/// page where the file is of huge pages). TP_ERROR_INVALID: it is not so, or a piece is not within its file, or
/// there are no bytes; copy with `tp_pieces_gather` then.
///
/// # Safety
///
/// `pieces` is null or valid for reads of `count` values; `view` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_view_create(
    pieces: *const tp_file_piece,
    count: usize,
    view: *mut *mut tp_view,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let pieces = unsafe { slice(pieces, count) }?;
        if pieces.is_empty() {
            return Err(Status::TP_ERROR_INVALID);
        }
        // A list of the pieces, and one of the mappings.
        affordable(count, 64)?;
        let files = pieces
            .iter()
            .map(|piece| {
                Ok(FilePiece {
                    file: descriptor(&piece.fd)?,
                    offset: piece.offset,
                    len: piece.bytes,
                })
            })
            .collect::<Answer<Vec<FilePiece<'_>>>>()?;
        let stitched = View::stitch(&files).map_err(|_refused| Status::TP_ERROR_INVALID)?;
        // SAFETY: the caller's promise.
        unsafe { give(view, stitched) }
    })
}

/// Stores where the view begins and how many bytes it has. Valid until `tp_view_free`; other processes may
/// change the bytes at any time.
///
/// # Safety
///
/// `view` is null or a live handle; `data` and `bytes` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_view_data(
    view: *const tp_view,
    data: *mut *mut c_void,
    bytes: *mut usize,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let seen = unsafe { borrow(view) }?.bytes();
        // SAFETY: the caller's promise.
        unsafe { put_bytes((data, bytes), seen.as_ptr().cast(), seen.len()) }
    })
}

/// Unmaps the view; NULL is none.
///
/// # Safety
///
/// `view` is null or from `tp_view_create`; neither it nor its bytes are used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_view_free(view: *mut tp_view) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { take(view) }.map(drop)
    })
}
