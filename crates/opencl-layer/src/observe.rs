//! What happens around a transfer: decide, do, forward, record.

use opencl_sys::{CL_SUCCESS, cl_command_queue, cl_int};
use towpath_ledger::{Call, HostPath, Outcome, SiteKey, Stack};
use towpath_measure::{Clock, MonotonicClock, Nanos};
use towpath_memory::faults;
use towpath_transfer::readback::{self, Context, Done, Footprint};

use crate::boundary::wall;
use crate::ranges::Ranges;
use crate::state::State;
use crate::{calls, devices, inside, state};

/// Host memory that the driver handed out.
pub(crate) static DRIVER_MEMORY: Ranges = Ranges::new();

/// One call that moves bytes between host and device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) path: HostPath,
    /// The function's name.
    pub(crate) call: &'static str,
    pub(crate) queue: cl_command_queue,
    pub(crate) is_blocking: bool,
    /// The host bytes; `None` where the arguments have none.
    pub(crate) footprint: Option<Footprint>,
}

/// What is carried over the forwarded call.
#[derive(Clone, Copy, Debug)]
struct Before {
    start: Nanos,
    bytes: u64,
    faults: u64,
    cold_bytes: Option<u64>,
    outcome: Outcome,
}

/// Forwards a transfer exactly once, with our work round it.
#[inline]
pub(crate) fn around(transfer: &Transfer, forward: impl FnOnce() -> cl_int) -> cl_int {
    let state = state::get();
    let before = wall(|| before(state, transfer));
    let answer = forward();
    if let Some(before) = before {
        // A panic of ours costs the record.
        let _lost = wall(|| after(state, transfer, &before, answer));
    }
    answer
}

fn before(state: &State, transfer: &Transfer) -> Before {
    let start = MonotonicClock.now();
    let bytes = transfer.footprint.map_or(0, |found| found.bytes() as u64);
    let faults = if bytes >= COUNT_FAULTS_MIN {
        faults::of_process()
    } else {
        0
    };
    let (cold_bytes, outcome) = match (transfer.path, &transfer.footprint) {
        (HostPath::Readback, Some(footprint)) => bring_in(state, transfer, footprint),
        _ => (None, Outcome::Observed),
    };
    Before {
        start,
        bytes,
        faults,
        cold_bytes,
        outcome,
    }
}

/// Asks `towpath-transfer` what to do about a read, and does it.
fn bring_in(state: &State, transfer: &Transfer, footprint: &Footprint) -> (Option<u64>, Outcome) {
    if DRIVER_MEMORY.overlap(footprint.envelope()) {
        return (None, Outcome::DriverMapping);
    }
    let plan = readback::prepare(
        footprint,
        &Context {
            fixes: state.fixes(),
            rules: &state.rules,
        },
    );
    let cold_bytes = plan.cold_bytes().map(|bytes| bytes as u64);
    if plan.is_prefault() && transfer.is_blocking && !inside::is_callback() {
        // A blocking read flushes anyway; earlier, the device works while the pages come in.
        calls::flush(transfer.queue);
    }
    let done: Done = plan.run();
    (cold_bytes, outcome(done.outcome))
}

fn after(state: &State, transfer: &Transfer, before: &Before, answer: cl_int) {
    if answer == CL_SUCCESS
        && transfer.path == HostPath::Readback
        && let Some(footprint) = &transfer.footprint
    {
        readback::wrote(footprint);
    }
    let Some(ledger) = state.ledger() else { return };
    let wall = MonotonicClock.now().since(before.start);
    let faults = if before.bytes >= COUNT_FAULTS_MIN {
        faults::of_process().saturating_sub(before.faults)
    } else {
        0
    };
    let site = ledger.site(&SiteKey {
        path: transfer.path,
        call: transfer.call,
        device: devices::name(transfer.queue),
        stack: Stack::for_bytes(before.bytes, 0),
    });
    let outcome = if answer == CL_SUCCESS {
        before.outcome
    } else {
        Outcome::CallFailed
    };
    let call = Call {
        start: before.start,
        bytes: before.bytes,
        wall,
        faults,
        cold_bytes: before.cold_bytes.unwrap_or(Call::COLD_UNKNOWN),
        outcome,
        ..Call::default()
    };
    ledger.record(site, &call);
}

/// 256 KiB: asking the kernel twice costs under a microsecond, a copy of that size about twenty.
const COUNT_FAULTS_MIN: u64 = 256 << 10;

fn outcome(of: readback::Outcome) -> Outcome {
    use readback::Outcome as Read;
    match of {
        Read::Prefaulted => Outcome::Prefaulted,
        Read::Off => Outcome::Off,
        Read::TooSmall => Outcome::TooSmall,
        Read::AlreadyWarm => Outcome::AlreadyWarm,
        Read::ReadOnly | Read::NotMapped => Outcome::ReadOnly,
        Read::FileBacked => Outcome::FileBacked,
        Read::DriverMapping => Outcome::DriverMapping,
        Read::LowMemory => Outcome::LowMemory,
        Read::NoGain => Outcome::NoGain,
        _ => Outcome::Failed,
    }
}
