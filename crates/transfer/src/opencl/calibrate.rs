//! Measuring one device: our own buffers, an idle queue, arms alternated.

#![expect(unsafe_code, reason = "moves data of buffers made here")]

use std::time::{Duration, Instant};

use towpath_measure::random::Random;
use towpath_memory::{Mapping, cpus, warm_host};
use towpath_settings::Fixes;
use towpath_sys::madvise::{Advice, advise};

use super::{Buffer, Cl, Device, HostRows, Region, SUCCESS, Staging, Transfer};
use crate::engine::{Bring, Error, Result, Shape};
use crate::policy::{Calibration, Class, Direction, Mechanism, Runs, Warmth};
use crate::readback::{Context, Rules, prepare};

/// How long to measure, and what.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Time after which no further class is begun.
    pub budget: Duration,
    /// Sizes in bytes, smallest first.
    pub sizes: Vec<usize>,
    /// Shapes of staging to try.
    pub shapes: Vec<Shape>,
    /// Rounds per class; below 6 nothing can be proven at 5 %.
    pub rounds: usize,
}

impl Default for Options {
    /// 1 to 64 MiB; three, four and five sixteenths of the processors with large chunks, three eighths and
    /// three quarters with small ones; 8 rounds; 20 s.
    fn default() -> Self {
        let processors = cpus::usable();
        let mut shapes: Vec<Shape> = [
            (processors * 3 / 16, Shape::LARGE_CHUNK_BYTES),
            (processors / 4, Shape::LARGE_CHUNK_BYTES),
            (processors * 5 / 16, Shape::LARGE_CHUNK_BYTES),
            (processors * 3 / 8, Shape::CHUNK_BYTES),
            (processors * 3 / 4, Shape::CHUNK_BYTES),
        ]
        .into_iter()
        .map(|(threads, chunk_bytes)| Shape::new(threads.max(1), chunk_bytes))
        .collect();
        shapes.dedup();
        Self {
            budget: Duration::from_secs(20),
            sizes: vec![1 << 20, 4 << 20, 16 << 20, 64 << 20],
            shapes,
            rounds: 8,
        }
    }
}

/// Measures a device and says for each class what to do.
///
/// Classes that the budget does not reach are missing; the next smaller one then decides for them.
///
/// # Cost
///
/// Up to the budget and one class more; twice the largest size in host memory and once on the device.
///
/// # Errors
///
/// - [`Error::Driver`] and others if the device cannot do what every program does.
/// - [`Error::NoPinnedMemory`] only where not even one slot can be had; then nothing is staged.
pub fn calibrate(cl: &Cl, device: &Device, options: &Options) -> Result<Calibration> {
    let started = Instant::now();
    let most = usize::try_from(device.allocation_bytes_max).unwrap_or(usize::MAX);
    let most = most.min(towpath_memory::margin::available() / 6);
    let mut random = Random::new(7);
    let stagings: Vec<(Mechanism, Staging)> = options
        .shapes
        .iter()
        .map(|shape| {
            let staging = Staging::new(cl.another_queue()?, *shape, 1 << 30);
            Ok((Mechanism::staged(*shape), staging))
        })
        .collect::<Result<_>>()?;
    let mut calibration = Calibration::default();
    for bytes in options.sizes.iter().copied().filter(|bytes| *bytes <= most) {
        let bench = Bench::new(cl, bytes)?;
        for (direction, warmth) in [
            (Direction::Read, Warmth::Cold),
            (Direction::Read, Warmth::ColdHuge),
            (Direction::Read, Warmth::Warm),
            (Direction::Write, Warmth::Warm),
        ] {
            if started.elapsed() > options.budget {
                return Ok(calibration);
            }
            let class = (direction, warmth, bytes);
            calibration
                .classes
                .push(bench.class(class, &stagings, options.rounds, &mut random)?);
        }
    }
    Ok(calibration)
}

/// One size's buffers.
struct Bench<'a> {
    cl: &'a Cl,
    memory: Buffer,
    bytes: usize,
}

impl<'a> Bench<'a> {
    fn new(cl: &'a Cl, bytes: usize) -> Result<Self> {
        let bench = Self {
            cl,
            memory: cl.buffer(bytes)?,
            bytes,
        };
        // Device memory that was never written may have no pages either.
        let source = bench.host(Warmth::Warm)?;
        bench.forward(Direction::Write, &bench.call(&source))?;
        Ok(bench)
    }

