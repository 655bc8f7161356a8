//! What goes into the ledger, per device: one site per call.

use std::sync::atomic::{AtomicU64, Ordering};

use towpath_ledger::{Call, Counter, Histogram, HostPath, Outcome, SiteId, SiteKey, Stack, Writer};
use towpath_measure::Nanos;

use crate::process::{self, Process};

/// Presents after which pipelines count as made in the middle of frames: menus and loading screens
/// of the programs looked at are through by then.
const IN_PLAY_FROM: u64 = 60;

macro_rules! sites {
    ($($(#[$doc:meta])* $name:ident: $path:ident = $call:literal;)+) => {
        /// Calls that have a site.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum At { $($(#[$doc])* $name,)+ }

        const SITES: [(At, HostPath, &str); [$($call),+].len()] =
            [$((At::$name, HostPath::$path, $call),)+];
    };
}

sites! {
    CreateGraphics: Cache = "vkCreateGraphicsPipelines";
    CreateCompute: Cache = "vkCreateComputePipelines";
    CreateRayTracing: Cache = "vkCreateRayTracingPipelinesKHR";
    /// Shader objects: they know no cache, and are only timed.
    CreateShaders: Cache = "vkCreateShadersEXT";
    /// Any of the four, once the program presents frames.
    CreateInPlay: Cache = "vkCreate*Pipelines in play";
    CreateCache: Cache = "vkCreatePipelineCache";
    CacheSize: Cache = "vkGetPipelineCacheData (size)";
    CacheData: Cache = "vkGetPipelineCacheData";
    /// The data has the size that it had when it was last read or fetched.
    CacheUnchanged: Cache = "vkGetPipelineCacheData (unchanged)";
    Submit: Waits = "vkQueueSubmit";
    Present: Waits = "vkQueuePresentKHR";
    Acquire: Waits = "vkAcquireNextImageKHR";
    WaitFences: Waits = "vkWaitForFences";
    FenceStatus: Waits = "vkGetFenceStatus";
    WaitSemaphores: Waits = "vkWaitSemaphores";
    CounterValue: Waits = "vkGetSemaphoreCounterValue";
    QueueIdle: Waits = "vkQueueWaitIdle";
    DeviceIdle: Waits = "vkDeviceWaitIdle";
    /// A map of memory that is not cached and that a transfer writes: reads of it are 40-87 x slow.
    MapUncached: Readback = "vkMapMemory of uncached readback memory";
}

impl At {
    /// Whether calls of this site are recorded by [`Recorder::wait`].
    fn is_wait(self) -> bool {
        matches!(
            self,
            Self::WaitFences
                | Self::FenceStatus
                | Self::WaitSemaphores
                | Self::CounterValue
                | Self::QueueIdle
                | Self::DeviceIdle
        )
    }
}

/// A device's sites.
pub(crate) struct Recorder {
    /// The process's ledger and the sites in it; kept here, so that a call looks up neither.
    to: Option<(&'static Writer, [SiteId; SITES.len()])>,
    presents: AtomicU64,
    last_present: AtomicU64,
}

/// What was known of a wait before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// Nothing: the driver was asked.
    New,
    /// That it is over, and the driver was asked all the same.
    Repeated,
    /// That it is over, so that nobody was asked.
    Skipped,
}

/// Start of a call that is recorded.
#[derive(Clone, Copy)]
pub(crate) struct Started(Nanos);

/// Reads the clock before a call is passed on.
#[inline]
pub(crate) fn start() -> Started {
    Started(process::now())
}

impl Started {
    /// When the call began.
    pub(crate) fn at(self) -> Nanos {
        self.0
    }
}

impl Recorder {
    pub(crate) fn new(process: &'static Process, device: &str) -> Self {
        let to = process.ledger.as_ref().map(|ledger| {
            let site = |(at, path, call): (At, _, _)| {
                let key = SiteKey {
                    path,
                    call,
                    device,
                    stack: Stack::NONE,
                };
                if at.is_wait() {
                    ledger.wait_site(&key)
                } else {
                    ledger.site(&key)
                }
            };
            (ledger, SITES.map(site))
        });
        Self {
            to,
            presents: AtomicU64::new(0),
            last_present: AtomicU64::new(0),
        }
    }

    /// Records a call that began at `started` and ends now.
    pub(crate) fn call(&self, at: At, started: Started, bytes: u64, outcome: Outcome) -> Nanos {
        let call = ended(started, bytes, outcome);
        if let Some((ledger, site)) = self.at(at) {
            ledger.record(site, &call);
        }
        call.wall
    }

    /// A wait, and what was known of it.
    #[inline]
    pub(crate) fn wait(&self, at: At, started: Started, objects: u32, how: Wait) {
        let outcome = match how {
            Wait::New | Wait::Repeated => Outcome::Observed,
            Wait::Skipped => Outcome::WaitSkipped,
        };
        let call = ended(started, 0, outcome);
        if let Some((ledger, site)) = self.at(at) {
            ledger.wait(site, &call, u64::from(objects), how != Wait::New);
        }
    }

    #[inline]
    fn at(&self, at: At) -> Option<(&'static Writer, SiteId)> {
        let (ledger, sites) = self.to.as_ref()?;
        // `At` and `SITES` are made from one list.
        sites.get(at as usize).map(|site| (*ledger, *site))
    }

    /// Pipelines made by one call.
    pub(crate) fn pipelines(&self, at: At, started: Started, made: &Made) {
        let in_play = self.presents.load(Ordering::Relaxed) >= IN_PLAY_FROM;
        let at = if in_play { At::CreateInPlay } else { at };
        let wall = self.call(at, started, 0, made.outcome);
        if let Some((ledger, _)) = self.to {
            ledger.histogram(
                Histogram::PipelineNanos,
                wall.0 / u64::from(made.count.max(1)),
            );
            ledger.count(Counter::PipelinesCompiled, u64::from(made.compiled));
        }
    }

    /// A present that returned; `is_frame` if something is shown for it.
    pub(crate) fn present(&self, started: Started, is_frame: bool) {
        let outcome = if is_frame {
            Outcome::Observed
        } else {
            Outcome::CallFailed
        };
        self.call(At::Present, started, 0, outcome);
        if !is_frame {
            return;
        }
        self.presents.fetch_add(1, Ordering::Relaxed);
        let at = started.at();
        let last = self.last_present.swap(at.0, Ordering::Relaxed);
        if let Some((ledger, _)) = self.to {
            ledger.frame(at);
            ledger.count(Counter::Frames, 1);
            if last != 0 {
                ledger.histogram(Histogram::FrameNanos, at.0.saturating_sub(last));
            }
        }
    }
}

/// The call as it stands now.
#[inline]
fn ended(started: Started, bytes: u64, outcome: Outcome) -> Call {
    let wall = process::now().0.saturating_sub(started.0.0);
    Call {
        start: started.0,
        bytes,
        wall: Nanos(wall),
        outcome,
        ..Call::default()
    }
}

/// Adds to one of the ledger's totals.
pub(crate) fn count(counter: Counter, n: u64) {
    if let Some(ledger) = ledger() {
        ledger.count(counter, n);
    }
}

fn ledger() -> Option<&'static Writer> {
    process::get().ledger.as_ref()
}

/// What became of the pipelines of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) count: u32,
    /// Those known to have been compiled now.
    pub(crate) compiled: u32,
    pub(crate) outcome: Outcome,
}
