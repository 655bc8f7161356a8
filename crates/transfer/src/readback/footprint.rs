//! The exact host bytes that a read writes.

use std::iter::FusedIterator;

use towpath_memory::{Range, page_size};

/// The host bytes of one read: `slices` of `rows` of `row_bytes`, each at its pitch.
///
/// Made from a call's arguments with every product and sum checked, so that walking it never
/// overflows. Holds addresses only; nothing is accessed through it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Footprint {
    start: usize,
    row_bytes: usize,
    rows: usize,
    row_pitch: usize,
    slices: usize,
    slice_pitch: usize,
}

/// Why arguments have no footprint: the driver will refuse them, or they leave room for doubt. The
/// call is to be forwarded as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FootprintError {
    /// Null pointer.
    #[error("the destination is a null pointer")]
    Null,
    /// No bytes.
    #[error("the region has no bytes")]
    Empty,
    /// A product or sum is no address.
    #[error("the region ends past the address space")]
    Overflow,
    /// A pitch is smaller than what it spans, or set where it must be 0.
    #[error("a pitch does not fit the region")]
    Pitch,
}

/// The shape of an image as far as pitches depend on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ImageShape {
    /// One row.
    D1,
    /// Rows that are the images of an array.
    D1Array,
    /// Rows.
    D2,
    /// Slices that are the images of an array.
    D2Array,
    /// Slices.
    D3,
}

impl Footprint {
    /// `clEnqueueReadBuffer`, `clEnqueueSVMMemcpy`: `bytes` from `address`.
    ///
    /// # Errors
    ///
    /// [`FootprintError`]; forward the call.
    pub fn buffer(address: usize, bytes: usize) -> Result<Self, FootprintError> {
        Self::checked(address, [bytes, 1, 1], bytes, bytes)
    }

