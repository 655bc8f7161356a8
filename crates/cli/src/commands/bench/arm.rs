//! What is compared, and what one run of it gave.

use std::time::{Duration, Instant};

use serde::Serialize;
use towpath_memory::faults;
use towpath_transfer::engine::Shape;

/// A way to do the transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Arm {
    /// The driver's call alone.
    Forward,
    /// Pages brought in, then the driver's call.
    Prefault,
    /// Our ring.
    Staged {
        /// Its shape.
        shape: Shape,
        /// Whether the program asks for an event, so that its last row is the driver's.
        with_event: bool,
    },
    /// The driver's call to or from pinned memory: what the link gives.
    Pinned,
}

impl Arm {
    pub(super) fn name(self) -> String {
        match self {
            Self::Forward => "forward".to_owned(),
            Self::Prefault => "prefault".to_owned(),
            Self::Pinned => "pinned".to_owned(),
            Self::Staged { shape, with_event } => format!(
                "staged {}x{}{}",
                shape.threads,
                mib(shape.chunk_bytes),
                if with_event { " event" } else { "" }
            ),
        }
    }
}

/// What one run of an arm cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// The call, prefault included, until the data is where it belongs.
    pub(super) wall_ns: u64,
    /// Processor time of the whole process over the call.
    pub(super) cpu_ns: u64,
    /// Minor faults of the whole process over the call.
    pub(super) faults: u64,
    /// Unmapping the destination afterwards.
    pub(super) free_ns: u64,
}

/// Starts of the counters of a sample.
pub(super) struct Meter {
    cpu: Duration,
    faults: u64,
    start: Instant,
}

impl Meter {
    pub(super) fn start() -> Self {
        let (cpu, faults) = (cpu(), faults::of_process());
        Self {
            cpu,
            faults,
            start: Instant::now(),
        }
    }

    pub(super) fn stop(self) -> Sample {
        let wall = self.start.elapsed();
        Sample {
            wall_ns: ns(wall),
            cpu_ns: ns(cpu().saturating_sub(self.cpu)),
            faults: faults::of_process().saturating_sub(self.faults),
            free_ns: 0,
        }
    }
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Nanoseconds of a span; saturates after 584 years.
pub(super) fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// `4M`, `512K`, `17`.
pub(super) fn mib(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{}M", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    }
}
