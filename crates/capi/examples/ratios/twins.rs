//! The scenes of the C examples on the Rust libraries: same sizes, same rounds.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use towpath_memory::{Mapping, Prefault, prefault};
use towpath_sync::local::{Local, Object};
use towpath_sync::{Deadline, Entry as Waited, Provider as _, WaitFor};
use towpath_transfer::opencl::{Cl, Functions, HostRows, Region, SUCCESS, Transfer, devices};
use towpath_transfer::readback::ImageShape;

use crate::{Outcome, milliseconds, says_ratio};

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
    let (mut cold_ms, mut ours_ms) = (f64::INFINITY, f64::INFINITY);
    for _round in 0..5 {
        let (cold, ours) = (Mapping::anonymous(bytes)?, Mapping::anonymous(bytes)?);
        let mut touched = Mapping::anonymous(bytes)?;
        let start = Instant::now();
        read(&cl, &call(&cold))?;
        cold_ms = cold_ms.min(milliseconds(start));
        read(&cl, &call(&cold))?;
        touched.as_mut_slice().fill(0);
        read(&cl, &call(&touched))?;
        let start = Instant::now();
        prefault(ours.range(), &Prefault::default())?;
        read(&cl, &call(&ours))?;
        ours_ms = ours_ms.min(milliseconds(start));
    }
    says_ratio("a cold read", cold_ms, ours_ms);
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
        poll(bell)?;
        Ok(bell.read_exact(&mut [0; 8])?)
    }
}

/// As the C example polls; `rustix` would take the longer way of `ppoll`.
#[expect(unsafe_code, reason = "the C library's poll")]
fn poll(bell: &std::fs::File) -> std::io::Result<()> {
    let mut one = libc::pollfd {
        fd: bell.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which lives over the call.
    if unsafe { libc::poll(&raw mut one, 1, -1) } == 1 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
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
