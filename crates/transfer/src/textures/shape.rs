//! What a texture or buffer is: dimension, format, extent.

use super::error::{Error, Result};

/// How a texture is laid out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Dimension {
    /// Bytes in a row; `width` counts bytes.
    Buffer,
    /// A row of texels.
    D1,
    /// Rows in an array.
    D1Array,
    /// A picture.
    D2,
    /// A picture addressed by texel, with one level.
    Rectangle,
    /// Pictures in an array.
    D2Array,
    /// Six pictures.
    Cube,
    /// Six pictures each, in an array.
    CubeArray,
    /// A block of texels.
    D3,
}

/// How texels are stored: in blocks of this size.
#[expect(clippy::struct_field_names, reason = "block width is the term")]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Format {
    block_width: u32,
    block_height: u32,
    block_bytes: u32,
}

impl Format {
    /// One byte per texel.
    pub const R8: Self = Self::texel(1);
    /// Four bytes per texel.
    pub const RGBA8: Self = Self::texel(4);
    /// BC1: 4 x 4 texels in 8 bytes.
    pub const BC1: Self = Self {
        block_width: 4,
        block_height: 4,
        block_bytes: 8,
    };

    /// A format without blocks.
    #[must_use]
    pub const fn texel(bytes: u32) -> Self {
        Self {
            block_width: 1,
            block_height: 1,
            block_bytes: bytes,
        }
    }

    /// A format of blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Texture`] if a side or the size is 0 or absurd: over 16 texels, over 64 bytes.
    pub fn blocks(width: u32, height: u32, bytes: u32) -> Result<Self> {
        let good = (1..=16).contains(&width) && (1..=16).contains(&height);
        if !good || !(1..=64).contains(&bytes) {
            return Err(Error::Texture {
                reason: "block size",
            });
        }
        Ok(Self {
            block_width: width,
            block_height: height,
            block_bytes: bytes,
        })
    }

    /// Texels of a block from left to right.
    #[must_use]
    pub const fn block_width(self) -> u32 {
        self.block_width
    }

    /// Texels of a block from top to bottom.
    #[must_use]
    pub const fn block_height(self) -> u32 {
        self.block_height
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> u32 {
        self.block_bytes
    }
}

/// A texture or buffer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Texture {
    /// How it is laid out.
    pub dimension: Dimension,
    /// How texels are stored.
    pub format: Format,
    /// Texels from left to right; bytes of a buffer.
    pub width: u32,
    /// Texels from top to bottom; 1 where there is one row.
    pub height: u32,
    /// Texels from front to back of a [`Dimension::D3`], else 1.
    pub depth: u32,
    /// Pictures or rows: of an array, 6 of a cube, else 1.
    pub layers: u32,
    /// Levels, at least 1.
    pub levels: u32,
    /// Samples per texel, at least 1.
    pub samples: u32,
}

/// Texels of one level; `layers` counts slices of a block too.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Extent {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
    /// Pictures: depth of a block, layers of an array.
    pub layers: u32,
}

impl Texture {
    /// A picture of one level.
    #[must_use]
    pub const fn picture(format: Format, width: u32, height: u32) -> Self {
        Self {
            dimension: Dimension::D2,
            format,
            width,
            height,
            depth: 1,
            layers: 1,
            levels: 1,
            samples: 1,
        }
    }

    /// A buffer of `bytes` bytes.
    #[must_use]
    pub const fn buffer(bytes: u32) -> Self {
        Self {
            dimension: Dimension::Buffer,
            format: Format::R8,
            width: bytes,
            height: 1,
            depth: 1,
            layers: 1,
            levels: 1,
            samples: 1,
        }
    }

