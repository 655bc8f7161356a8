//! The arguments of one transfer call of a program, and the same call for its last row alone.

#![expect(unsafe_code, reason = "forwards calls of the OpenCL ABI")]

use std::ffi::c_void;

use super::abi::{Functions, Handle};
use crate::readback::{Footprint, FootprintError, ImageShape};

/// A region of a program's memory object. All sizes in bytes but those of images, which are in pixels.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Region {
    /// Bytes of a buffer that follow one another.
    Buffer {
        /// The buffer.
        memory: Handle,
        /// First byte.
        offset: usize,
    },
    /// Rows of a buffer.
    Rect {
        /// The buffer.
        memory: Handle,
        /// Bytes, rows, slices to the first byte.
        origin: [usize; 3],
        /// Bytes, rows, slices.
        region: [usize; 3],
        /// Bytes from row to row, 0 for packed.
        row_pitch: usize,
        /// Bytes from slice to slice, 0 for packed.
        slice_pitch: usize,
    },
    /// Pixels of an image.
    Image {
        /// The image.
        memory: Handle,
        /// First pixel.
        origin: [usize; 3],
        /// Pixels, rows, slices; each at least 1.
        region: [usize; 3],
    },
}

/// How the rows of a region lie in host memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum HostRows {
    /// This many bytes, one after another.
    Bytes(usize),
    /// As in `clEnqueueReadBufferRect`; bytes, rows and slices of the region come from it.
    Rect {
        /// Bytes, rows, slices to the first byte.
        origin: [usize; 3],
        /// Bytes from row to row, 0 for packed.
        row_pitch: usize,
        /// Bytes from slice to slice, 0 for packed.
        slice_pitch: usize,
    },
    /// As in `clEnqueueReadImage`.
    Image {
        /// The image's shape.
        shape: ImageShape,
        /// Bytes of a pixel.
        element_bytes: usize,
        /// Bytes from row to row, 0 for packed.
        row_pitch: usize,
        /// Bytes from slice to slice, 0 for packed.
        slice_pitch: usize,
    },
}

/// The arguments of one read or write of a program.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Where on the device.
    pub region: Region,
    /// The host pointer's address.
    pub host: usize,
    /// How rows lie from there.
    pub rows: HostRows,
}

impl Transfer {
    /// The exact host bytes.
    ///
    /// # Errors
    ///
    /// [`FootprintError`]; forward the call. Also where region and rows are not of one kind.
    pub fn footprint(&self) -> Result<Footprint, FootprintError> {
        match (&self.region, self.rows) {
            (Region::Buffer { .. }, HostRows::Bytes(bytes)) => Footprint::buffer(self.host, bytes),
            (
                Region::Rect { region, .. },
                HostRows::Rect {
                    origin,
                    row_pitch,
                    slice_pitch,
                },
            ) => Footprint::rect(self.host, origin, *region, row_pitch, slice_pitch),
            (
                Region::Image { region, .. },
                HostRows::Image {
                    shape,
                    element_bytes,
                    row_pitch,
                    slice_pitch,
                },
            ) => Footprint::image(
                self.host,
                shape,
                element_bytes,
                *region,
                row_pitch,
                slice_pitch,
            ),
            _ => Err(FootprintError::Pitch),
        }
    }

    /// The same call for its last row (of a buffer: its last bytes, up to 4096) alone, and how many
    /// bytes that is. `None` where it has only one row.
    #[must_use]
    pub fn last_row(&self) -> Option<(Self, usize)> {
        let footprint = self.footprint().ok()?;
        match (self.region, self.rows) {
            (Region::Buffer { memory, offset }, HostRows::Bytes(bytes)) => {
                let left = bytes.checked_sub(LAST_BYTES).filter(|left| *left > 0)?;
                let last = Self {
                    region: Region::Buffer {
                        memory,
                        offset: offset.checked_add(left)?,
                    },
                    host: self.host + left,
                    rows: HostRows::Bytes(LAST_BYTES),
                };
                Some((last, LAST_BYTES))
            }
            (Region::Rect { .. }, HostRows::Rect { .. }) => self.last_of_rect(),
            (
                Region::Image {
                    memory,
                    origin,
                    region,
                },
                HostRows::Image { element_bytes, .. },
            ) => {
                let [x, y, z] = origin;
                let [width, height, depth] = region;
                if height * depth < 2 {
                    return None;
                }
                let row_bytes = width * element_bytes;
                let last = Self {
                    region: Region::Image {
                        memory,
                        origin: [x, y.checked_add(height - 1)?, z.checked_add(depth - 1)?],
                        region: [width, 1, 1],
                    },
                    host: footprint.envelope().end() - row_bytes,
                    rows: match self.rows {
                        // One row: packed pitches say the same and suit every shape.
                        HostRows::Image {
                            shape,
                            element_bytes,
                            ..
                        } => HostRows::Image {
                            shape,
                            element_bytes,
                            row_pitch: 0,
                            slice_pitch: 0,
                        },
                        other => other,
                    },
                };
                Some((last, row_bytes))
            }
            _ => None,
        }
    }

