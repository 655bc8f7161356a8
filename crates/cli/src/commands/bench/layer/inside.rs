//! The process with the layer: takes the samples.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use towpath_measure::random::Random;
use towpath_measure::sample::median;
use towpath_memory::{Mapping, margin};
use towpath_transfer::opencl::{Cl, Device as Described, Functions, Transfer, devices};

use super::super::calls::{self, Device};
use super::super::cell::Kind;
use super::super::memory::{State, fresh, pattern, warm_host};
use super::super::transfer::PICTURE_BYTES;
use super::Args;

/// What was measured.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Measured {
    pub(super) device: String,
    /// Reads that went through the layer.
    pub(super) layer_calls: u64,
    pub(super) cells: Vec<Samples>,
}

/// One cell: nanoseconds per call, the n-th of both arms taken in the same round. Every one of a warm
/// cell is the mean of [`Samples::calls`] calls, those of the arms in turn.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Samples {
    pub(super) kind: String,
    pub(super) bytes: usize,
    pub(super) state: String,
    /// Calls whose mean is one sample.
    pub(super) calls: usize,
    /// Calls of a warm cell, over all rounds, whose time was cut to [`CUT_TIMES`] the median's: those of
    /// the driver's arm, and those of the layer's.
    #[serde(default)]
    pub(super) cut: [usize; 2],
    pub(super) forward_ns: Vec<f64>,
    pub(super) layer_ns: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Arm {
    /// Past loader and layer.
    Forward,
    /// As a program calls.
    Layer,
}