    fn class(
        &self,
        class: (Direction, Warmth, usize),
        stagings: &[(Mechanism, Staging)],
        rounds: usize,
        random: &mut Random,
    ) -> Result<Class> {
        let mut arms = vec![Arm::Forward];
        if class.1 != Warmth::Warm {
            arms.push(Arm::Prefault);
        }
        let staged = stagings
            .iter()
            .filter(|_staging| class.2 >= STAGED_BYTES_MIN)
            .map(|(mechanism, staging)| Arm::Staged(*mechanism, staging));
        arms.extend(staged);
        let mut samples = vec![Runs::default(); arms.len()];
        // The first round makes slots and warms clocks; it does not count.
        for round in 0..=rounds {
            let mut order: Vec<usize> = (0..arms.len()).collect();
            random.shuffle(&mut order);
            for index in order {
                let (Some(arm), Some(kept)) = (arms.get(index), samples.get_mut(index)) else {
                    continue;
                };
                let took = self.sample(arm, class.0, class.1)?;
                if round > 0 {
                    kept.wall_ns.push(took.wall.as_secs_f64() * 1e9);
                    kept.cpu_ns.push(took.cpu.as_secs_f64() * 1e9);
                }
            }
        }
        let mut samples = samples.into_iter();
        let forward = samples.next().unwrap_or_default();
        let others: Vec<(Mechanism, Runs)> = arms
            .iter()
            .skip(1)
            .map(Arm::mechanism)
            .zip(samples)
            .collect();
        Class::judge(class, &forward, &others).map_err(|_not_numbers| Error::Driver {
            call: "clock",
            code: SUCCESS,
        })
    }

    fn sample(&self, arm: &Arm<'_>, direction: Direction, warmth: Warmth) -> Result<Took> {
        let host = self.host(warmth)?;
        let call = self.call(&host);
        let queue = self.cl.queue();
        let (cpu, start) = (processor_time(), Instant::now());
        match (arm, direction) {
            (Arm::Forward, _) => self.forward(direction, &call)?,
            (Arm::Prefault, _) => {
                let rules = Rules::default();
                let context = Context {
                    fixes: Fixes::forced(),
                    rules: &rules,
                };
                if let Ok(footprint) = call.footprint() {
                    let _done = prepare(&footprint, &context).run();
                }
                self.forward(direction, &call)?;
            }
            (Arm::Staged(_, staging), Direction::Read) => {
                let bring = match warmth {
                    Warmth::Cold | Warmth::ColdHuge => Bring::HugePages,
                    Warmth::Warm => Bring::Nothing,
                };
                // SAFETY: queue and buffer are live; `host` is this function's own.
                let _staged = unsafe { staging.read(queue, &call, bring, &[], false) }?;
            }
            (Arm::Staged(_, staging), Direction::Write) => {
                // SAFETY: queue and buffer are live; `host` is this function's own.
                let _moved = unsafe { staging.write(queue, &call, &[]) }?;
            }
        }
        // Until the data is where it belongs, for every arm.
        // SAFETY: a live queue.
        super::backend::check("clFinish", unsafe { (self.cl.functions().finish)(queue) })?;
        Ok(Took {
            wall: start.elapsed(),
            cpu: processor_time().saturating_sub(cpu),
        })
    }

    fn host(&self, warmth: Warmth) -> Result<Mapping> {
        let none = |_refused| Error::NoPinnedMemory { bytes: self.bytes };
        if warmth != Warmth::Warm {
            // Where the machine gives its freed memory away, pages would cost what its host charges.
            warm_host(self.bytes * 2).map_err(none)?;
        }
        let mut host = Mapping::anonymous(self.bytes).map_err(none)?;
        match warmth {
            Warmth::Warm => host.as_mut_slice().fill(0x5a),
            Warmth::ColdHuge => {
                let range = host.range();
                // Refused where there are no huge pages: then it is as cold as the other.
                let _refused = advise(range.address, range.len, Advice::HugePage);
            }
            Warmth::Cold => {}
        }
        Ok(host)
    }

    fn call(&self, host: &Mapping) -> Transfer {
        Transfer {
            region: Region::Buffer {
                memory: self.memory.handle(),
                offset: 0,
            },
            host: host.range().address,
            rows: HostRows::Bytes(self.bytes),
        }
    }

    fn forward(&self, direction: Direction, call: &Transfer) -> Result<()> {
        let (calls, queue, none) = (self.cl.functions(), self.cl.queue(), std::ptr::null_mut());
        match direction {
            Direction::Read => {
                // SAFETY: queue and buffer are live; the host memory is owned by the caller.
                let code = unsafe { call.forward_read(calls, queue, true, &[], none) };
                super::backend::check("clEnqueueReadBuffer", code)
            }
            Direction::Write => {
                // SAFETY: as above.
                let code = unsafe { call.forward_write(calls, queue, true, &[], none) };
                super::backend::check("clEnqueueWriteBuffer", code)
            }
        }
    }
}

/// 4 MiB: below, staging gains some tenths of a millisecond at best, and what wins from wholly cold memory
/// lost from half cold memory and the page of zeros (`bench/record/vm-2core/2026-11-30-bench-layer.json`).
const STAGED_BYTES_MIN: usize = 4 << 20;

/// What one run took.
struct Took {
    wall: Duration,
    cpu: Duration,
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

enum Arm<'a> {
    Forward,
    Prefault,
    Staged(Mechanism, &'a Staging),
}

impl Arm<'_> {
    const fn mechanism(&self) -> Mechanism {
        match self {
            Self::Forward => Mechanism::Forward,
            Self::Prefault => Mechanism::Prefault,
            Self::Staged(mechanism, _) => *mechanism,
        }
    }
}
