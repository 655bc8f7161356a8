//! `towpath bench readback`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use towpath_measure::random::Random;
use towpath_memory::{Mapping, Prefault, prefault};
use towpath_transfer::engine::{Backend, Bring, Pinned};
use towpath_transfer::opencl::{Cl, Slot};

use super::ReadbackArgs;
use super::arm::{Arm, Meter, Sample, ns};
use super::calls::{self, Device, Work};
use super::cell::{self, CellResult, Kind, PIXEL_READS, Stagings, WINDOW_PIXELS};
use super::memory::{State, fresh, pattern, warm_host};
use super::output::{self, Document};
use super::transfer::Args;

/// Runs the matrix, prints it, writes it.
///
/// # Errors
///
/// As the command's.
pub(super) fn run(args: &ReadbackArgs) -> Result<ExitCode> {
    let (args, is_glbench) = (&args.transfer, args.glbench);
    let (device, cl) = args.open()?;
    let mut random = Random::new(args.seed);
    let mut stagings = Stagings::new(&cl);
    let progress = output::Progress::new();
    let mut cells = Vec::new();
    let cases: Vec<(usize, &[Kind])> = if is_glbench {
        vec![(WINDOW_PIXELS * 4, PIXEL_READS.as_slice())]
    } else {
        let sizes = args.sizes(&device).into_iter();
        sizes.map(|bytes| (bytes, kinds(args.is_quick()))).collect()
    };
    for (bytes, kinds) in cases {
        for kind in kinds {
            let kind = *kind;
            if (kind == Kind::Image || is_glbench) && !device.has_images {
                continue;
            }
            let Some(memory) = kind.make(&cl, bytes)? else {
                continue;
            };
            let mut bench = Bench::new(&cl, memory, bytes, kind.shift())?;
            for state in args.states() {
                progress.say(kind, bytes, *state);
                cells.push(bench.cell(args, kind, *state, &mut stagings, &mut random)?);
            }
            let overlaps = if is_glbench {
                Vec::new()
            } else {
                args.overlaps()
            };
            for overlap in overlaps {
                progress.say(kind, bytes, State::Cold);
                bench.overlap_with(overlap)?;
                let mut cell = bench.cell(args, kind, State::Cold, &mut stagings, &mut random)?;
                cell.overlap = overlap;
                cells.push(cell);
            }
            stagings.trim();
        }
    }
    progress.end();
    output::finish(
        args,
        &Document::new("towpath.bench-readback/1", &device, args, cells),
    )
}

const fn kinds(is_quick: bool) -> &'static [Kind] {
    if is_quick {
        &[Kind::Buffer, Kind::Image]
    } else {
        &[Kind::Buffer, Kind::Rect, Kind::Image]
    }
}

/// Device memory with known content, and what its reads go to.
struct Bench<'a> {
    cl: &'a Cl,
    memory: Device,
    expected: Vec<u8>,
    warm: Mapping,
    /// Bytes from the start of memory to where the call's destination begins.
    shift: usize,
    pinned: Option<Slot>,
    /// Work to queue before each call, and for how long.
    work: Option<(Work, Duration)>,
}

impl<'a> Bench<'a> {
    fn new(cl: &'a Cl, memory: Device, bytes: usize, shift: usize) -> Result<Self> {
        let expected = pattern(bytes, 3);
        calls::write(cl, &memory.call(expected.as_ptr().expose_provenance()))?;
        // Where the driver has no pinned memory of that size there is no ceiling to show.
        let pinned = cl.pin(bytes).ok();
        Ok(Self {
            cl,
            memory,
            expected,
            warm: fresh(bytes + shift, State::Warm)?,
            shift,
            pinned,
            work: None,
        })
    }

    /// From now on queues device work before each call: `times` as long as a prefault takes.
    fn overlap_with(&mut self, times: f64) -> Result<()> {
        let bytes = self.expected.len();
        warm_host(bytes)?;
        let destination = fresh(bytes, State::Cold)?;
        let start = Instant::now();
        let _done = prefault(destination.range(), &Prefault::default())?;
        let length = start.elapsed().mul_f64(times);
        let work = match self.work.take() {
            Some((work, _)) => work,
            None => Work::new(self.cl)?,
        };
        self.work = Some((work, length));
        Ok(())
    }

