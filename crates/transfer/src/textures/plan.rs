//! One checked computation of every address of a transfer.
//!
//! Checking, sizing and copying all read the same [`Plan`], so that they cannot disagree. Every sum is in
//! 64 bits and checked. A plan that exists fits its backing.

use super::error::{Error, Result};
use super::shape::Texture;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Direction {
    /// From guest memory into the texture.
    Upload,
    /// From the texture into guest memory.
    Download,
}

/// A box of texels; `z` counts layers of an array and slices of a block.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Region {
    /// Leftmost texel.
    pub x: u32,
    /// Topmost texel.
    pub y: u32,
    /// First layer.
    pub z: u32,
    /// Texels from left to right.
    pub width: u32,
    /// Texels from top to bottom.
    pub height: u32,
    /// Layers.
    pub depth: u32,
}

impl Region {
    /// All texels of a picture.
    #[must_use]
    pub const fn picture(width: u32, height: u32) -> Self {
        Self {
            x: 0,
            y: 0,
            z: 0,
            width,
            height,
            depth: 1,
        }
    }

    /// Whether there is no texel in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Request {
    /// Which level.
    pub level: u32,
    /// Which texels.
    pub region: Region,
    /// The backing's offset of the region's first texel: it already includes `x` and `y`.
    pub offset: u64,
    /// Bytes from row to row of the backing; 0 for rows without gaps.
    pub stride: u64,
    /// Bytes from layer to layer; 0 for layers without gaps.
    pub layer_stride: u64,
    /// Which way.
    pub direction: Direction,
}

/// Rows of bytes at regular distances.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Lines {
    /// First byte of the first row.
    pub offset: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Rows of a layer.
    pub rows: u64,
    /// Bytes from row to row.
    pub stride: u64,
    /// Layers.
    pub layers: u64,
    /// Bytes from layer to layer.
    pub layer_stride: u64,
}

impl Lines {
    /// The same rows one after the other, from offset 0.
    #[must_use]
    pub const fn packed(&self) -> Self {
        Self {
            offset: 0,
            stride: self.row_bytes,
            layer_stride: self.row_bytes * self.rows,
            ..*self
        }
    }

    /// The same rows, `offset` bytes earlier; for a window that begins there.
    #[must_use]
    pub const fn from_offset(&self, offset: u64) -> Self {
        Self {
            offset: self.offset - offset,
            ..*self
        }
    }

    /// Bytes of all rows, without gaps.
    #[must_use]
    pub const fn payload(&self) -> u64 {
        self.row_bytes
            .saturating_mul(self.rows)
            .saturating_mul(self.layers)
    }

    /// The first byte after the last row; `u64::MAX` beyond 64 bits.
    #[must_use]
    pub fn end(&self) -> u64 {
        if self.payload() == 0 {
            return self.offset;
        }
        self.checked_end().unwrap_or(u64::MAX)
    }

    /// Whether no byte lies between the rows.
    #[must_use]
    pub const fn is_gapless(&self) -> bool {
        (self.rows <= 1 || self.stride == self.row_bytes)
            && (self.layers <= 1 || self.layer_stride == self.row_bytes * self.rows)
    }

    /// Where row `row` of layer `layer` begins.
    #[must_use]
    pub const fn row(&self, layer: u64, row: u64) -> u64 {
        self.offset + layer * self.layer_stride + row * self.stride
    }

    /// `end`, checked: for lines that are not yet known to fit.
    fn checked_end(&self) -> Option<u64> {
        let bytes = self.row_bytes.checked_mul(self.rows)?;
        bytes.checked_mul(self.layers)?;
        let layers = self.layers.checked_sub(1)?.checked_mul(self.layer_stride)?;
        let rows = self.rows.checked_sub(1)?.checked_mul(self.stride)?;
        let last = layers.checked_add(rows)?.checked_add(self.row_bytes)?;
        self.offset.checked_add(last)
    }
}

/// A transfer whose every address is known to be inside.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Plan {
    /// Which way.
    pub direction: Direction,
    /// Which level.
    pub level: u32,
    /// Which texels.
    pub region: Region,
    /// The rows in the backing.
    pub guest: Lines,
    /// The same rows in the level, stored without gaps.
    pub image: Lines,
    /// Bytes of a block of texels.
    pub block_bytes: u32,
    /// Texels of a block from left to right.
    pub block_width: u32,
    /// Texels of a block from top to bottom.
    pub block_height: u32,
}

impl Plan {
    /// Checks `request` against a texture and a backing of `backing_bytes` bytes.
    ///
    /// A region without texels is a plan that moves nothing, whatever the rest says.
    ///
    /// # Errors
    ///
    /// [`Error::Request`] if it does not fit the texture, [`Error::Backing`] if it does not fit the
    /// backing. Nothing was touched.
    pub fn new(texture: &Texture, request: &Request, backing_bytes: u64) -> Result<Self> {
        texture.check()?;
        let no = |reason| Error::Request { reason };
        if texture.samples > 1 {
            return Err(no("several samples per texel"));
        }
        let (row, rows, _layers) = texture.linear(request.level).ok_or(no("no such level"))?;
        if request.region.is_empty() {
            return Ok(Self::nothing(texture, request));
        }
        let blocks = Blocks::of(texture, request)?;
        let guest = blocks.guest(request)?;
        let fits = guest.checked_end().filter(|&end| end <= backing_bytes);
        if fits.is_none() {
            return Err(Error::Backing {
                needed: guest.checked_end().unwrap_or(u64::MAX),
                present: backing_bytes,
            });
        }
        let too_large = || no("a level of 2^64 bytes");
        let layer_stride = row.checked_mul(rows).ok_or_else(too_large)?;
        let first = layer_stride
            .checked_mul(blocks.z)
            .and_then(|at| at.checked_add(row.checked_mul(blocks.y)?))
            .and_then(|at| at.checked_add(blocks.x_bytes))
            .ok_or_else(too_large)?;
        let image = Lines {
            offset: first,
            stride: row,
            layer_stride,
            ..guest
        };
        image.checked_end().ok_or_else(too_large)?;
        Ok(Self {
            guest,
            image,
            ..Self::nothing(texture, request)
        })
    }

