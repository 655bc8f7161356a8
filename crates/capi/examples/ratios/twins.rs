//! The scenes of the C examples on the Rust libraries: same sizes, same rounds.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use towpath_measure::sample::median;
use towpath_memory::volatile::VolatileBytes;
use towpath_memory::{Mapping, Prefault, prefault};
use towpath_sync::local::{Local, Object};
use towpath_sync::{Deadline, Entry as Waited, Provider as _, WaitFor};
use towpath_transfer::opencl::{Cl, Functions, HostRows, Region, SUCCESS, Transfer, devices};
use towpath_transfer::readback::ImageShape;
use towpath_transfer::textures::gather::{Stores, copy};
use towpath_transfer::textures::{Backing, Direction, Entry, Lines, Memory, Ram};

use crate::{Outcome, says_ratio};

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// `readback.c`: a picture of 154 MiB into memory that was just mapped, without and with a prefault.
pub(crate) fn readback() -> Outcome {
    let (width, height) = (3888, 2592);
    let bytes = width * height * 16;
    let functions = Functions::load("libOpenCL.so.1")?;
    let found = devices(&functions)?;
    let cl = Cl::open(&functions, found.first().ok_or("no OpenCL device")?)?;
    let image = cl.image(width, height)?;
    let call = |host: &Mapping| Transfer {
        region: Region::Image {
            memory: image.handle(),
            origin: [0; 3],
            region: [width, height, 1],
        },
        host: host.range().address,
        rows: HostRows::Image {
            shape: ImageShape::D2,
            element_bytes: 16,
            row_pitch: 0,
            slice_pitch: 0,
        },
    };
    let mut source = Mapping::anonymous(bytes)?;
    source.as_mut_slice().fill(0x3e);
    write(&cl, &call(&source))?;
    let (cold, ours) = (Mapping::anonymous(bytes)?, Mapping::anonymous(bytes)?);
    let mut touched = Mapping::anonymous(bytes)?;
    let start = Instant::now();
    read(&cl, &call(&cold))?;
    let cold_ms = milliseconds(start);
    read(&cl, &call(&cold))?;
    touched.as_mut_slice().fill(0);
    read(&cl, &call(&touched))?;
    let start = Instant::now();
    prefault(ours.range(), &Prefault::default())?;
    read(&cl, &call(&ours))?;
    says_ratio("a cold read", cold_ms, milliseconds(start));
    Ok(())
}

#[expect(unsafe_code, reason = "a call of the OpenCL ABI")]
fn read(cl: &Cl, call: &Transfer) -> Outcome {
    // SAFETY: the queue and image are live, and the host memory of the call is mapped and ours.
    let code =
        unsafe { call.forward_read(cl.functions(), cl.queue(), true, &[], std::ptr::null_mut()) };
    if code == SUCCESS {
        Ok(())
    } else {
        Err("a read was refused".into())
    }
}

#[expect(unsafe_code, reason = "a call of the OpenCL ABI")]
fn write(cl: &Cl, call: &Transfer) -> Outcome {
    // SAFETY: as in `read`.
    let code =
        unsafe { call.forward_write(cl.functions(), cl.queue(), true, &[], std::ptr::null_mut()) };
    if code == SUCCESS {
        Ok(())
    } else {
        Err("a write was refused".into())
    }
}

/// `texture_upload.c`: 4 MiB in 1024 pieces, by way of a temporary buffer and gathered past the caches.
pub(crate) fn upload() -> Outcome {
    const PAGE: u64 = 4096;
    const PIECES: u64 = 1024;
    let bytes = usize::try_from(PAGE * PIECES)?;
    let ram = Ram::new(PAGE * PIECES)?;
    let content: Vec<u8> = (0..=255).cycle().take(bytes).collect();
    let ram = Arc::new(ram);
    let seen = ram.bytes();
    let _copied = seen.copy_from(&content);
    let memory: Arc<dyn Memory> = Arc::<Ram>::clone(&ram);
    let entries: Vec<Entry> = (0..PIECES)
        .map(|piece| Entry {
            address: piece * 7 % PIECES * PAGE,
            len: PAGE,
        })
        .collect();
    let backing = Backing::attach(&memory, &entries)?;
    let lines = |row_bytes: u64, rows: u64| Lines {
        offset: 0,
        row_bytes,
        rows,
        stride: row_bytes,
        layers: 1,
        layer_stride: row_bytes * rows,
    };
    let (mut texture, mut temporary) = (Mapping::anonymous(bytes)?, Mapping::anonymous(bytes)?);
    temporary.as_mut_slice().fill(1);
    let (mut before, mut ours) = (Vec::new(), Vec::new());
    for _round in 0..20 {
        texture.as_mut_slice().fill(0);
        let start = Instant::now();
        for (entry, page) in entries
            .iter()
            .zip(temporary.as_mut_slice().chunks_mut(4096))
        {
            let piece = seen.get(usize::try_from(entry.address)?, page.len());
            piece.ok_or("a piece is outside")?.copy_to(page);
        }
        texture.as_mut_slice().copy_from_slice(temporary.as_slice());
        before.push(milliseconds(start));
        check(texture.as_slice())?;
        texture.as_mut_slice().fill(0);
        let start = Instant::now();
        gather(
            &backing,
            &lines(PAGE * PIECES, 1),
            texture.as_mut_slice(),
            Stores::Streaming,
        )?;
        ours.push(milliseconds(start));
        check(texture.as_slice())?;
    }
    says_ratio("a texture in pieces", median(&before), median(&ours));
    Ok(())
}