    fn last_of_rect(&self) -> Option<(Self, usize)> {
        let (
            Region::Rect {
                memory,
                origin,
                region,
                row_pitch,
                slice_pitch,
            },
            HostRows::Rect { .. },
        ) = (self.region, self.rows)
        else {
            return None;
        };
        let [row_bytes, rows, slices] = region;
        if rows.checked_mul(slices)? < 2 {
            return None;
        }
        // Pitches of 0 come from the whole region, and offsets of the last row from them. The row is
        // named by its first byte instead, in a rectangle of its own without an origin.
        let row_pitch = if row_pitch == 0 { row_bytes } else { row_pitch };
        let slice_pitch = if slice_pitch == 0 {
            row_pitch.checked_mul(rows)?
        } else {
            slice_pitch
        };
        let [x, y, z] = origin;
        let first = z
            .checked_add(slices - 1)?
            .checked_mul(slice_pitch)?
            .checked_add(y.checked_add(rows - 1)?.checked_mul(row_pitch)?)?
            .checked_add(x)?;
        let last = Self {
            region: Region::Rect {
                memory,
                origin: [first, 0, 0],
                region: [row_bytes, 1, 1],
                row_pitch: 0,
                slice_pitch: 0,
            },
            host: self.footprint().ok()?.envelope().end() - row_bytes,
            rows: HostRows::Rect {
                origin: [0; 3],
                row_pitch: 0,
                slice_pitch: 0,
            },
        };
        Some((last, row_bytes))
    }

    /// Calls the driver's own read with these arguments.
    ///
    /// # Safety
    ///
    /// Those of the OpenCL call: live handles, and host memory valid for the call.
    #[expect(
        clippy::too_many_lines,
        reason = "three calls and their arguments, one after another"
    )]
    pub unsafe fn forward_read(
        &self,
        functions: &Functions,
        queue: Handle,
        is_blocking: bool,
        wait_list: &[Handle],
        event: *mut Handle,
    ) -> i32 {
        let to: *mut c_void = std::ptr::with_exposed_provenance_mut(self.host);
        let blocking = u32::from(is_blocking);
        let (count, events) = list(wait_list);
        match (&self.region, self.rows) {
            (Region::Buffer { memory, offset }, HostRows::Bytes(bytes)) => {
                // SAFETY: the caller's promise.
                unsafe {
                    (functions.read_buffer)(
                        queue, *memory, blocking, *offset, bytes, to, count, events, event,
                    )
                }
            }
            (
                Region::Rect {
                    memory,
                    origin,
                    region,
                    row_pitch,
                    slice_pitch,
                },
                HostRows::Rect {
                    origin: host,
                    row_pitch: rows,
                    slice_pitch: slices,
                },
            ) => {
                let (at, size) = (origin.as_ptr(), region.as_ptr());
                // SAFETY: the caller's promise; the arrays live over the call.
                unsafe {
                    (functions.read_buffer_rect)(
                        queue,
                        *memory,
                        blocking,
                        at,
                        host.as_ptr(),
                        size,
                        *row_pitch,
                        *slice_pitch,
                        rows,
                        slices,
                        to,
                        count,
                        events,
                        event,
                    )
                }
            }
            (
                Region::Image {
                    memory,
                    origin,
                    region,
                },
                HostRows::Image {
                    row_pitch,
                    slice_pitch,
                    ..
                },
            ) => {
                let (at, size) = (origin.as_ptr(), region.as_ptr());
                // SAFETY: the caller's promise; the arrays live over the call.
                unsafe {
                    (functions.read_image)(
                        queue,
                        *memory,
                        blocking,
                        at,
                        size,
                        row_pitch,
                        slice_pitch,
                        to,
                        count,
                        events,
                        event,
                    )
                }
            }
            _ => INVALID_VALUE,
        }
    }

    /// Calls the driver's own write with these arguments.
    ///
    /// # Safety
    ///
    /// Those of the OpenCL call: live handles, and host memory valid for the call.
    #[expect(
        clippy::too_many_lines,
        reason = "three calls and their arguments, one after another"
    )]
    pub unsafe fn forward_write(
        &self,
        functions: &Functions,
        queue: Handle,
        is_blocking: bool,
        wait_list: &[Handle],
        event: *mut Handle,
    ) -> i32 {
        let from: *const c_void = std::ptr::with_exposed_provenance(self.host);
        let blocking = u32::from(is_blocking);
        let (count, events) = list(wait_list);
        match (&self.region, self.rows) {
            (Region::Buffer { memory, offset }, HostRows::Bytes(bytes)) => {
                // SAFETY: the caller's promise.
                unsafe {
                    (functions.write_buffer)(
                        queue, *memory, blocking, *offset, bytes, from, count, events, event,
                    )
                }
            }
            (
                Region::Rect {
                    memory,
                    origin,
                    region,
                    row_pitch,
                    slice_pitch,
                },
                HostRows::Rect {
                    origin: host,
                    row_pitch: rows,
                    slice_pitch: slices,
                },
            ) => {
                let (at, size) = (origin.as_ptr(), region.as_ptr());
                // SAFETY: the caller's promise; the arrays live over the call.
                unsafe {
                    (functions.write_buffer_rect)(
                        queue,
                        *memory,
                        blocking,
                        at,
                        host.as_ptr(),
                        size,
                        *row_pitch,
                        *slice_pitch,
                        rows,
                        slices,
                        from,
                        count,
                        events,
                        event,
                    )
                }
            }
            (
                Region::Image {
                    memory,
                    origin,
                    region,
                },
                HostRows::Image {
                    row_pitch,
                    slice_pitch,
                    ..
                },
            ) => {
                let (at, size) = (origin.as_ptr(), region.as_ptr());
                // SAFETY: the caller's promise; the arrays live over the call.
                unsafe {
                    (functions.write_image)(
                        queue,
                        *memory,
                        blocking,
                        at,
                        size,
                        row_pitch,
                        slice_pitch,
                        from,
                        count,
                        events,
                        event,
                    )
                }
            }
            _ => INVALID_VALUE,
        }
    }
}

