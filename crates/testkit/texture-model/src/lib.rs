//! A naive model of texture transfers: byte by byte, in 128 bits, sharing no code with the library.
//!
//! [`check`] decodes any bytes into a texture, a backing and a request, runs the model and the library,
//! and panics where they differ. The fuzz targets and the ordinary tests call it.

#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    clippy::too_many_lines,
    reason = "a test helper: a difference is a panic"
)]

pub mod backing;
pub mod input;
pub mod stream;

use std::sync::Arc;

use towpath_transfer::textures::gather::Stores;
use towpath_transfer::textures::null::{IMAGE_BYTES_MAX, Null};
use towpath_transfer::textures::shape::{Dimension, Texture};
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Entry, Error, Memory, Plan, Ram, Request, Source,
};

pub use input::Input;

/// Bytes of guest memory in every case.
pub const RAM_BYTES: u64 = 64 << 10;

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is transferred to or from.
    pub texture: Texture,
    /// The pieces.
    pub entries: Vec<Entry>,
    /// What is asked for.
    pub request: Request,
}

/// Where each byte of a transfer lies: offsets of the backing and of the level; `None` if the request
/// must be refused.
pub type Moves = Option<Vec<(u64, u64)>>;

/// Computes every address of the request, one byte at a time.
#[must_use]
pub fn moves(texture: &Texture, request: &Request, backing_bytes: u64) -> Moves {
    if texture.samples > 1 || request.level >= texture.levels {
        return None;
    }
    let region = request.region;
    if region.width == 0 || region.height == 0 || region.depth == 0 {
        return Some(Vec::new());
    }
    let halved = |side: u32| u128::from((side >> request.level).max(1));
    let (width, height) = (halved(texture.width), halved(texture.height));
    let layers = match texture.dimension {
        Dimension::D3 => halved(texture.depth),
        _ => u128::from(texture.layers),
    };
    let (x, y, z): (u128, u128, u128) = (region.x.into(), region.y.into(), region.z.into());
    let (w, h, d): (u128, u128, u128) = (
        region.width.into(),
        region.height.into(),
        region.depth.into(),
    );
    if x + w > width || y + h > height || z + d > layers {
        return None;
    }
    let block_width = u128::from(texture.format.block_width());
    let block_height = u128::from(texture.format.block_height());
    let block_bytes = u128::from(texture.format.block_bytes());
    let cuts = |from: u128, len: u128, block: u128, side: u128| {
        !from.is_multiple_of(block) || (!len.is_multiple_of(block) && from + len != side)
    };
    if cuts(x, w, block_width, width) || cuts(y, h, block_height, height) {
        return None;
    }
    let across = w.div_ceil(block_width);
    let down = h.div_ceil(block_height);
    let row = across * block_bytes;
    let stride = match u128::from(request.stride) {
        0 => row,
        given if down > 1 && given < row => return None,
        given => given,
    };
    let layer_stride = match u128::from(request.layer_stride) {
        0 => stride * down,
        given if d > 1 && given < (down - 1) * stride + row => return None,
        given => given,
    };
    let last = u128::from(request.offset) + (d - 1) * layer_stride + (down - 1) * stride + row;
    if last > u128::from(backing_bytes) {
        return None;
    }
    let level_row = width.div_ceil(block_width) * block_bytes;
    let level_layer = level_row * height.div_ceil(block_height);
    let mut moves = Vec::new();
    for layer in 0..d {
        for line in 0..down {
            for byte in 0..row {
                let guest =
                    u128::from(request.offset) + layer * layer_stride + line * stride + byte;
                let image = (z + layer) * level_layer
                    + (y / block_height + line) * level_row
                    + x / block_width * block_bytes
                    + byte;
                moves.push((narrow(guest), narrow(image)));
            }
        }
    }
    Some(moves)
}

/// The guest address of every byte of a backing.
#[must_use]
pub fn addresses(entries: &[Entry]) -> Vec<u64> {
    let ranges = entries.iter().map(|e| e.address..e.address + e.len);
    ranges.flatten().collect()
}

/// Decodes `data`, runs the model and the library, and compares every byte of both sides. Returns the
/// bytes that moved, or `None` if both refused.
pub fn check(data: &[u8]) -> Option<u64> {
    let mut input = Input::new(data);
    let case = input.case();
    compare(&case, &mut input)
}

