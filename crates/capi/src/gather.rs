//! Copies from pieces: a cursor over them, and rows in them.

use std::ptr::NonNull;

use towpath_memory::lanes::Lanes;
use towpath_memory::volatile::VolatileBytes;

use crate::boundary::{Answer, slice};
use crate::pieces::{tp_piece, tp_rows};
use crate::status::tp_status as Status;

/// Pieces whose sizes add up and whose addresses are there.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a> {
    all: &'a [tp_piece],
    total: usize,
}

impl<'a> Pieces<'a> {
    /// # Safety
    ///
    /// `pieces` is null or valid for reads of `count` values.
    pub(crate) unsafe fn take(pieces: *const tp_piece, count: usize) -> Answer<Self> {
        // SAFETY: the caller's promise.
        let all = unsafe { slice(pieces, count) }?;
        let total = all
            .iter()
            .try_fold(0_usize, |sum, piece| sum.checked_add(piece.bytes))
            .filter(|total| isize::try_from(*total).is_ok())
            .ok_or(Status::TP_ERROR_INVALID)?;
        // Before the first byte moves: half a copy is worse than none.
        let is_missing = |piece: &tp_piece| piece.bytes > 0 && piece.address.is_null();
        if all.iter().any(is_missing) {
            return Err(Status::TP_ERROR_NULL);
        }
        Ok(Self { all, total })
    }

    /// Whether `bytes` from `offset` are there.
    pub(crate) fn holds(&self, offset: usize, bytes: usize) -> Answer {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.total => Ok(()),
            _ => Err(Status::TP_ERROR_INVALID),
        }
    }

    pub(crate) fn cursor(self) -> Cursor<'a> {
        Cursor {
            all: self.all,
            index: 0,
            start: 0,
        }
    }
}

/// A place in pieces: the next copy begins its search there, so rows in order are found without one.
pub(crate) struct Cursor<'a> {
    all: &'a [tp_piece],
    index: usize,
    start: usize,
}

impl Cursor<'_> {
    /// Gives the bytes from `offset` on to `lanes`, until `to` is full.
    ///
    /// # Safety
    ///
    /// [`Pieces::holds`] said that they are there, and they are readable and apart from `to` until `lanes` are
    /// done.
    pub(crate) unsafe fn copy<'a>(
        &mut self,
        offset: usize,
        to: &VolatileBytes<'a>,
        lanes: &mut Lanes<'a>,
    ) {
        if offset < self.start {
            (self.index, self.start) = (0, 0);
        }
        let (mut done, mut offset) = (0, offset);
        while let (Some(piece), true) = (self.all.get(self.index), done < to.len()) {
            let skip = offset - self.start;
            if skip >= piece.bytes {
                self.start += piece.bytes;
                self.index += 1;
                continue;
            }
            let part = (to.len() - done).min(piece.bytes - skip);
            let source = piece.address.cast_mut().cast::<u8>().wrapping_add(skip);
            if let (Some(source), Some(place)) = (NonNull::new(source), to.get(done, part)) {
                // SAFETY: `part` bytes of this piece are left from `skip` on, by the promise; only read.
                let source = unsafe { VolatileBytes::new(source, part) };
                lanes.add(&source, &place);
            }
            offset += part;
            done += part;
        }
    }
}

/// Lines with their strides known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub(crate) offset: usize,
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
    pub(crate) stride: usize,
    pub(crate) slices: usize,
    pub(crate) slice_stride: usize,
}

impl From<tp_rows> for Lines {
    fn from(rows: tp_rows) -> Self {
        Self {
            offset: rows.offset,
            row_bytes: rows.row_bytes,
            rows: rows.rows,
            stride: rows.stride,
            slices: rows.slices,
            slice_stride: rows.slice_stride,
        }
    }
}

impl Lines {
    /// Strides of 0 filled in.
    pub(crate) fn packed(mut self) -> Answer<Self> {
        if self.row_bytes == 0 || self.rows == 0 || self.slices == 0 {
            return Err(Status::TP_ERROR_INVALID);
        }
        if self.stride == 0 {
            self.stride = self.row_bytes;
        }
        if self.slice_stride == 0 {
            self.slice_stride = self
                .stride
                .checked_mul(self.rows)
                .ok_or(Status::TP_ERROR_INVALID)?;
        }
        Ok(self)
    }

    /// The offset after the last byte. Each row's end is no later, so that [`Self::at`] does not overflow.
    pub(crate) fn end(&self) -> Answer<usize> {
        let slices = self.slice_stride.checked_mul(self.slices - 1);
        let rows = self.stride.checked_mul(self.rows - 1);
        slices
            .zip(rows)
            .and_then(|(slices, rows)| slices.checked_add(rows))
            .and_then(|sum| sum.checked_add(self.row_bytes))
            .and_then(|sum| sum.checked_add(self.offset))
            .ok_or(Status::TP_ERROR_INVALID)
    }

    pub(crate) fn at(&self, slice: usize, row: usize) -> usize {
        self.offset + slice * self.slice_stride + row * self.stride
    }

    pub(crate) fn overlaps(&self) -> bool {
        let slice_bytes = self
            .stride
            .saturating_mul(self.rows - 1)
            .saturating_add(self.row_bytes);
        (self.rows > 1 && self.stride < self.row_bytes)
            || (self.slices > 1 && self.slice_stride < slice_bytes)
    }

    fn is_gapless(&self) -> bool {
        self.stride == self.row_bytes
            && Some(self.slice_stride) == self.stride.checked_mul(self.rows)
    }
}

/// The same as one row each, where neither has gaps.
pub(crate) fn joined(from: Lines, to: Lines) -> (Lines, Lines) {
    if !(from.is_gapless() && to.is_gapless()) {
        return (from, to);
    }
    let one = |rows: Lines| Lines {
        row_bytes: rows.row_bytes * rows.rows * rows.slices,
        rows: 1,
        slices: 1,
        ..rows
    };
    (one(from), one(to))
}
