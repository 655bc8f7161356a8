//! What happens around a transfer: decide, do, forward, record.

use opencl_sys::{CL_SUCCESS, cl_bool, cl_command_queue, cl_event, cl_int, cl_uint};
use towpath_ledger::{Call, HostPath, Outcome, SiteKey, Stack};
use towpath_measure::{Clock, MonotonicClock, Nanos};
use towpath_memory::faults;
use towpath_settings::{Fix, Mode, TransferWay};
use towpath_transfer::engine::Shape;
use towpath_transfer::opencl;
use towpath_transfer::policy::{Direction, Mechanism, Warmth};
use towpath_transfer::readback::{self, Context, Footprint, Rules};

use crate::boundary::wall;
use crate::devices::Device;
use crate::ranges::Ranges;
use crate::state::State;
use crate::{calls, devices, inside, stage, state};

/// Host memory that the driver handed out.
pub(crate) static DRIVER_MEMORY: Ranges = Ranges::new();

/// One call that moves bytes between host and device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) path: HostPath,
    /// The function's name.
    pub(crate) name: &'static str,
    pub(crate) events: Events,
    /// The host bytes; `None` where the arguments have none.
    pub(crate) footprint: Option<Footprint>,
    /// The arguments; `None` for calls that are never staged.
    pub(crate) call: Option<opencl::Transfer>,
}

/// The arguments that every enqueue has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events {
    pub(crate) queue: cl_command_queue,
    pub(crate) is_blocking: bool,
    pub(crate) waits: cl_uint,
    pub(crate) wait_list: *const cl_event,
    /// Where the program wants its event; null if it wants none.
    pub(crate) event: *mut cl_event,
}

impl Events {
    #[inline]
    pub(crate) fn new(
        queue: cl_command_queue,
        blocking: cl_bool,
        waits: cl_uint,
        wait_list: *const cl_event,
        event: *mut cl_event,
    ) -> Self {
        Self {
            queue,
            is_blocking: blocking != 0,
            waits,
            wait_list,
            event,
        }
    }
}

/// What was done before the call would be forwarded.
#[derive(Clone, Copy, Debug)]
struct Deed {
    cold_bytes: Option<u64>,
    outcome: Outcome,
    /// Page faults of the process when the work on pages began; `None` where they are not counted:
    /// asking the kernel twice takes a microsecond, too much for a copy into warm memory.
    faults: Option<u64>,
    /// The answer to the program, where the call is done and must not be forwarded.
    answer: Option<cl_int>,
}

impl Deed {
    fn forward(cold_bytes: Option<u64>, outcome: Outcome) -> Self {
        Self {
            cold_bytes,
            outcome,
            faults: None,
            answer: None,
        }
    }

    fn with_faults(self, faults: Option<u64>) -> Self {
        Self { faults, ..self }
    }
}

/// What is carried over the forwarded call.
#[derive(Clone, Copy, Debug)]
struct Before {
    start: Nanos,
    bytes: u64,
    device: Option<&'static Device>,
    deed: Deed,
}

/// Forwards a transfer exactly once, with our work round it; or does it in the driver's place, where
/// staging said that it is done.
#[inline]
pub(crate) fn around(transfer: &Transfer, forward: impl FnOnce() -> cl_int) -> cl_int {
    let state = state::get();
    let before = wall(|| before(state, transfer));
    let done = before.and_then(|before| before.deed.answer);
    let answer = done.unwrap_or_else(forward);
    if let Some(before) = before {
        // A panic of ours costs the record.
        let _lost = wall(|| after(state, transfer, &before, answer));
    }
    answer
}

fn before(state: &State, transfer: &Transfer) -> Before {
    let start = MonotonicClock.now();
    let bytes = transfer.footprint.map_or(0, |found| found.bytes() as u64);
    let device = devices::of(transfer.events.queue);
    let deed = match (transfer.path, &transfer.footprint) {
        (HostPath::Readback, Some(footprint)) => read(state, transfer, device, footprint),
        (HostPath::Upload, Some(footprint)) => write(state, transfer, device, footprint),
        _ => Deed::forward(None, Outcome::Observed),
    };
    Before {
        start,
        bytes,
        device,
        deed,
    }
}

