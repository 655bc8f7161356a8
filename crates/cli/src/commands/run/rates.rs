//! What this machine does with pages and copies: measured right after the run, on our own memory.

use towpath_measure::{Clock as _, MonotonicClock};
use towpath_memory::{Mapping, Prefault, margin, prefault, stream, warm_host};
use towpath_report::ledger::Rates;

/// Size that is measured: larger than caches, small enough for a tenth of a second.
const BYTES: usize = 64 << 20;
/// Measurements, of which the middle one counts.
const ROUNDS: usize = 3;

/// Measures; `None` if memory is short or a step fails: then nothing is predicted.
pub(super) fn measure() -> Option<Rates> {
    if !margin::allows(3 * BYTES) {
        return None;
    }
    // A virtual machine may have given freed memory back; its return is not the program's cost.
    warm_host(2 * BYTES).ok()?;
    let source = vec![1_u8; BYTES];
    let mut target = vec![0_u8; BYTES];
    stream::copy(&source, &mut target);
    let warm = middle(|| {
        let start = MonotonicClock.now();
        target.copy_from_slice(&source);
        Some(MonotonicClock.now().since(start).as_secs_f64())
    })?;
    let cold = middle(|| {
        let mapping = Mapping::anonymous(BYTES).ok()?;
        let start = MonotonicClock.now();
        prefault(mapping.range(), &Prefault::default()).ok()?;
        Some(MonotonicClock.now().since(start).as_secs_f64())
    })?;
    Some(Rates {
        prefault_s_per_byte: cold / BYTES as f64,
        warm_s_per_byte: warm / BYTES as f64,
    })
}

fn middle(mut once: impl FnMut() -> Option<f64>) -> Option<f64> {
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| once()).collect::<Option<_>>()?;
    times.sort_by(f64::total_cmp);
    times.get(ROUNDS / 2).copied()
}