/// Looks at every byte, as the C example does: what is in the caches decides the times.
fn check(texture: &[u8]) -> Outcome {
    // Each page begins anew, so the order of pages does not show; the bytes of all do.
    let is_right = texture
        .iter()
        .zip((0..=255).cycle())
        .all(|(seen, right)| *seen == right);
    if is_right {
        Ok(())
    } else {
        Err("a byte is wrong".into())
    }
}

fn gather(backing: &Backing, lines: &Lines, to: &mut [u8], stores: Stores) -> Outcome {
    let memory = VolatileBytes::of(to);
    copy(
        backing,
        lines,
        &memory,
        &lines.packed(),
        Direction::Upload,
        stores,
    )?;
    Ok(())
}

const FRAMES: u64 = 1000;
const IN_FLIGHT: u64 = 1;

/// What carries frames between a program and its "GPU".
trait Lane: Sync {
    fn signal(&self, is_finished: bool, frame: u64) -> Outcome;
    fn wait(&self, is_finished: bool, frame: u64) -> Outcome;
}

struct Bells([std::fs::File; 2]);

impl Bells {
    fn new() -> Outcome<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        Ok(Self([eventfd(0, flags)?.into(), eventfd(0, flags)?.into()]))
    }

    fn of(&self, is_finished: bool) -> &std::fs::File {
        let [submitted, finished] = &self.0;
        if is_finished { finished } else { submitted }
    }
}

impl Lane for Bells {
    fn signal(&self, is_finished: bool, _frame: u64) -> Outcome {
        let mut bell = self.of(is_finished);
        Ok(bell.write_all(&1_u64.to_le_bytes())?)
    }

    fn wait(&self, is_finished: bool, _frame: u64) -> Outcome {
        let mut bell = self.of(is_finished);
        rustix::event::poll(&mut [PollFd::new(bell, PollFlags::IN)], None)?;
        Ok(bell.read_exact(&mut [0; 8])?)
    }
}

struct Timelines([Object; 2]);

impl Timelines {
    fn of(&self, is_finished: bool) -> &Object {
        let [submitted, finished] = &self.0;
        if is_finished { finished } else { submitted }
    }
}

impl Lane for Timelines {
    fn signal(&self, is_finished: bool, frame: u64) -> Outcome {
        Ok(Local.signal_point(self.of(is_finished), frame)?)
    }

    fn wait(&self, is_finished: bool, frame: u64) -> Outcome {
        let entries = [Waited {
            object: self.of(is_finished),
            point: frame,
        }];
        Local.wait(&entries, WaitFor::ALL.for_submit(), Deadline::NEVER)?;
        Ok(())
    }
}

fn frames_in_flight(lane: &dyn Lane) -> Outcome<f64> {
    std::thread::scope(|scope| {
        let gpu = scope.spawn(|| {
            (1..=FRAMES)
                .all(|frame| lane.wait(false, frame).is_ok() && lane.signal(true, frame).is_ok())
        });
        let start = Instant::now();
        for frame in 1..=FRAMES {
            if frame > IN_FLIGHT {
                lane.wait(true, frame - IN_FLIGHT)?;
            }
            lane.signal(false, frame)?;
        }
        if gpu.join().is_ok_and(|is_good| is_good) {
            Ok(milliseconds(start))
        } else {
            Err("the other thread failed".into())
        }
    })
}

/// `syncobj.c`: frames between two threads on one processor, by descriptors and by timelines; the best of five.
pub(crate) fn waits() -> Outcome {
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one)?;
    let (mut before, mut ours) = (f64::INFINITY, f64::INFINITY);
    for _round in 0..5 {
        before = before.min(frames_in_flight(&Bells::new()?)?);
        let timelines = Timelines([Object::new(false), Object::new(false)]);
        ours = ours.min(frames_in_flight(&timelines)?);
    }
    says_ratio("1000 frames, one in flight", before, ours);
    Ok(())
}