    /// Bytes that move.
    #[must_use]
    pub const fn payload(&self) -> u64 {
        self.guest.payload()
    }

    /// The backing's rows and layers in texels, for an interface that counts in these (Vulkan's
    /// `bufferRowLength` and `bufferImageHeight`); `None` if a stride is no whole number of them.
    #[must_use]
    pub fn texel_strides(&self) -> Option<(u32, u32)> {
        let block = u64::from(self.block_bytes);
        let stride = if self.guest.rows <= 1 {
            self.guest.row_bytes
        } else {
            self.guest.stride
        };
        if block == 0 || stride == 0 || !stride.is_multiple_of(block) {
            return None;
        }
        let rows = if self.guest.layers <= 1 {
            self.guest.rows
        } else if self.guest.layer_stride.is_multiple_of(stride) {
            self.guest.layer_stride / stride
        } else {
            return None;
        };
        let across = (stride / block).checked_mul(u64::from(self.block_width))?;
        let down = rows.checked_mul(u64::from(self.block_height))?;
        Some((u32::try_from(across).ok()?, u32::try_from(down).ok()?))
    }

    fn nothing(texture: &Texture, request: &Request) -> Self {
        Self {
            direction: request.direction,
            level: request.level,
            region: request.region,
            guest: Lines::default(),
            image: Lines::default(),
            block_bytes: texture.format.block_bytes(),
            block_width: texture.format.block_width(),
            block_height: texture.format.block_height(),
        }
    }
}

/// The region in blocks.
struct Blocks {
    x_bytes: u64,
    y: u64,
    z: u64,
    row_bytes: u64,
    rows: u64,
    layers: u64,
}

impl Blocks {
    fn of(texture: &Texture, request: &Request) -> Result<Self> {
        let no = |reason| Error::Request { reason };
        let extent = texture.extent(request.level).ok_or(no("no such level"))?;
        let region = &request.region;
        let inside =
            |from: u32, len: u32, side: u32| from.checked_add(len).is_some_and(|end| end <= side);
        if !inside(region.x, region.width, extent.width)
            || !inside(region.y, region.height, extent.height)
            || !inside(region.z, region.depth, extent.layers)
        {
            return Err(no("a box outside the level"));
        }
        let format = texture.format;
        // A box begins at a block and ends at one, or at the level's edge.
        let whole = |from: u32, len: u32, block: u32, side: u32| {
            from.is_multiple_of(block) && (len.is_multiple_of(block) || from + len == side)
        };
        if !whole(region.x, region.width, format.block_width(), extent.width)
            || !whole(
                region.y,
                region.height,
                format.block_height(),
                extent.height,
            )
        {
            return Err(no("a box that cuts blocks"));
        }
        let bytes = u64::from(format.block_bytes());
        Ok(Self {
            x_bytes: u64::from(region.x / format.block_width()) * bytes,
            y: u64::from(region.y / format.block_height()),
            z: u64::from(region.z),
            row_bytes: u64::from(region.width.div_ceil(format.block_width())) * bytes,
            rows: u64::from(region.height.div_ceil(format.block_height())),
            layers: u64::from(region.depth),
        })
    }

    /// The rows in the backing, with strides filled in and checked.
    fn guest(&self, request: &Request) -> Result<Lines> {
        let no = |reason| Error::Request { reason };
        let stride = match request.stride {
            0 => self.row_bytes,
            given if self.rows > 1 && given < self.row_bytes => {
                return Err(no("a stride shorter than a row"));
            }
            given => given,
        };
        // Bytes from the first row's start to the last row's end.
        let layer = (self.rows - 1)
            .checked_mul(stride)
            .and_then(|rows| rows.checked_add(self.row_bytes))
            .ok_or(no("a layer of 2^64 bytes"))?;
        let layer_stride = match request.layer_stride {
            0 => stride
                .checked_mul(self.rows)
                .ok_or(no("a layer of 2^64 bytes"))?,
            given if self.layers > 1 && given < layer => {
                return Err(no("a layer stride shorter than a layer"));
            }
            given => given,
        };
        Ok(Lines {
            offset: request.offset,
            row_bytes: self.row_bytes,
            rows: self.rows,
            stride,
            layers: self.layers,
            layer_stride,
        })
    }
}

impl Request {
    /// The whole picture, from offset 0, without gaps.
    #[must_use]
    pub const fn picture(width: u32, height: u32, direction: Direction) -> Self {
        Self {
            level: 0,
            region: Region::picture(width, height),
            offset: 0,
            stride: 0,
            layer_stride: 0,
            direction,
        }
    }
}