/// Measures all cells and writes them to `path`.
///
/// # Errors
///
/// No such device, a refusal of the driver, or wrong bytes.
pub(super) fn run(args: &Args, path: &Path) -> Result<()> {
    let functions = Functions::load("libOpenCL.so.1").context("no OpenCL here")?;
    let all = devices(&functions).context("no OpenCL device here")?;
    let device = all
        .iter()
        .find(|device| device.matches(&args.device))
        .context("no such device")?;
    let cl = Cl::open(&functions, device)?;
    let direct = calls::past_the_loader(&cl)?;
    let mut measured = Measured {
        device: device.name.clone(),
        layer_calls: 0,
        cells: Vec::new(),
    };
    let mut random = Random::new(args.seed);
    for (kind, bytes) in shapes(args, device) {
        let Some(memory) = kind.make(&cl, bytes)? else {
            continue;
        };
        let mut bench = Bench::new(&cl, direct, memory, bytes)?;
        for state in states(args, bytes) {
            let cell = bench.cell(args, kind, state, &mut random)?;
            measured.cells.push(cell);
        }
        measured.layer_calls += bench.layer_calls;
    }
    std::fs::write(path, serde_json::to_vec(&measured)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Kinds and sizes that the device and the machine have room for.
fn shapes(args: &Args, device: &Described) -> Vec<(Kind, usize)> {
    let sizes: &[usize] = if args.sizes.is_empty() {
        SIZES
    } else {
        &args.sizes
    };
    let most = usize::try_from(device.allocation_bytes_max).unwrap_or(usize::MAX);
    let most = most.min(margin::available() / 6);
    let mut all = Vec::new();
    for bytes in sizes.iter().copied().filter(|bytes| *bytes <= most) {
        for kind in [Kind::Buffer, Kind::Rect, Kind::Image] {
            let is_asked = match args.kinds.as_slice() {
                [] => kind == Kind::Buffer || SHAPED_SIZES.contains(&bytes),
                asked => asked.contains(&kind),
            };
            if is_asked && (kind != Kind::Image || device.has_images) {
                all.push((kind, bytes));
            }
        }
    }
    all
}

/// States that differ from others at that size.
fn states(args: &Args, bytes: usize) -> Vec<State> {
    let all = [
        State::Warm,
        State::Cold,
        State::ColdHuge,
        State::ZeroPage,
        State::HalfWarm,
    ];
    let is_asked = |state: &State| args.states.is_empty() || args.states.contains(state);
    let differs = |state: &State| match state {
        State::Warm | State::Cold | State::ZeroPage => true,
        State::ColdHuge => bytes >= HUGE_BYTES_MIN,
        State::HalfWarm => bytes >= HALF_BYTES_MIN,
    };
    all.into_iter()
        .filter(|state| is_asked(state) && differs(state))
        .collect()
}

struct Bench<'a> {
    cl: &'a Cl,
    direct: Functions,
    memory: Device,
    expected: Vec<u8>,
    /// Destinations side by side, each in pages of its own.
    spots: usize,
    stride: usize,
    layer_calls: u64,
}

impl<'a> Bench<'a> {
    fn new(cl: &'a Cl, direct: Functions, memory: Device, bytes: usize) -> Result<Self> {
        let expected = pattern(bytes, 3);
        calls::write(cl, &memory.call(expected.as_ptr().expose_provenance()))?;
        let stride = bytes.next_multiple_of(4096);
        Ok(Self {
            cl,
            direct,
            memory,
            expected,
            spots: (SAMPLE_BYTES / stride).clamp(1, SPOTS_MAX),
            stride,
            layer_calls: 0,
        })
    }

    fn cell(
        &mut self,
        args: &Args,
        kind: Kind,
        state: State,
        random: &mut Random,
    ) -> Result<Samples> {
        let bytes = self.expected.len();
        let mut samples = Samples {
            kind: kind.name().to_owned(),
            bytes,
            state: state.name().to_owned(),
            calls: match state {
                State::Warm => pairs(bytes),
                _ => self.spots,
            },
            cut: [0; 2],
            forward_ns: Vec::new(),
            layer_ns: Vec::new(),
        };
        let mut warm = fresh(self.spots * self.stride, State::Warm)?;
        let rounds = if bytes > LARGE_BYTES {
            args.rounds.min(LARGE_ROUNDS_MAX)
        } else {
            args.rounds
        };
        // The first round makes what is made at first use, and does not count.
        for round in 0..=rounds {
            let (taken, cut) = match state {
                State::Warm => round_mean(self.warm_round(&mut warm, samples.calls, random)?),
                _ => (self.fresh_round(state, random)?, [0; 2]),
            };
            if round > 0 {
                let [forward, layer] = taken;
                samples.forward_ns.push(forward);
                samples.layer_ns.push(layer);
                samples.cut = [samples.cut[0] + cut[0], samples.cut[1] + cut[1]];
            }
        }
        Ok(samples)
    }

    /// One call of either arm, in random order, as many times: what drifts meets both alike. The times of
    /// all calls, by arm.
    fn warm_round(
        &mut self,
        host: &mut Mapping,
        pairs: usize,
        random: &mut Random,
    ) -> Result<[Vec<f64>; 2]> {
        let mut taken = [Vec::with_capacity(pairs), Vec::with_capacity(pairs)];
        for pair in 0..pairs {
            let spot = pair % self.spots;
            let mut order = [Arm::Forward, Arm::Layer];
            random.shuffle(&mut order);
            for arm in order {
                let at = random.below(self.expected.len());
                let ns = self.warm_call(arm, host, spot, at)?;
                match arm {
                    Arm::Forward => taken[0].push(ns),
                    Arm::Layer => taken[1].push(ns),
                }
            }
        }
        self.check(host)?;
        Ok(taken)
    }

    /// Time of one read; the byte at `at` is wrong before and has to be right after.
    fn warm_call(&mut self, arm: Arm, host: &mut Mapping, spot: usize, at: usize) -> Result<f64> {
        let (place, expected) = (spot * self.stride + at, self.expected.get(at).copied());
        if let (Some(byte), Some(expected)) = (host.as_mut_slice().get_mut(place), expected) {
            *byte = !expected;
        }
        let functions = self.functions(arm);
        let read = self.memory.call(host.range().address + spot * self.stride);
        let begin = Instant::now();
        calls::read_by(&functions, self.cl, &read)?;
        let took = begin.elapsed();
        if arm == Arm::Layer {
            self.layer_calls += 1;
        }
        ensure!(
            host.as_slice().get(place).copied() == expected,
            "wrong bytes"
        );
        Ok(took.as_nanos() as f64)
    }

    fn fresh_round(&mut self, state: State, random: &mut Random) -> Result<[f64; 2]> {
        let mut order = [Arm::Forward, Arm::Layer];
        random.shuffle(&mut order);
        let mut taken = [0.0; 2];
        for arm in order {
            let ns = self.fresh_sample(arm, state)?;
            match arm {
                Arm::Forward => taken[0] = ns,
                Arm::Layer => taken[1] = ns,
            }
        }
        Ok(taken)
    }

    fn fresh_sample(&mut self, arm: Arm, state: State) -> Result<f64> {
        warm_host(self.spots * self.stride)?;
        let host = fresh(self.spots * self.stride, state)?;
        let functions = self.functions(arm);
        let start = host.range().address;
        let reads: Vec<Transfer> = (0..self.spots)
            .map(|spot| self.memory.call(start + spot * self.stride))
            .collect();
        let begin = Instant::now();
        for read in &reads {
            calls::read_by(&functions, self.cl, read)?;
        }
        let took = begin.elapsed();
        if arm == Arm::Layer {
            self.layer_calls += reads.len() as u64;
        }
        self.check(&host)?;
        Ok(took.as_nanos() as f64 / reads.len() as f64)
    }

    fn functions(&self, arm: Arm) -> Functions {
        match arm {
            Arm::Forward => self.direct,
            Arm::Layer => *self.cl.functions(),
        }
    }

    /// All bytes of all spots.
    fn check(&self, host: &Mapping) -> Result<()> {
        for spot in 0..self.spots {
            let at = spot * self.stride;
            let found = host.as_slice().get(at..at + self.expected.len());
            ensure!(found == Some(self.expected.as_slice()), "wrong bytes");
        }
        Ok(())
    }
}

/// Pairs of calls in a round of a warm cell: some ten milliseconds on a processor.
const fn pairs(bytes: usize) -> usize {
    match bytes {
        0..=0x1_0000 => 512,
        0x1_0001..=0x40_0000 => 128,
        0x40_0001..=0x100_0000 => 16,
        0x100_0001..=LARGE_BYTES => 4,
        _ => 1,
    }
}

/// The mean of either arm, and how many calls of each were cut. A processor taken away for a time slice
/// takes as long as a hundred small reads: what a call took over [`CUT_TIMES`] the median of all calls of
/// the round counts for no more than that. Looks and stack walks of the layer are far below.
fn round_mean(taken: [Vec<f64>; 2]) -> ([f64; 2], [usize; 2]) {
    let all: Vec<f64> = taken.iter().flatten().copied().collect();
    let most = median(&all) * CUT_TIMES;
    let mean =
        |times: &[f64]| times.iter().map(|ns| ns.min(most)).sum::<f64>() / times.len() as f64;
    let cut = |times: &[f64]| times.iter().filter(|ns| **ns > most).count();
    let [forward, layer] = taken;
    ([mean(&forward), mean(&layer)], [cut(&forward), cut(&layer)])
}

/// A call of a warm cell counts for at most three times the median.
const CUT_TIMES: f64 = 3.0;
/// 64 bytes to 1 GiB, the seed's picture among them.
const SIZES: &[usize] = &[
    64,
    4 << 10,
    64 << 10,
    512 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    PICTURE_BYTES,
    1 << 30,
];
/// Sizes at which all kinds of device memory are read.
const SHAPED_SIZES: &[usize] = &[1 << 20, 16 << 20, PICTURE_BYTES];
/// 4 MiB: two huge pages.
const HUGE_BYTES_MIN: usize = 4 << 20;
/// 64 KiB: sixteen pages.
const HALF_BYTES_MIN: usize = 64 << 10;
/// 1 MiB of small reads make a sample.
const SAMPLE_BYTES: usize = 1 << 20;
/// Reads of a sample that go to different places.
const SPOTS_MAX: usize = 32;
/// Above 256 MiB fewer rounds do, in half a second each.
const LARGE_BYTES: usize = 256 << 20;
/// Twelve: enough to prove a cell slower among seventy by t.
const LARGE_ROUNDS_MAX: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_time_slice_is_cut_and_a_look_is_not() {
        let forward = vec![100.0; 9];
        let mut layer = vec![101.0; 9];
        layer[3] = 130.0;
        layer[5] = 4000.0;
        let ([a, b], cut) = round_mean([forward, layer]);
        assert_eq!(cut, [0, 1]);
        assert!((a - 100.0).abs() < 1e-9, "{a}");
        let most = 3.0 * 100.5;
        let expected = (7.0 * 101.0 + 130.0 + most) / 9.0;
        assert!((b - expected).abs() < 1.0, "{b} {expected}");
    }
}
