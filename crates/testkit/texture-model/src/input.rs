//! Bytes as a source of cases: small numbers mostly, sides and sums at their limits now and then.

use towpath_transfer::textures::shape::{Dimension, Format, Texture};
use towpath_transfer::textures::{Direction, Entry, Region, Request};

use crate::{Case, RAM_BYTES};

/// A source of choices; zeros once the bytes are used up.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    /// Choices from `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether bytes are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        first
    }

    /// A coin.
    pub fn bool(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        let value = u32::from(self.byte()) | u32::from(self.byte()) << 8;
        value % end.max(1)
    }

    /// A number that is small as a rule and hostile one time in sixteen.
    pub fn u64(&mut self, small: u32) -> u64 {
        match self.byte() {
            0 => u64::MAX,
            1 => u64::MAX - u64::from(self.below(16)),
            2 => 1 << 32,
            3 => (1 << 31) + u64::from(self.below(3)),
            4 => 1 << 63,
            5..16 => 1 << (self.byte() % 64),
            _ => u64::from(self.below(small)),
        }
    }

    /// As [`u64`](Self::u64), in 32 bits.
    pub fn u32(&mut self, small: u32) -> u32 {
        let wide = self.u64(small);
        u32::try_from(wide).unwrap_or(u32::MAX)
    }

    /// A texture, mostly possible.
    pub fn texture(&mut self) -> Texture {
        let dimensions = [
            Dimension::D2,
            Dimension::Buffer,
            Dimension::D1,
            Dimension::D1Array,
            Dimension::Rectangle,
            Dimension::D2Array,
            Dimension::Cube,
            Dimension::CubeArray,
            Dimension::D3,
        ];
        let index = usize::from(self.byte()) % dimensions.len();
        let dimension = dimensions.get(index).copied().unwrap_or(Dimension::D2);
        let format = match self.byte() % 6 {
            0 => Format::R8,
            1 => Format::BC1,
            2 => Format::texel(3),
            3 => Format::texel(16),
            _ => Format::RGBA8,
        };
        let side = |input: &mut Self| 1 + input.below(24);
        let mut texture = Texture {
            dimension,
            format,
            width: side(self),
            height: side(self),
            depth: 1,
            layers: 1,
            levels: 1 + u32::from(self.byte() % 3),
            samples: 1 + u32::from(self.byte() == 255),
        };
        match dimension {
            Dimension::Buffer => {
                texture = Texture::buffer(1 + self.below(4096));
            }
            Dimension::D1 => texture.height = 1,
            Dimension::D1Array => {
                texture.height = 1;
                texture.layers = 1 + self.below(4);
            }
            Dimension::Rectangle => texture.levels = 1,
            Dimension::D2Array => texture.layers = 1 + self.below(4),
            Dimension::Cube | Dimension::CubeArray => {
                texture.height = texture.width;
                texture.layers = if dimension == Dimension::Cube { 6 } else { 12 };
            }
            Dimension::D3 => texture.depth = side(self).min(6),
            _ => {}
        }
        if self.byte() == 7 {
            texture.layers = self.u32(9);
        }
        texture
    }

    /// Pieces, mostly inside the memory.
    pub fn entries(&mut self) -> Vec<Entry> {
        let count = self.byte() % 24;
        (0..count)
            .map(|_entry| match self.byte() {
                0 => Entry {
                    address: self.u64(4096),
                    len: self.u64(4096),
                },
                1..100 => Entry {
                    address: u64::from(self.below(16)) * 4096,
                    len: 4096,
                },
                _ => {
                    let ram = u32::try_from(RAM_BYTES).unwrap_or(0);
                    let address = self.below(ram);
                    Entry {
                        address: u64::from(address),
                        len: u64::from(self.below((ram - address).min(3000) + 1)),
                    }
                }
            })
            .collect()
    }

    /// A request, mostly inside the texture.
    pub fn request(&mut self, texture: &Texture) -> Request {
        let level = if self.byte() == 9 {
            self.u32(4)
        } else {
            self.below(texture.levels.max(1))
        };
        let extent = texture.extent(level);
        let sides = extent.map_or((1, 1, 1), |e| (e.width, e.height, e.layers));
        let (x, width) = self.range(sides.0, texture.format.block_width());
        let (y, height) = self.range(sides.1, texture.format.block_height());
        let (z, depth) = self.range(sides.2, 1);
        Request {
            level,
            region: Region {
                x,
                y,
                z,
                width,
                height,
                depth,
            },
            offset: self.u64(600),
            stride: if self.bool() { 0 } else { self.u64(400) },
            layer_stride: if self.bool() { 0 } else { self.u64(6000) },
            direction: if self.bool() {
                Direction::Upload
            } else {
                Direction::Download
            },
        }
    }

    /// A start and a length within `side`, at blocks as a rule.
    fn range(&mut self, side: u32, block: u32) -> (u32, u32) {
        if self.byte() < 8 {
            let past = side.saturating_add(2);
            return (self.u32(past), self.u32(past));
        }
        let blocks = side.div_ceil(block.max(1));
        let first = self.below(blocks);
        let count = self.below((blocks - first).saturating_add(1));
        let from = first.saturating_mul(block);
        let to = first.saturating_add(count).saturating_mul(block).min(side);
        (from, to.saturating_sub(from))
    }

    /// A whole case.
    pub fn case(&mut self) -> Case {
        let texture = self.texture();
        let entries = self.entries();
        let request = self.request(&texture);
        Case {
            texture,
            entries,
            request,
        }
    }
}
