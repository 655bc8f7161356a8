//! Frames of a renderer and a compositor on a render node: one acquire and one release point for each
//! frame, three frames in flight, nothing else to do.
//!
//! `gears NODE eventfd|drm|local FRAMES [--present CARD]`
//!
//! - `eventfd`: as compositors do it today: an eventfd for each point, registered, polled, read, closed.
//! - `drm`: `towpath_sync::drm` on the same node.
//! - `local`: objects of the process.
//!
//! With `--present`, each frame ends with an atomic commit that changes nothing.
#![expect(clippy::print_stdout, reason = "a test program reports on its output")]
#![expect(
    unsafe_code,
    reason = "calls of the C library, which a preloaded library sees"
)]

use std::error::Error;
use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use towpath_sync::drm::{self, Drm};
use towpath_sync::local;
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Frames that the renderer is ahead.
const IN_FLIGHT: u64 = 3;

/// A value that one side raises and the other waits for.
trait Lane: Sync {
    fn raise(&self, value: u64) -> Outcome;
    fn await_value(&self, value: u64) -> Outcome;
}

/// An eventfd by the C library, as programs make it: a preloaded library counts it.
fn eventfd() -> std::io::Result<OwnedFd> {
    // SAFETY: no address is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: made for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

struct Eventfd(Drm, drm::Object);

impl Lane for Eventfd {
    fn raise(&self, value: u64) -> Outcome {
        Ok(self.0.signal_point(&self.1, value)?)
    }

    fn await_value(&self, value: u64) -> Outcome {
        let fd = eventfd()?;
        self.0.watch(&self.1, value, false, fd.try_clone()?)?;
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)?;
        rustix::io::read(&fd, &mut [0; 8])?;
        Ok(())
    }
}

struct Kernel(Drm, drm::Object);

impl Lane for Kernel {
    fn raise(&self, value: u64) -> Outcome {
        Ok(self.0.signal_point(&self.1, value)?)
    }

    fn await_value(&self, value: u64) -> Outcome {
        let entry = Entry {
            object: &self.1,
            point: value,
        };
        let what = WaitFor::ALL.for_submit();
        self.0.wait(&[entry], what, Deadline::NEVER)?;
        Ok(())
    }
}

struct Local(local::Object);

impl Lane for Local {
    fn raise(&self, value: u64) -> Outcome {
        self.0.signal_point(value);
        Ok(())
    }

    fn await_value(&self, value: u64) -> Outcome {
        Ok(self.0.wait(value, Deadline::NEVER)?)
    }
}

/// Where frames go.
struct Screen(Option<File>);

impl Screen {
    fn open(path: Option<&str>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let Some(path) = path else {
            return Ok(Self(None));
        };
        let card = File::options().read(true).write(true).open(path)?;
        // DRM_IOCTL_SET_CLIENT_CAP, DRM_CLIENT_CAP_ATOMIC.
        request(&card, 0x4010_640d, &mut [3_u64, 1])?;
        Ok(Self(Some(card)))
    }

    /// DRM_IOCTL_MODE_ATOMIC without objects and flags.
    fn present(&self) -> Outcome {
        match &self.0 {
            Some(card) => request(card, 0xc038_64bc, &mut [0; 7]),
            None => Ok(()),
        }
    }
}

fn request<const WORDS: usize>(card: &File, number: u32, words: &mut [u64; WORDS]) -> Outcome {
    // SAFETY: the numbers above encode the size of the arrays; no address in them is used.
    let answer = unsafe {
        libc::ioctl(
            card.as_raw_fd(),
            libc::Ioctl::from(number),
            words.as_mut_ptr(),
        )
    };
    if answer < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

/// `lanes.0` carries acquire points, `lanes.1` release points.
fn run<L: Lane>(lanes: &(L, L), frames: u64, screen: &Screen) -> Outcome {
    std::thread::scope(|scope| {
        let compositor = scope.spawn(|| {
            for frame in 1..=frames {
                lanes.0.await_value(frame)?;
                screen.present()?;
                lanes.1.raise(frame)?;
            }
            Outcome::Ok(())
        });
        for frame in 1..=frames {
            if frame > IN_FLIGHT {
                lanes.1.await_value(frame - IN_FLIGHT)?;
            }
            lanes.0.raise(frame)?;
        }
        compositor
            .join()
            .map_err(|_panic| "the compositor panicked")?
    })
}

fn start(arguments: &[String]) -> Outcome {
    let [node, arm, frames, rest @ ..] = arguments else {
        return Err("gears NODE eventfd|drm|local FRAMES [--present CARD]".into());
    };
    let frames = frames.parse()?;
    let screen = Screen::open(match rest {
        [option, card] if option == "--present" => Some(card),
        _ => None,
    })?;
    let drm = || Drm::open(Path::new(node));
    match arm.as_str() {
        "eventfd" => {
            let drm = drm()?;
            let lane = || Ok::<_, towpath_sync::Error>(Eventfd(drm.clone(), drm.create(false)?));
            run(&(lane()?, lane()?), frames, &screen)
        }
        "drm" => {
            let drm = drm()?;
            let lane = || Ok::<_, towpath_sync::Error>(Kernel(drm.clone(), drm.create(false)?));
            run(&(lane()?, lane()?), frames, &screen)
        }
        "local" => {
            let lane = || Local(local::Object::new(false));
            run(&(lane(), lane()), frames, &screen)
        }
        _ => Err("no such arm".into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match start(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("gears: {error}");
            ExitCode::FAILURE
        }
    }
}