    /// Checks that the parts fit each other.
    ///
    /// # Errors
    ///
    /// [`Error::Texture`] with the first part that does not.
    pub fn check(&self) -> Result<()> {
        let no = |reason| Err(Error::Texture { reason });
        if self.width == 0 || self.height == 0 || self.depth == 0 || self.layers == 0 {
            return no("a side of 0");
        }
        if self.levels == 0 || self.samples == 0 {
            return no("no level or sample");
        }
        let flat = self.height == 1 && self.depth == 1;
        let good = match self.dimension {
            Dimension::Buffer => flat && self.layers == 1 && self.levels == 1 && self.samples == 1,
            Dimension::D1 => flat && self.layers == 1,
            Dimension::D1Array => flat,
            Dimension::D2 => self.depth == 1 && self.layers == 1,
            Dimension::Rectangle => self.depth == 1 && self.layers == 1 && self.levels == 1,
            Dimension::D2Array => self.depth == 1,
            Dimension::Cube => self.depth == 1 && self.layers == 6 && self.width == self.height,
            Dimension::CubeArray => {
                self.depth == 1 && self.layers.is_multiple_of(6) && self.width == self.height
            }
            Dimension::D3 => self.layers == 1 && self.samples == 1,
        };
        if !good {
            return no("sides that its dimension does not have");
        }
        if self.dimension == Dimension::Buffer && self.format != Format::R8 {
            return no("a buffer of other than bytes");
        }
        let longest = self.width.max(self.height).max(self.depth);
        if self.levels > 32 - longest.leading_zeros() {
            return no("more levels than halvings");
        }
        Ok(())
    }

    /// The extent of `level`, or `None` if there is no such level.
    #[must_use]
    pub fn extent(&self, level: u32) -> Option<Extent> {
        if level >= self.levels {
            return None;
        }
        let halved = |side: u32| side.checked_shr(level).unwrap_or(0).max(1);
        Some(Extent {
            width: halved(self.width),
            height: halved(self.height),
            layers: if self.dimension == Dimension::D3 {
                halved(self.depth)
            } else {
                self.layers
            },
        })
    }

    /// Bytes of one row of blocks, rows, and layers of `level`, stored without gaps.
    #[must_use]
    pub fn linear(&self, level: u32) -> Option<(u64, u64, u64)> {
        let extent = self.extent(level)?;
        let across = extent.width.div_ceil(self.format.block_width);
        let row = u64::from(across) * u64::from(self.format.block_bytes);
        let rows = extent.height.div_ceil(self.format.block_height);
        Some((row, u64::from(rows), u64::from(extent.layers)))
    }

    /// Bytes of `level` stored without gaps; `None` for no such level or beyond 64 bits.
    #[must_use]
    pub fn linear_bytes(&self, level: u32) -> Option<u64> {
        let (row, rows, layers) = self.linear(level)?;
        row.checked_mul(rows)?.checked_mul(layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_halve_down_to_one() {
        let texture = Texture {
            levels: 5,
            ..Texture::picture(Format::RGBA8, 17, 3)
        };
        texture.check().unwrap();
        let sides = |level| texture.extent(level).map(|e| (e.width, e.height));
        assert_eq!(sides(1), Some((8, 1)));
        assert_eq!(sides(4), Some((1, 1)));
        assert_eq!(sides(5), None);
        let too_many = Texture {
            levels: 6,
            ..texture
        };
        assert!(too_many.check().is_err());
    }

    #[test]
    fn blocks_round_up() {
        let texture = Texture::picture(Format::BC1, 9, 5);
        assert_eq!(texture.linear(0), Some((24, 2, 1)));
        assert_eq!(texture.linear_bytes(0), Some(48));
    }

    #[test]
    fn impossible_textures_are_refused() {
        let good = Texture::picture(Format::RGBA8, 8, 8);
        for bad in [
            Texture { width: 0, ..good },
            Texture { layers: 2, ..good },
            Texture {
                dimension: Dimension::Cube,
                layers: 5,
                ..good
            },
            Texture {
                dimension: Dimension::CubeArray,
                layers: 7,
                ..good
            },
            Texture {
                dimension: Dimension::Buffer,
                ..good
            },
            Texture { samples: 0, ..good },
            Texture { levels: 0, ..good },
            Texture {
                levels: u32::MAX,
                ..good
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