/// Asks `towpath-transfer` what to do about a read, and does it.
fn read(
    state: &State,
    transfer: &Transfer,
    device: Option<&Device>,
    footprint: &Footprint,
) -> Deed {
    if DRIVER_MEMORY.overlap(footprint.envelope()) {
        return Deed::forward(None, Outcome::DriverMapping);
    }
    if (footprint.bytes() as u64) < LOOKED_AT_BYTES_MIN {
        return Deed::forward(None, Outcome::TooSmall);
    }
    let fixes = state.fixes();
    let rules = rules_for(device, footprint.bytes());
    let plan = readback::prepare(
        footprint,
        &Context {
            fixes,
            rules: &rules,
        },
    );
    let cold_bytes = plan.cold_bytes().map(|bytes| bytes as u64);
    // Found warm, or never looked at because it is small: no fault is worth its count.
    let counts_faults = !matches!(
        plan.reason(),
        Some(Outcome::AlreadyWarm | Outcome::TooSmall)
    );
    let faults = counts_faults.then(faults::of_process);
    let warmth = match cold_bytes {
        Some(cold) if cold.saturating_mul(2) < footprint.bytes() as u64 => Warmth::Warm,
        _ => Warmth::Cold,
    };
    let mode = fixes.mode(Fix::Readback);
    match choose(
        state,
        device,
        mode,
        Direction::Read,
        warmth,
        footprint.bytes(),
    ) {
        Mechanism::Staged {
            threads,
            chunk_bytes,
        } => {
            let shape = Shape::new(threads, chunk_bytes);
            if let Some(done) = stage::read(transfer, footprint, cold_bytes, shape) {
                tell(device, Direction::Read, warmth, footprint.bytes(), &done);
                return Deed {
                    cold_bytes,
                    outcome: Outcome::Staged,
                    faults,
                    answer: Some(done.answer),
                };
            }
        }
        Mechanism::Forward if plan.is_prefault() => {
            return Deed::forward(cold_bytes, Outcome::NoGain).with_faults(faults);
        }
        _ => {}
    }
    if plan.is_prefault() && transfer.events.is_blocking && !inside::is_callback() {
        // A blocking read flushes anyway; earlier, the device works while the pages come in.
        calls::flush(transfer.events.queue);
    }
    Deed::forward(cold_bytes, plan.run().outcome).with_faults(faults)
}

/// The numbers by which a read of `bytes` is prefaulted.
fn rules_for(device: Option<&Device>, bytes: usize) -> Rules {
    let Some(device) = device else {
        return Rules::default();
    };
    let mut rules = device.rules;
    rules.skip_huge = bytes >= rules.floor_bytes && device.policy.skips_huge(bytes);
    rules
}

/// Stages a write where that is chosen and allowed.
fn write(
    state: &State,
    transfer: &Transfer,
    device: Option<&Device>,
    footprint: &Footprint,
) -> Deed {
    let mode = state.fixes().mode(Fix::Upload);
    if mode == Mode::Off {
        return Deed::forward(Some(0), Outcome::Off);
    }
    if footprint.bytes() < STAGE_BYTES_MIN {
        return Deed::forward(Some(0), Outcome::TooSmall);
    }
    let direction = Direction::Write;
    let chosen = choose(
        state,
        device,
        mode,
        direction,
        Warmth::Warm,
        footprint.bytes(),
    );
    let Some(shape) = chosen.shape() else {
        return Deed::forward(Some(0), Outcome::NoGain);
    };
    if DRIVER_MEMORY.overlap(footprint.envelope()) {
        return Deed::forward(Some(0), Outcome::DriverMapping);
    }
    let Some(done) = stage::write(transfer, footprint, shape) else {
        return Deed::forward(Some(0), Outcome::NotStageable);
    };
    tell(device, direction, Warmth::Warm, footprint.bytes(), &done);
    Deed {
        cold_bytes: Some(0),
        outcome: Outcome::Staged,
        faults: None,
        answer: Some(done.answer),
    }
}

