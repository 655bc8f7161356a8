//! The host memory of a rectangular transfer, as rows.

/// Rows of equal length at a pitch, in slices at a pitch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rows {
    /// Address of the first byte.
    pub base: usize,
    /// Bytes of each row.
    pub row_bytes: usize,
    /// Bytes from a row to the next.
    pub row_pitch: usize,
    /// Rows of each slice.
    pub rows: usize,
    /// Bytes from a slice to the next.
    pub slice_pitch: usize,
    /// Slices.
    pub slices: usize,
}

impl Rows {
    /// One contiguous range.
    #[must_use]
    pub fn flat(base: usize, bytes: usize) -> Self {
        Self {
            base,
            row_bytes: bytes,
            row_pitch: bytes,
            rows: 1,
            slice_pitch: bytes,
            slices: 1,
        }
    }

    /// The host side of a buffer rectangle; pitches of 0 mean "packed".
    #[must_use]
    pub fn rect(
        base: usize,
        origin: [usize; 3],
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Self {
        let row_pitch = if row_pitch == 0 { region[0] } else { row_pitch };
        let slice_pitch = if slice_pitch == 0 {
            region[1].wrapping_mul(row_pitch)
        } else {
            slice_pitch
        };
        let start = origin[2]
            .wrapping_mul(slice_pitch)
            .wrapping_add(origin[1].wrapping_mul(row_pitch))
            .wrapping_add(origin[0]);
        Self {
            base: base.wrapping_add(start),
            row_bytes: region[0],
            row_pitch,
            rows: region[1],
            slice_pitch,
            slices: region[2],
        }
    }

    /// The host side of an image region of `element` bytes per pixel; pitches of 0 mean "packed".
    #[must_use]
    pub fn image(
        base: usize,
        element: usize,
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Self {
        let row = region[0].wrapping_mul(element);
        Self::rect(
            base,
            [0; 3],
            [row, region[1], region[2]],
            row_pitch,
            slice_pitch,
        )
    }

    /// Bytes that move.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.row_bytes
            .saturating_mul(self.rows)
            .saturating_mul(self.slices)
    }

    /// The ranges as (address, bytes), neighbours joined where rows are packed.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let mut all = *self;
        if all.row_pitch == all.row_bytes {
            all.row_bytes = all.row_bytes.saturating_mul(all.rows);
            all.rows = 1;
            if all.slice_pitch == all.row_bytes {
                all.row_bytes = all.row_bytes.saturating_mul(all.slices);
                all.slices = 1;
            }
        }
        (0..all.slices).flat_map(move |slice| {
            (0..all.rows).map(move |row| {
                let offset = slice
                    .wrapping_mul(all.slice_pitch)
                    .wrapping_add(row.wrapping_mul(all.row_pitch));
                (all.base.wrapping_add(offset), all.row_bytes)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_are_one_range() {
        let rows = Rows::image(0x1000, 4, [8, 3, 2], 0, 0);
        assert_eq!(rows.ranges().collect::<Vec<_>>(), [(0x1000, 192)]);
        assert_eq!(rows.bytes(), 192);
    }

    #[test]
    fn gaps_are_left_out() {
        let rows = Rows::rect(0, [1, 1, 0], [4, 2, 2], 10, 100);
        let ranges: Vec<_> = rows.ranges().collect();
        assert_eq!(ranges, [(11, 4), (21, 4), (111, 4), (121, 4)]);
    }
}
