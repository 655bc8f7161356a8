//! What `bench readback` and `bench upload` share: options, device, shapes, rounds.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use towpath_transfer::engine::Shape;
use towpath_transfer::opencl::{Cl, Device, Functions, Options, devices};

use super::memory::State;

/// Options of both directions.
#[derive(Debug, clap::Args)]
#[group(id = "transfer")]
pub(crate) struct Args {
    /// The first device whose name or platform has this in it, whatever the case.
    #[arg(long, value_name = "NAME", default_value = "")]
    device: String,
    /// One size (154 MiB), few arms and rounds: under a minute.
    #[arg(long)]
    quick: bool,
    /// Rounds; every arm runs once in each, in random order [default: 10, quick 5].
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Sizes in bytes, with K, M or G [default: 64K to 1G].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes)]
    sizes: Vec<usize>,
    /// States of the destination; uploads are always from warm memory [default: all, or with --quick
    /// cold, cold-thp and warm].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    states: Vec<State>,
    /// Threads of the staged arms [default: with their chunks, the shapes that a
    /// calibration tries].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Chunks of the staged arms, with K or M [default: the shapes that a calibration
    /// tries].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes)]
    chunks: Vec<usize>,
    /// Cold reads also behind queued device work, as multiples of the prefault's time [default: none
    /// with --quick, else 0.5,1,2].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    overlap: Option<Vec<f64>>,
    /// Seed of the order of the arms.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Also writes every sample to this file.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// Seed 003's picture: 3888 x 2592 pixels of four floats, 153.8 MiB.
pub(super) const PICTURE: (usize, usize) = (3888, 2592);
/// Bytes of a pixel of four floats.
pub(super) const PIXEL_BYTES: usize = 16;
/// Bytes of the picture.
pub(super) const PICTURE_BYTES: usize = PICTURE.0 * PICTURE.1 * PIXEL_BYTES;

impl Args {
    pub(super) fn rounds(&self) -> usize {
        self.rounds
            .unwrap_or(if self.quick { 5 } else { 10 })
            .max(1)
    }

    /// What the texture benches take of these options.
    pub(super) fn common(&self) -> super::textures::Common {
        super::textures::Common {
            device: self.device.clone(),
            is_quick: self.quick,
            rounds: self.rounds.unwrap_or(if self.quick { 6 } else { 9 }).max(1),
            seed: self.seed,
            json: self.json.clone(),
        }
    }

    pub(super) fn states(&self) -> &[State] {
        match (self.states.is_empty(), self.quick) {
            (false, _) => &self.states,
            (true, true) => &[State::Cold, State::ColdHuge, State::Warm],
            (true, false) => &[
                State::Cold,
                State::ColdHuge,
                State::Warm,
                State::ZeroPage,
                State::HalfWarm,
            ],
        }
    }

    /// Multiples of device work for cold reads.
    pub(super) fn overlaps(&self) -> Vec<f64> {
        let default: &[f64] = if self.quick { &[] } else { &[0.5, 1.0, 2.0] };
        let asked = self.overlap.as_deref().unwrap_or(default);
        asked
            .iter()
            .copied()
            .filter(|times| *times > 0.0 && *times <= 100.0)
            .collect()
    }

    pub(super) const fn is_quick(&self) -> bool {
        self.quick
    }

    /// Sizes that the device can hold and the machine has memory for.
    pub(super) fn sizes(&self, device: &Device) -> Vec<usize> {
        let wanted: &[usize] = if !self.sizes.is_empty() {
            &self.sizes
        } else if self.quick {
            &[PICTURE_BYTES]
        } else {
            &[64 << 10, 1 << 20, 16 << 20, PICTURE_BYTES, 1 << 30]
        };
        let most = usize::try_from(device.allocation_bytes_max).unwrap_or(usize::MAX);
        let most = most.min(towpath_memory::margin::available() / 6);
        wanted
            .iter()
            .copied()
            .filter(|bytes| *bytes <= most)
            .collect()
    }

    pub(super) fn shapes(&self) -> Vec<Shape> {
        let tried = Options::default().shapes;
        if self.threads.is_empty() && self.chunks.is_empty() {
            return tried;
        }
        let mut threads = self.threads.clone();
        if threads.is_empty() {
            threads = tried.iter().map(|shape| shape.threads).collect();
        }
        let mut chunks = self.chunks.clone();
        if chunks.is_empty() {
            chunks = vec![Shape::CHUNK_BYTES, Shape::LARGE_CHUNK_BYTES];
        }
        let mut shapes: Vec<Shape> = threads
            .iter()
            .flat_map(|threads| {
                chunks
                    .iter()
                    .map(|chunk| Shape::new((*threads).max(1), *chunk))
            })
            .collect();
        shapes.dedup();
        shapes
    }

    /// Opens the device that `--device` names.
    pub(super) fn open(&self) -> Result<(Device, Cl)> {
        let functions = Functions::load("libOpenCL.so.1").context("no OpenCL here")?;
        let all = devices(&functions).context("no OpenCL device here")?;
        let Some(device) = all.iter().find(|device| device.matches(&self.device)) else {
            let names: Vec<String> = all
                .iter()
                .map(|one| format!("{} ({})", one.name, one.platform))
                .collect();
            bail!(
                "no device has '{}' in its name; there are: {}",
                self.device,
                names.join(", ")
            );
        };
        let cl =
            Cl::open(&functions, device).with_context(|| format!("cannot use {}", device.name))?;
        Ok((device.clone(), cl))
    }
}

/// Reads `154M` and the like.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.trim_end_matches(['b', 'B']).to_uppercase() {
        text if text.ends_with('K') => (text.trim_end_matches('K').to_owned(), 1 << 10),
        text if text.ends_with('M') => (text.trim_end_matches('M').to_owned(), 1 << 20),
        text if text.ends_with('G') => (text.trim_end_matches('G').to_owned(), 1 << 30),
        text => (text, 1),
    };
    let number: usize = digits
        .parse()
        .map_err(|_error| format!("'{text}' is no size"))?;
    number
        .checked_mul(unit)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("'{text}' is no usable size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units_and_nonsense_is_refused() {
        assert_eq!(bytes("64K"), Ok(65_536));
        assert_eq!(bytes("1g"), Ok(1 << 30));
        assert_eq!(bytes("17"), Ok(17));
        for nonsense in ["", "K", "-1", "0", "1T", "99999999999999999999G", "1.5M"] {
            assert!(bytes(nonsense).is_err(), "{nonsense}");
        }
    }
}