/// Tells the policy what a staged copy took: it switches staging off where it loses.
fn tell(
    device: Option<&Device>,
    direction: Direction,
    warmth: Warmth,
    bytes: usize,
    done: &stage::Done,
) {
    if let Some(device) = device {
        device.policy.took(direction, warmth, bytes, done.copying.0);
    }
}

/// The mechanism: the user's word where there is one, else the device's policy.
fn choose(
    state: &State,
    device: Option<&Device>,
    mode: Mode,
    direction: Direction,
    warmth: Warmth,
    bytes: usize,
) -> Mechanism {
    let by_rules = match direction {
        Direction::Read => Mechanism::Prefault,
        Direction::Write => Mechanism::Forward,
    };
    if mode == Mode::Off || bytes < STAGE_BYTES_MIN {
        return by_rules;
    }
    match state.way {
        TransferWay::Prefault => by_rules,
        TransferWay::Staged => Mechanism::staged(stage::shape()),
        TransferWay::Auto => device.map_or(by_rules, |device| {
            // Warm, there is nothing to bring in: forcing the fix is about cold memory.
            let is_warm_read = direction == Direction::Read && warmth == Warmth::Warm;
            let mode = if is_warm_read { Mode::Auto } else { mode };
            device.policy.choose(mode, direction, warmth, bytes)
        }),
    }
}

fn after(state: &State, transfer: &Transfer, before: &Before, answer: cl_int) {
    // Small reads are never looked at, so that nothing needs to be known about their pages.
    if answer == CL_SUCCESS
        && transfer.path == HostPath::Readback
        && before.bytes >= LOOKED_AT_BYTES_MIN
        && let Some(footprint) = &transfer.footprint
    {
        readback::wrote(footprint);
    }
    let ledger = state.ledger();
    let is_timed = answer == CL_SUCCESS && tells_of_pages(transfer, before);
    if ledger.is_none() && !is_timed {
        return;
    }
    let wall = MonotonicClock.now().since(before.start);
    if is_timed && let Some(footprint) = &transfer.footprint {
        readback::took(footprint, wall);
    }
    let Some(ledger) = ledger else { return };
    let faults = before
        .deed
        .faults
        .map_or(0, |began| faults::of_process().saturating_sub(began));
    let site = ledger.site(&SiteKey {
        path: transfer.path,
        call: transfer.name,
        device: before.device.map_or("", |device| device.name.as_str()),
        stack: Stack::for_bytes(before.bytes, 0),
    });
    let outcome = if answer == CL_SUCCESS {
        before.deed.outcome
    } else {
        Outcome::CallFailed
    };
    let call = Call {
        start: before.start,
        bytes: before.bytes,
        wall,
        faults,
        cold_bytes: before.deed.cold_bytes.unwrap_or(Call::COLD_UNKNOWN),
        outcome,
        ..Call::default()
    };
    ledger.record(site, &call);
}

/// Whether the time of the call says if its destination was warm: it was taken for warm, and the driver
/// wrote to it before the call ended.
fn tells_of_pages(transfer: &Transfer, before: &Before) -> bool {
    transfer.events.is_blocking
        && transfer.path == HostPath::Readback
        && before.deed.answer.is_none()
        && before.deed.outcome == Outcome::AlreadyWarm
}

/// 256 KiB: below the smallest floor that a calibration may give, so that nothing need be asked.
const LOOKED_AT_BYTES_MIN: u64 = 256 << 10;
/// 1 MiB: below, no calibration measures, and staging costs more than the copy.
const STAGE_BYTES_MIN: usize = 1 << 20;