    fn cell(
        &mut self,
        args: &Args,
        kind: Kind,
        state: State,
        stagings: &mut Stagings,
        random: &mut Random,
    ) -> Result<CellResult> {
        let mut arms = vec![Arm::Forward, Arm::Prefault];
        arms.extend(args.shapes().into_iter().map(|shape| Arm::Staged {
            shape,
            with_event: false,
        }));
        if let Some(Arm::Staged { shape, .. }) = arms.last().copied() {
            arms.push(Arm::Staged {
                shape,
                with_event: true,
            });
        }
        if self.pinned.is_some() && state == State::Warm {
            arms.push(Arm::Pinned);
        }
        let bytes = self.expected.len();
        cell::run((kind, bytes, state), &arms, args.rounds(), random, |arm| {
            self.sample(arm, state, stagings)
        })
    }

    fn sample(&mut self, arm: Arm, state: State, stagings: &mut Stagings) -> Result<Sample> {
        if arm == Arm::Pinned {
            return self.pinned();
        }
        if state == State::Warm {
            self.warm.as_mut_slice().fill(0);
            let call = self.memory.call(self.warm.range().address + self.shift);
            let sample = measure(self.cl, arm, &call, state, stagings)?;
            check(self.arrived(&self.warm), &self.expected)?;
            return Ok(sample);
        }
        let bytes = self.expected.len();
        warm_host(bytes)?;
        let destination = fresh(bytes + self.shift, state)?;
        let call = self.memory.call(destination.range().address + self.shift);
        if let Some((work, length)) = &self.work {
            work.queue(self.cl, *length)?;
        }
        let mut sample = measure(self.cl, arm, &call, state, stagings)?;
        check(self.arrived(&destination), &self.expected)?;
        let start = Instant::now();
        drop(destination);
        sample.free_ns = ns(start.elapsed());
        Ok(sample)
    }

    /// What a read left in `memory`.
    fn arrived<'m>(&self, memory: &'m Mapping) -> &'m [u8] {
        memory.as_slice().get(self.shift..).unwrap_or_default()
    }

    fn pinned(&mut self) -> Result<Sample> {
        let Some(slot) = &mut self.pinned else {
            bail!("no pinned memory");
        };
        slot.bytes_mut().fill(0);
        let call = self
            .memory
            .call(slot.bytes_mut().as_mut_ptr().expose_provenance());
        let meter = Meter::start();
        calls::read(self.cl, &call)?;
        let sample = meter.stop();
        check(slot.bytes(), &self.expected)?;
        Ok(sample)
    }
}

fn measure(
    cl: &Cl,
    arm: Arm,
    call: &towpath_transfer::opencl::Transfer,
    state: State,
    stagings: &mut Stagings,
) -> Result<Sample> {
    match arm {
        Arm::Forward | Arm::Pinned => {
            let meter = Meter::start();
            calls::read(cl, call)?;
            Ok(meter.stop())
        }
        Arm::Prefault => {
            let meter = Meter::start();
            calls::prefault_and_read(cl, call)?;
            Ok(meter.stop())
        }
        Arm::Staged { shape, with_event } => {
            let staging = stagings.get(shape)?;
            // As the layer does: it knows from the scan whether pages are missing.
            let bring = if state == State::Warm {
                Bring::Nothing
            } else {
                Bring::HugePages
            };
            let meter = Meter::start();
            calls::staged_read(cl, staging, call, bring, with_event)?;
            Ok(meter.stop())
        }
    }
}

fn check(found: &[u8], expected: &[u8]) -> Result<()> {
    if found != expected {
        let at = found
            .iter()
            .zip(expected)
            .position(|(a, b)| a != b)
            .unwrap_or(0);
        bail!("wrong bytes from {at} on");
    }
    Ok(())
}
