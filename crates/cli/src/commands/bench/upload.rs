//! `towpath bench upload`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use towpath_measure::random::Random;
use towpath_transfer::engine::{Backend, Pinned};
use towpath_transfer::opencl::{Cl, Slot};

use super::arm::{Arm, Meter, Sample};
use super::calls::{self, Device};
use super::cell::{self, CellResult, Kind, Stagings};
use super::memory::{State, pattern};
use super::output::{self, Document};
use super::transfer::Args;

/// Runs the matrix, prints it, writes it.
///
/// # Errors
///
/// As the command's.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (device, cl) = args.open()?;
    let mut random = Random::new(args.seed);
    let mut stagings = Stagings::new(&cl);
    let progress = output::Progress::new();
    let mut cells = Vec::new();
    for bytes in args.sizes(&device) {
        for kind in [Kind::Buffer, Kind::Rect, Kind::Image] {
            if kind == Kind::Rect && args.is_quick() {
                continue;
            }
            if kind == Kind::Image && !device.has_images {
                continue;
            }
            let Some(memory) = kind.make(&cl, bytes)? else {
                continue;
            };
            progress.say(kind, bytes, State::Warm);
            let mut bench = Bench::new(&cl, memory, bytes);
            cells.push(bench.cell(args, kind, &mut stagings, &mut random)?);
            stagings.trim();
        }
    }
    progress.end();
    output::finish(
        args,
        &Document::new("towpath.bench-upload/1", &device, args, cells),
    )
}

/// Device memory, and two contents that are written to it in turn.
struct Bench<'a> {
    cl: &'a Cl,
    memory: Device,
    contents: [Vec<u8>; 2],
    back: Vec<u8>,
    pinned: Option<Slot>,
    turn: usize,
}

impl<'a> Bench<'a> {
    fn new(cl: &'a Cl, memory: Device, bytes: usize) -> Self {
        Self {
            cl,
            memory,
            contents: [pattern(bytes, 5), pattern(bytes, 8)],
            back: vec![0; bytes],
            pinned: cl.pin(bytes).ok(),
            turn: 0,
        }
    }

    fn cell(
        &mut self,
        args: &Args,
        kind: Kind,
        stagings: &mut Stagings,
        random: &mut Random,
    ) -> Result<CellResult> {
        let mut arms = vec![Arm::Forward];
        arms.extend(args.shapes().into_iter().map(|shape| Arm::Staged {
            shape,
            with_event: false,
        }));
        if self.pinned.is_some() {
            arms.push(Arm::Pinned);
        }
        let bytes = self.back.len();
        cell::run(
            (kind, bytes, State::Warm),
            &arms,
            args.rounds(),
            random,
            |arm| self.sample(arm, stagings),
        )
    }

    fn sample(&mut self, arm: Arm, stagings: &mut Stagings) -> Result<Sample> {
        // The other content, so that a write that did nothing is seen.
        self.turn = 1 - self.turn;
        let content = self.contents.get(self.turn).context("two contents")?;
        let mut call = self.memory.call(content.as_ptr().expose_provenance());
        if let (Arm::Pinned, Some(slot)) = (arm, &mut self.pinned) {
            slot.bytes_mut().copy_from_slice(content);
            call = self.memory.call(slot.bytes().as_ptr().expose_provenance());
        }
        let staging = match arm {
            Arm::Staged { shape, .. } => Some(stagings.get(shape)?),
            _ => None,
        };
        calls::finish(self.cl)?;
        let meter = Meter::start();
        match staging {
            Some(staging) => calls::staged_write(self.cl, staging, &call)?,
            None => calls::write(self.cl, &call)?,
        }
        // Until it is on the device, for every arm: a driver may return early.
        calls::finish(self.cl)?;
        let sample = meter.stop();
        calls::read(
            self.cl,
            &self.memory.call(self.back.as_mut_ptr().expose_provenance()),
        )?;
        if &self.back != content {
            bail!("wrong bytes on the device");
        }
        Ok(sample)
    }
}
