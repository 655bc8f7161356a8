//! Which textures and transfers are understood.

use towpath_transfer::textures::{Dimension, Format, Plan, Request, Texture};

use crate::real::CreateArgs;

/// The plan of a transfer that one piece serves as well as many: one picture, every row inside, and rows at
/// whole texels, since GL counts in these.
pub(crate) fn checked(texture: &Texture, request: &Request, bytes: u64) -> Option<Plan> {
    let is_picture = request.region.depth <= 1;
    let plan = Plan::new(texture, request, bytes)
        .ok()
        .filter(|_| is_picture)?;
    let is_whole = plan.payload() == 0 || plan.texel_strides().is_some();
    is_whole.then_some(plan)
}

/// The shape of a texture whose transfers are understood here.
pub(crate) fn shape(args: &CreateArgs) -> Option<Texture> {
    let dimension = match args.target {
        TEXTURE_2D => Dimension::D2,
        TEXTURE_CUBE => Dimension::Cube,
        TEXTURE_RECT => Dimension::Rectangle,
        TEXTURE_2D_ARRAY => Dimension::D2Array,
        _ => return None,
    };
    Some(Texture {
        dimension,
        format: format(args.format)?,
        width: args.width,
        height: args.height,
        depth: 1,
        layers: args.array_size.max(1),
        levels: args.last_level.checked_add(1)?,
        samples: args.nr_samples.max(1),
    })
}

/// The common ones of `enum virgl_formats`.
fn format(number: u32) -> Option<Format> {
    let texel = match number {
        // L8, A8, I8; R8.
        9..=11 | 64 => 1,
        // 16 bits packed; L8A8; R8G8.
        5..=7 | 12 | 65 => 2,
        66 => 3,
        // 32 bits in any order; R32; R8G8B8A8; R16G16; sRGB; R8G8B8X8.
        1..=4 | 28 | 67 | 92 | 100 | 101 | 104 | 134 => 4,
        29 | 94 => 8,
        31 => 16,
        _ => return None,
    };
    Some(Format::texel(texel))
}

/// `enum pipe_texture_target`.
const TEXTURE_2D: u32 = 2;
const TEXTURE_CUBE: u32 = 4;
const TEXTURE_RECT: u32 = 5;
const TEXTURE_2D_ARRAY: u32 = 7;