fn list(wait_list: &[Handle]) -> (u32, *const Handle) {
    if wait_list.is_empty() {
        return (0, std::ptr::null());
    }
    (
        u32::try_from(wait_list.len()).unwrap_or(u32::MAX),
        wait_list.as_ptr(),
    )
}

/// 4096: one page; the smallest read that drivers do not treat as a special case is far below.
const LAST_BYTES: usize = 4096;
/// `CL_INVALID_VALUE`.
const INVALID_VALUE: i32 = -30;

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: usize = 0x10_0000;
    const NONE: Handle = std::ptr::null_mut();

    fn last_bytes(call: &Transfer) -> (usize, usize) {
        let (last, bytes) = call.last_row().unwrap();
        let (whole, row) = (call.footprint().unwrap(), last.footprint().unwrap());
        assert_eq!(row.bytes(), bytes);
        assert_eq!(row.envelope().end(), whole.envelope().end());
        (row.envelope().address, bytes)
    }

    #[test]
    fn the_last_row_ends_where_the_call_ends() {
        let buffer = Transfer {
            region: Region::Buffer {
                memory: NONE,
                offset: 50,
            },
            host: HOST,
            rows: HostRows::Bytes(10_000),
        };
        assert_eq!(last_bytes(&buffer), (HOST + 10_000 - 4096, 4096));
        let (last, _) = buffer.last_row().unwrap();
        assert!(matches!(last.region, Region::Buffer { offset: 5954, .. }));

        let rect = Transfer {
            region: Region::Rect {
                memory: NONE,
                origin: [3, 1, 2],
                region: [100, 4, 5],
                row_pitch: 128,
                slice_pitch: 1280,
            },
            host: HOST,
            rows: HostRows::Rect {
                origin: [7, 0, 1],
                row_pitch: 0,
                slice_pitch: 0,
            },
        };
        assert_eq!(last_bytes(&rect).1, 100);
        let (last, _) = rect.last_row().unwrap();
        let first = 6 * 1280 + 4 * 128 + 3;
        assert!(matches!(last.region, Region::Rect { origin: [at, 0, 0], .. } if at == first));

        let image = Transfer {
            region: Region::Image {
                memory: NONE,
                origin: [1, 2, 3],
                region: [10, 20, 4],
            },
            host: HOST,
            rows: HostRows::Image {
                shape: ImageShape::D3,
                element_bytes: 4,
                row_pitch: 64,
                slice_pitch: 0,
            },
        };
        assert_eq!(last_bytes(&image).1, 40);
        let (last, _) = image.last_row().unwrap();
        assert!(matches!(
            last.region,
            Region::Image {
                origin: [1, 21, 6],
                ..
            }
        ));
    }

    #[test]
    fn a_single_row_has_no_last_row_to_split_off() {
        let one = Transfer {
            region: Region::Image {
                memory: NONE,
                origin: [0; 3],
                region: [10, 1, 1],
            },
            host: HOST,
            rows: HostRows::Image {
                shape: ImageShape::D2,
                element_bytes: 16,
                row_pitch: 0,
                slice_pitch: 0,
            },
        };
        assert!(one.last_row().is_none());
        let small = Transfer {
            region: Region::Buffer {
                memory: NONE,
                offset: 0,
            },
            host: HOST,
            rows: HostRows::Bytes(4096),
        };
        assert!(small.last_row().is_none());
    }
}
