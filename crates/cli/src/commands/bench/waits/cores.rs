//! Which cores threads run on: where the scheduler puts the two sides of a wait makes more of a
//! difference than how they wait.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the two sides run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cores {
    /// Both on the first core that this process may use.
    One,
    /// On the first and the second; on the first where there is one.
    Two,
}

impl Cores {
    pub(super) const BOTH: [Self; 2] = [Self::One, Self::Two];

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::One => "on one core",
            Self::Two => "on two cores",
        }
    }

    /// Keeps this thread on the core of the side that answers.
    pub(super) fn pin_answering(self) {
        pin(match self {
            Self::One => 0,
            Self::Two => 1,
        });
    }
}

/// Keeps this thread on the core of the side that asks: the first.
pub(super) fn pin_asking() {
    pin(0);
}

/// Keeps this thread on the core of that rank among those that the process may use.
fn pin(rank: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    if let Some(core) = cores.nth(rank) {
        let mut set = CpuSet::new();
        set.set(core);
        // A container that forbids it measures where it may.
        let _refused = sched_setaffinity(None, &set);
    }
}