fn compare(case: &Case, input: &mut Input<'_>) -> Option<u64> {
    let Case {
        texture,
        entries,
        request,
    } = case;
    let ram = Arc::new(Ram::new(RAM_BYTES).expect("memory"));
    let pattern = fill(&ram, RAM_BYTES, 1);
    let memory: Arc<dyn Memory> = Arc::clone(&ram) as Arc<dyn Memory>;
    let backing = match Backing::attach(&memory, entries) {
        Ok(backing) => backing,
        Err(error) => {
            let inside = |e: &Entry| {
                e.address
                    .checked_add(e.len)
                    .is_some_and(|end| end <= RAM_BYTES)
            };
            let good = entries.iter().filter(|e| e.len > 0).all(inside);
            assert!(!good, "a good list was refused: {error}");
            return None;
        }
    };
    let places = addresses(entries);
    assert_eq!(backing.len(), places.len() as u64);

    if let Err(error) = texture.check() {
        let answer = Plan::new(texture, request, backing.len());
        assert!(answer.is_err(), "planned for a texture refused by: {error}");
        return None;
    }
    let expected = moves(texture, request, backing.len());
    let plan = match (
        Plan::new(texture, request, backing.len()),
        expected.is_some(),
    ) {
        (Ok(plan), true) => plan,
        (Err(_), false) => return None,
        (Ok(plan), false) => panic!("must be refused: {case:?} gave {plan:?}"),
        (Err(error), true) => panic!("must be planned: {case:?} gave {error}"),
    };
    let moves = expected.unwrap();
    assert_eq!(plan.payload(), moves.len() as u64, "{case:?}");

    let mut null = Null;
    let image_bytes = levels_bytes(texture);
    if image_bytes > u128::from(IMAGE_BYTES_MAX) {
        assert!(null.create(texture).is_err(), "{case:?} in memory");
        return None;
    }
    if image_bytes > COMPARED_BYTES_MAX {
        return None;
    }
    let mut image = null.create(texture).expect("image");
    let stores = if input.bool() {
        Stores::Streaming
    } else {
        Stores::Cached
    };
    if request.direction == Direction::Download {
        prepare(&mut null, &mut image, texture, request.level);
    }
    let before = image.level(request.level).unwrap_or_default().to_vec();
    let source = Source::Pieces(&backing);
    null.transfer(&mut image, &plan, source, stores)
        .expect("transfer");

    let moved = moves.len() as u64;
    let mut right_ram = pattern;
    let mut right_image = before;
    for (guest, level) in moves {
        let place = usize::try_from(places[usize::try_from(guest).unwrap()]).unwrap();
        let level = usize::try_from(level).unwrap();
        match request.direction {
            Direction::Upload => right_image[level] = right_ram[place],
            Direction::Download => right_ram[place] = right_image[level],
        }
    }
    let seen = image.level(request.level).unwrap_or_default();
    assert!(seen == right_image, "image bytes differ: {case:?}");
    assert!(
        ram.bytes().to_vec() == right_ram,
        "guest bytes differ: {case:?}"
    );
    Some(moved)
}

/// Bytes of all levels of a texture.
fn levels_bytes(texture: &Texture) -> u128 {
    let sides = |level: u32| {
        let halved = |side: u32| u128::from((side >> level).max(1));
        let layers = match texture.dimension {
            Dimension::D3 => halved(texture.depth),
            _ => u128::from(texture.layers),
        };
        let across = halved(texture.width).div_ceil(texture.format.block_width().into());
        let down = halved(texture.height).div_ceil(texture.format.block_height().into());
        across * down * layers
    };
    let blocks: u128 = (0..texture.levels).map(sides).sum();
    blocks * u128::from(texture.format.block_bytes())
}

/// A larger image is planned, but not made: comparing every byte of a gigabyte finds no more than of a megabyte.
const COMPARED_BYTES_MAX: u128 = 16 << 20;

/// Fills a level with noise through an upload of its own, so that a download has something to show.
fn prepare(
    null: &mut Null,
    image: &mut <Null as towpath_transfer::textures::Backend>::Image,
    texture: &Texture,
    level: u32,
) {
    let bytes = texture.linear_bytes(level).unwrap();
    let extent = texture.extent(level).unwrap();
    let ram = Arc::new(Ram::new(bytes.max(1).next_multiple_of(4096)).expect("memory"));
    fill(&ram, bytes, 2);
    let memory: Arc<dyn Memory> = ram;
    let whole = Entry {
        address: 0,
        len: bytes,
    };
    let backing = Backing::attach(&memory, &[whole]).expect("backing");
    let request = Request {
        level,
        region: towpath_transfer::textures::Region {
            x: 0,
            y: 0,
            z: 0,
            width: extent.width,
            height: extent.height,
            depth: extent.layers,
        },
        offset: 0,
        stride: 0,
        layer_stride: 0,
        direction: Direction::Upload,
    };
    let plan = Plan::new(texture, &request, backing.len()).expect("a whole level");
    let source = Source::Pieces(&backing);
    null.transfer(image, &plan, source, Stores::Cached)
        .expect("upload");
}

/// Fills the first `bytes` bytes of memory with noise, and gives them.
pub fn fill(ram: &Ram, bytes: u64, seed: u64) -> Vec<u8> {
    let noise: Vec<u8> = (0..bytes).map(|at| noise(at, seed)).collect();
    ram.bytes().copy_from(&noise);
    noise
}

/// A byte that differs from its neighbours in rows of any usual length.
#[must_use]
pub fn noise(at: u64, seed: u64) -> u8 {
    let mixed = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56).to_le_bytes()[0]
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).expect("checked against the backing")
}

/// Whether an error is one that a hostile request may cause.
#[must_use]
pub const fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Texture { .. }
            | Error::Request { .. }
            | Error::Backing { .. }
            | Error::NotGuestMemory { .. }
            | Error::TooManyPieces { .. }
            | Error::Revoked
    )
}