    /// `clEnqueueReadBufferRect`: `origin` and `region` as (bytes, rows, slices) in host memory;
    /// pitches in bytes, 0 as in the call.
    ///
    /// # Errors
    ///
    /// [`FootprintError`]; forward the call.
    pub fn rect(
        address: usize,
        origin: [usize; 3],
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Result<Self, FootprintError> {
        let overflow = FootprintError::Overflow;
        let [x, y, z] = origin;
        let [row_bytes, rows, _] = region;
        let row_pitch = pitch(row_pitch, row_bytes)?;
        let slice_pitch = pitch(slice_pitch, row_pitch.checked_mul(rows).ok_or(overflow)?)?;
        if address == 0 {
            return Err(FootprintError::Null);
        }
        let start = z
            .checked_mul(slice_pitch)
            .and_then(|sum| sum.checked_add(y.checked_mul(row_pitch)?))
            .and_then(|sum| sum.checked_add(x))
            .and_then(|sum| sum.checked_add(address))
            .ok_or(overflow)?;
        Self::checked(start, region, row_pitch, slice_pitch)
    }

    /// `clEnqueueReadImage`: `region` in pixels of `element_bytes`; pitches in bytes, 0 as in the call.
    ///
    /// # Errors
    ///
    /// [`FootprintError`]; forward the call.
    pub fn image(
        address: usize,
        shape: ImageShape,
        element_bytes: usize,
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Result<Self, FootprintError> {
        let [width, height, depth] = region;
        let row_bytes = width
            .checked_mul(element_bytes)
            .ok_or(FootprintError::Overflow)?;
        let row_pitch = pitch(row_pitch, row_bytes)?;
        let slice_bytes = row_pitch
            .checked_mul(height)
            .ok_or(FootprintError::Overflow)?;
        match shape {
            ImageShape::D1 | ImageShape::D2 if slice_pitch != 0 => Err(FootprintError::Pitch),
            ImageShape::D1 if height != 1 || depth != 1 => Err(FootprintError::Pitch),
            ImageShape::D2 if depth != 1 => Err(FootprintError::Pitch),
            // Drivers differ on which pitch separates the images; only where both agree is it clear.
            ImageShape::D1Array if depth != 1 || (slice_pitch != 0 && slice_pitch != row_pitch) => {
                Err(FootprintError::Pitch)
            }
            ImageShape::D1Array | ImageShape::D1 | ImageShape::D2 => {
                Self::checked(address, [row_bytes, height, 1], row_pitch, slice_bytes)
            }
            ImageShape::D2Array | ImageShape::D3 => {
                let slice_pitch = pitch(slice_pitch, slice_bytes)?;
                Self::checked(address, [row_bytes, height, depth], row_pitch, slice_pitch)
            }
        }
    }

    /// All sizes known; checks the last byte's address and joins what lies without a gap.
    fn checked(
        start: usize,
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Result<Self, FootprintError> {
        let [row_bytes, rows, slices] = region;
        if start == 0 {
            return Err(FootprintError::Null);
        }
        if row_bytes == 0 || rows == 0 || slices == 0 {
            return Err(FootprintError::Empty);
        }
        let _end = (slices - 1)
            .checked_mul(slice_pitch)
            .and_then(|sum| sum.checked_add((rows - 1).checked_mul(row_pitch)?))
            .and_then(|sum| sum.checked_add(row_bytes))
            .and_then(|sum| sum.checked_add(start))
            .ok_or(FootprintError::Overflow)?;
        let _bytes = row_bytes
            .checked_mul(rows)
            .and_then(|bytes| bytes.checked_mul(slices))
            .ok_or(FootprintError::Overflow)?;
        Ok(Self {
            start,
            row_bytes,
            rows,
            row_pitch,
            slices,
            slice_pitch,
        })
    }

    /// Bytes that the read writes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.row_bytes * self.rows * self.slices
    }

    /// From the first byte to the last, gaps included.
    #[must_use]
    pub const fn envelope(&self) -> Range {
        Range {
            address: self.start,
            len: (self.slices - 1) * self.slice_pitch
                + (self.rows - 1) * self.row_pitch
                + self.row_bytes,
        }
    }

    /// Each row's bytes, in order of address.
    pub fn rows(&self) -> impl Iterator<Item = Range> + use<> {
        let footprint = *self;
        (0..self.slices).flat_map(move |slice| {
            (0..footprint.rows).map(move |row| Range {
                address: footprint.start
                    + slice * footprint.slice_pitch
                    + row * footprint.row_pitch,
                len: footprint.row_bytes,
            })
        })
    }

    /// The host bytes of the packed bytes from `offset`, as far as they follow one another, at most
    /// `len`. Offsets past the end give an empty range.
    #[must_use]
    pub const fn run_at(&self, offset: usize, len: usize) -> Range {
        let bytes = self.bytes();
        if offset >= bytes {
            return Range {
                address: self.start,
                len: 0,
            };
        }
        let row = offset / self.row_bytes;
        let (slice, row) = (row / self.rows, row % self.rows);
        let within = offset % self.row_bytes;
        let joins = self.envelope().len == bytes;
        let left = if joins {
            bytes - offset
        } else {
            self.row_bytes - within
        };
        Range {
            address: self.start + slice * self.slice_pitch + row * self.row_pitch + within,
            len: if len < left { len } else { left },
        }
    }

    /// Runs of bytes whose pages all hold a byte of the footprint: rows are joined over gaps that
    /// are too small for a page.
    #[must_use]
    pub fn spans(&self) -> Spans {
        let page = page_size();
        let rows_join = self.rows == 1 || self.row_pitch - self.row_bytes < page;
        let slice_bytes = (self.rows - 1) * self.row_pitch + self.row_bytes;
        let slices_join = rows_join && (self.slices == 1 || self.slice_pitch - slice_bytes < page);
        let (span_bytes, rows, slices) = match (rows_join, slices_join) {
            (_, true) => (self.envelope().len, 1, 1),
            (true, false) => (slice_bytes, 1, self.slices),
            (false, false) => (self.row_bytes, self.rows, self.slices),
        };
        Spans {
            footprint: *self,
            span_bytes,
            rows,
            count: rows * slices,
            next: 0,
        }
    }
}

/// The spans of a footprint, see [`Footprint::spans`].
#[derive(Clone, Debug)]
pub struct Spans {
    footprint: Footprint,
    span_bytes: usize,
    rows: usize,
    count: usize,
    next: usize,
}

impl Iterator for Spans {
    type Item = Range;

    fn next(&mut self) -> Option<Range> {
        if self.next == self.count {
            return None;
        }
        let (slice, row) = (self.next / self.rows, self.next % self.rows);
        self.next += 1;
        Some(Range {
            address: self.footprint.start
                + slice * self.footprint.slice_pitch
                + row * self.footprint.row_pitch,
            len: self.span_bytes,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.next, Some(self.count - self.next))
    }
}

impl ExactSizeIterator for Spans {}
impl FusedIterator for Spans {}

/// A pitch as given, or `least` for 0.
const fn pitch(given: usize, least: usize) -> Result<usize, FootprintError> {
    match given {
        0 => Ok(least),
        given if given < least => Err(FootprintError::Pitch),
        given => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: usize = 0x7000_0000;

    #[test]
    fn a_buffer_is_one_span() {
        let footprint = Footprint::buffer(A + 3, 10_000).unwrap();
        assert_eq!(footprint.bytes(), 10_000);
        let spans: Vec<Range> = footprint.spans().collect();
        assert_eq!(spans, [Range::new(A + 3, 10_000).unwrap()]);
    }

    #[test]
    fn rows_of_a_rectangle_lie_where_the_specification_puts_them() {
        // Pitches of 0 mean: packed, but the origin still counts in them.
        let packed = Footprint::rect(A, [4, 1, 1], [16, 3, 2], 0, 0).unwrap();
        assert_eq!(packed.envelope(), Range::new(A + 48 + 16 + 4, 96).unwrap());
        let wide = Footprint::rect(A, [0, 2, 0], [100, 3, 2], 8192, 100_000).unwrap();
        let rows: Vec<usize> = wide.rows().map(|row| row.address - A).collect();
        assert_eq!(rows, [16_384, 24_576, 32_768, 116_384, 124_576, 132_768]);
        assert_eq!(wide.spans().len(), 6);
        assert_eq!(wide.bytes(), 600);
        assert_eq!(wide.envelope().end(), A + 132_768 + 100);
    }

    #[test]
    fn rows_join_only_over_gaps_smaller_than_a_page() {
        let page = page_size();
        let of = |gap| Footprint::rect(A, [0; 3], [100, 3, 1], 100 + gap, 0).unwrap();
        assert_eq!(of(page - 1).spans().len(), 1);
        assert_eq!(of(page).spans().len(), 3);
        // Slices with a large gap, rows without.
        let slices = Footprint::rect(A, [0; 3], [100, 3, 4], 100, 300 + page).unwrap();
        assert_eq!(slices.spans().len(), 4);
        assert!(slices.spans().all(|span| span.len == 300));
    }

    #[test]
    fn every_page_of_a_span_holds_a_byte_and_every_byte_is_in_a_span() {
        let page = page_size();
        for (row_bytes, gap) in [
            (1, page - 1),
            (1, page),
            (5000, 3 * page),
            (page, 1),
            (7, 0),
        ] {
            let footprint =
                Footprint::rect(A, [5, 0, 0], [row_bytes, 9, 2], row_bytes + gap, 0).unwrap();
            let rows: Vec<Range> = footprint.rows().collect();
            let spans: Vec<Range> = footprint.spans().map(Range::pages).collect();
            for row in &rows {
                assert!(spans.iter().any(|span| span.contains(*row)));
            }
            for span in &spans {
                for at in (span.address..span.end()).step_by(page) {
                    let page = Range::between(at, at + page);
                    assert!(rows.iter().any(|row| !row.intersect(page).is_empty()));
                }
            }
        }
    }

    #[test]
    fn images_of_every_shape() {
        use ImageShape::{D1, D1Array, D2, D2Array, D3};
        let of = |shape, region, row, slice| Footprint::image(A, shape, 16, region, row, slice);
        assert_eq!(of(D2, [10, 4, 1], 0, 0).unwrap().bytes(), 640);
        // The last row ends with its pixels, not with its pitch.
        assert_eq!(
            of(D2, [10, 4, 1], 200, 0).unwrap().envelope().len,
            3 * 200 + 160
        );
        assert_eq!(of(D2, [10, 4, 1], 0, 640), Err(FootprintError::Pitch));
        assert_eq!(of(D2, [10, 4, 2], 0, 0), Err(FootprintError::Pitch));
        assert_eq!(of(D1, [10, 1, 1], 0, 0).unwrap().bytes(), 160);
        assert_eq!(of(D1, [10, 2, 1], 0, 0), Err(FootprintError::Pitch));
        assert_eq!(of(D1Array, [10, 3, 1], 0, 0).unwrap().bytes(), 480);
        assert_eq!(of(D1Array, [10, 3, 1], 0, 999), Err(FootprintError::Pitch));
        assert_eq!(of(D2Array, [10, 3, 2], 0, 0).unwrap().envelope().len, 960);
        assert_eq!(
            of(D3, [10, 3, 2], 160, 500).unwrap().envelope().len,
            500 + 480
        );
        assert_eq!(of(D3, [10, 3, 2], 160, 479), Err(FootprintError::Pitch));
        assert_eq!(of(D3, [10, 3, 2], 159, 0), Err(FootprintError::Pitch));
    }

    #[test]
    fn hostile_arguments_are_errors() {
        let max = usize::MAX;
        assert_eq!(Footprint::buffer(0, 5), Err(FootprintError::Null));
        assert_eq!(Footprint::buffer(A, 0), Err(FootprintError::Empty));
        assert_eq!(Footprint::buffer(A, max), Err(FootprintError::Overflow));
        let values = [0, 1, 2, 4096, 1 << 31, 1 << 32, 1 << 62, max - 1, max];
        for a in values {
            for b in values {
                for c in values {
                    for d in values {
                        let _rect = Footprint::rect(A, [a, d, c], [b, c, d], d, a)
                            .map(|f| (f.envelope(), f.bytes(), f.spans().next()));
                        let _image = Footprint::image(A, ImageShape::D3, a, [b, c, d], c, b)
                            .map(|f| (f.envelope(), f.bytes(), f.spans().next()));
                    }
                }
            }
        }
        assert_eq!(
            Footprint::rect(0, [0; 3], [4, 1, 1], 0, 0),
            Err(FootprintError::Null)
        );
    }
}
