//! One cell of the matrix: one kind of memory, size and state, and the samples of its arms.

use anyhow::{Context, Result};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_transfer::engine::Shape;
use towpath_transfer::opencl::{Cl, Staging};

use super::arm::{Arm, Sample};
use super::calls::Device;
use super::memory::State;
use super::transfer::{PICTURE, PICTURE_BYTES, PIXEL_BYTES};

/// What kind of device memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum Kind {
    /// A buffer.
    Buffer,
    /// Rows of a buffer with gaps between them on the device.
    Rect,
    /// A two-dimensional image of four floats.
    Image,
    /// glbench's `pixel_read`, rows at multiples of four bytes.
    PixelRead,
    /// Its `pixel_read_2`, rows packed.
    PixelRead2,
    /// Its `pixel_read_3`, packed and to an odd address.
    PixelRead3,
}

/// glbench's forms of reading the window back: 512 x 512 pixels of four bytes.
pub(super) const PIXEL_READS: [Kind; 3] = [Kind::PixelRead, Kind::PixelRead2, Kind::PixelRead3];
/// Side of that window.
const WINDOW: usize = 512;
/// Pixels of it: glbench divides by microseconds, which gives millions of pixels a second.
pub(super) const WINDOW_PIXELS: usize = WINDOW * WINDOW;

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Rect => "rect",
            Self::Image => "image",
            Self::PixelRead => "pixel_read",
            Self::PixelRead2 => "pixel_read_2",
            Self::PixelRead3 => "pixel_read_3",
        }
    }

    /// Bytes from an aligned address to the destination.
    pub(super) const fn shift(self) -> usize {
        match self {
            Self::PixelRead3 => 1,
            _ => 0,
        }
    }

    /// Makes device memory of that kind; `None` if the size makes no image.
    pub(super) fn make(self, cl: &Cl, bytes: usize) -> Result<Option<Device>> {
        if PIXEL_READS.contains(&self) {
            let image = cl.byte_image(WINDOW, WINDOW).context("no image")?;
            let pitch = match self {
                Self::PixelRead => WINDOW * 4,
                _ => 0,
            };
            return Ok(Some(Device::Pixels(image, WINDOW, pitch)));
        }
        if self == Self::Buffer {
            let buffer = cl.buffer(bytes).context("no device memory")?;
            return Ok(Some(Device::Buffer(buffer)));
        }
        let (width, height) = if bytes == PICTURE_BYTES {
            PICTURE
        } else {
            // 1024 pixels are 16 KiB: every size of the matrix from 64 KiB on is so many rows.
            (1024, bytes / (1024 * PIXEL_BYTES))
        };
        if width * height * PIXEL_BYTES != bytes || !(2..=16_384).contains(&height) {
            return Ok(None);
        }
        if self == Self::Rect {
            let (row, pitch) = (width * PIXEL_BYTES, width * PIXEL_BYTES + 4096);
            let buffer = cl.buffer(pitch * height).context("no device memory")?;
            return Ok(Some(Device::Rect(buffer, row, height, pitch)));
        }
        let image = cl.image(width, height).context("no image")?;
        Ok(Some(Device::Image(image, width, height)))
    }
}

/// The samples of one arm.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ArmResult {
    pub(super) arm: String,
    /// Threads of a staged arm.
    pub(super) threads: Option<usize>,
    /// Chunk of a staged arm.
    pub(super) chunk_bytes: Option<usize>,
    pub(super) samples: Vec<Sample>,
}

/// A cell's outcome.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CellResult {
    pub(super) kind: &'static str,
    pub(super) bytes: usize,
    pub(super) state: &'static str,
    /// Length of the device work queued right before each call, in multiples of the prefault's time.
    pub(super) overlap: f64,
    pub(super) arms: Vec<ArmResult>,
}

/// Runs every arm once per round, in an order drawn anew for each, and one round more before that is
/// thrown away.
pub(super) fn run(
    (kind, bytes, state): (Kind, usize, State),
    arms: &[Arm],
    rounds: usize,
    random: &mut Random,
    mut sample: impl FnMut(Arm) -> Result<Sample>,
) -> Result<CellResult> {
    let mut results: Vec<ArmResult> = arms
        .iter()
        .map(|arm| {
            let shape = match arm {
                Arm::Staged { shape, .. } => Some(*shape),
                _ => None,
            };
            ArmResult {
                arm: arm.name(),
                threads: shape.map(|shape| shape.threads),
                chunk_bytes: shape.map(|shape| shape.chunk_bytes),
                samples: Vec::new(),
            }
        })
        .collect();
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..arms.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            let (Some(arm), Some(result)) = (arms.get(index), results.get_mut(index)) else {
                continue;
            };
            let taken = sample(*arm).with_context(|| {
                format!(
                    "{} of {bytes} bytes, {}, {}",
                    kind.name(),
                    state.name(),
                    arm.name()
                )
            })?;
            if round > 0 {
                result.samples.push(taken);
            }
        }
    }
    Ok(CellResult {
        kind: kind.name(),
        bytes,
        state: state.name(),
        overlap: 0.0,
        arms: results,
    })
}

/// A staging per shape, made when first asked for.
pub(super) struct Stagings {
    cl: Cl,
    made: Vec<(Shape, Staging)>,
}

impl Stagings {
    pub(super) fn new(cl: &Cl) -> Self {
        Self {
            cl: cl.clone(),
            made: Vec::new(),
        }
    }

    pub(super) fn get(&mut self, shape: Shape) -> Result<&Staging> {
        if !self.made.iter().any(|(made, _)| *made == shape) {
            let own = self.cl.another_queue().context("no queue for staging")?;
            self.made.push((shape, Staging::new(own, shape, 2 << 30)));
        }
        self.made
            .iter()
            .find(|(made, _)| *made == shape)
            .map(|(_, staging)| staging)
            .context("a staging that was just made")
    }

    /// Gives pinned and device memory back between cells.
    pub(super) fn trim(&self) {
        for (_, staging) in &self.made {
            staging.trim();
        }
    }
}
