//! The generated families: every set of states under every set of flags.

use std::os::fd::AsFd;

use libc::{EINVAL, ETIME};
use towpath_sys::drm::{WAIT_ALL, WAIT_AVAILABLE, WAIT_FOR_SUBMIT};

use super::{Kind, ready, rule, same};
use crate::ops::{Ops, POLL, in_ms};
use crate::{Fences, Outcome, Rule, Target};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Unsubmitted,
    Submitted,
    Signaled,
}

const STATES: [State; 3] = [State::Unsubmitted, State::Submitted, State::Signaled];

pub(super) fn add(rules: &mut Vec<Rule>) {
    for kind in Kind::BOTH {
        let flag_bits = if kind == Kind::Binary { 4 } else { 8 };
        for flags in 0..flag_bits {
            for state in STATES {
                add_one(rules, kind, flags, &[state], "single-wait");
            }
            // Seven non-empty sets of states. intel-gpu-tools has one set fewer.
            for set in 1_usize..8 {
                let states: Vec<State> = (0..3)
                    .filter(|bit| set & (1 << bit) != 0)
                    .map(|bit| STATES[bit])
                    .collect();
                add_one(rules, kind, flags, &states, "multi-wait");
            }
        }
    }
}

fn add_one(rules: &mut Vec<Rule>, kind: Kind, flags: u32, states: &[State], family: &str) {
    let want = expected(states, flags);
    let mut name = format!("{}/", kind.suite());
    if want == Err(EINVAL) {
        name.push_str("invalid-");
    }
    name.push_str(family);
    for (flag, text) in [
        (WAIT_ALL, "-all"),
        (WAIT_FOR_SUBMIT, "-for-submit"),
        (WAIT_AVAILABLE, "-available"),
    ] {
        if flags & flag != 0 {
            name.push_str(text);
        }
    }
    for state in states {
        name.push_str(match state {
            State::Unsubmitted => "-unsubmitted",
            State::Submitted => "-submitted",
            State::Signaled => "-signaled",
        });
    }
    let states = states.to_vec();
    let is_multi = family == "multi-wait";
    rule(rules, name, move |target| {
        check(target, kind, flags, &states, is_multi, want)
    });
}

/// The whole rule.
fn expected(states: &[State], flags: u32) -> Result<(), i32> {
    let available = flags & WAIT_AVAILABLE != 0;
    if flags & (WAIT_FOR_SUBMIT | WAIT_AVAILABLE) == 0 && states.contains(&State::Unsubmitted) {
        return Err(EINVAL);
    }
    let is_ready = |state: &State| match state {
        State::Unsubmitted => false,
        State::Submitted => available,
        State::Signaled => true,
    };
    let done = if flags & WAIT_ALL != 0 {
        states.iter().all(is_ready)
    } else {
        states.iter().any(is_ready)
    };
    if done { Ok(()) } else { Err(ETIME) }
}

fn check(
    target: &dyn Target,
    kind: Kind,
    flags: u32,
    states: &[State],
    is_multi: bool,
    want: Result<(), i32>,
) -> Outcome {
    let client = target.open()?;
    let ops = Ops(&*client);
    let fences = target.fences()?;
    // Several objects stand for each state, so that a multi wait is one on many.
    let copies = if is_multi { 3 } else { 1 };
    let mut handles = Vec::new();
    let mut order = Vec::new();
    for _ in 0..copies {
        for state in states {
            handles.push(make(ops, &*fences, kind, *state)?);
            order.push(*state);
        }
    }
    for timeout in [POLL, in_ms(4)] {
        let (answer, first) = kind.wait(ops, &handles, timeout, flags);
        same(answer, want, "wait")?;
        if want.is_err() {
            same(
                first,
                crate::ops::UNTOUCHED,
                "first_signaled of a failed wait",
            )?;
        } else if flags & WAIT_ALL == 0 {
            let is_ready = |state: &State| {
                *state == State::Signaled
                    || (flags & WAIT_AVAILABLE != 0 && *state == State::Submitted)
            };
            let lowest = order
                .iter()
                .position(is_ready)
                .and_then(|at| u32::try_from(at).ok());
            same(Some(first), lowest, "first_signaled")?;
        }
    }
    if want != Err(ETIME) {
        same(
            kind.wait(ops, &handles, i64::MAX, flags).0,
            want,
            "wait for ever",
        )?;
    }
    Ok(())
}

fn make(ops: Ops<'_>, fences: &dyn Fences, kind: Kind, state: State) -> Result<u32, String> {
    let handle = ready(ops.create(0), "create")?;
    match state {
        State::Unsubmitted => {}
        State::Submitted => {
            let file = fences.sync_file(1)?;
            ready(ops.attach(handle, kind.point(), file.as_fd()), "attach")?;
        }
        State::Signaled => ready(kind.signal(ops, &[handle]), "signal")?,
    }
    Ok(handle)
}
