//! The named rules that `syncobj_wait` and `syncobj_timeline` share.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use libc::{EINVAL, ENOENT, ETIME};
use towpath_sys::drm::{WAIT_ALL, WAIT_FOR_SUBMIT};

use super::{Kind, empty, ready, rule, same};
use crate::ops::{Ops, POLL, in_ms};
use crate::{Outcome, Rule, Target};

/// Long enough for a machine without hardware virtualisation.
const PATIENCE_MS: i64 = 20_000;
const SHORT: Duration = Duration::from_millis(15);

pub(super) fn add(rules: &mut Vec<Rule>) {
    for kind in Kind::BOTH {
        let name = |leaf: &str| format!("{}/{leaf}", kind.suite());
        let mut add = |leaf: &str, check: fn(&dyn Target, Ops<'_>, Kind) -> Outcome| {
            rule(rules, name(leaf), move |target| {
                let client = target.open()?;
                check(target, Ops(&*client), kind)
            });
        };
        add("invalid-wait-bad-flags", |_, ops, kind| {
            let [handle] = empty(ops)?;
            same(
                kind.wait(ops, &[handle], POLL, 0xdead_0000).0,
                Err(EINVAL),
                "wait",
            )
        });
        add("wait-zero-handles", |_, ops, kind| {
            // Linux 6.12 and later; 6.1 answers EINVAL.
            let (answer, first) = kind.wait(ops, &[], POLL, 0);
            same(answer, Ok(()), "wait")?;
            same(first, crate::ops::UNTOUCHED, "first_signaled")
        });
        add("invalid-wait-illegal-handle", |_, ops, kind| {
            same(
                kind.wait(ops, &[0], POLL, 0).0,
                Err(ENOENT),
                "wait on handle zero",
            )?;
            same(kind.wait(ops, &[0xdead], POLL, 0).0, Err(ENOENT), "wait")
        });
        add("invalid-reset-zero-handles", |_, ops, _| {
            same(ops.reset(&[], 0), Err(EINVAL), "reset")
        });
        add("invalid-reset-illegal-handle", |_, ops, _| {
            same(ops.reset(&[0xdead], 0), Err(ENOENT), "reset")
        });
        add("invalid-reset-one-illegal-handle", |_, ops, kind| {
            one_illegal(ops, kind, true, |ops, _, handles| ops.reset(handles, 0))
        });
        add("invalid-reset-bad-pad", |_, ops, _| {
            let [handle] = empty(ops)?;
            same(ops.reset(&[handle], 1), Err(EINVAL), "reset")
        });
        add("invalid-signal-zero-handles", |_, ops, kind| {
            same(kind.signal(ops, &[]), Err(EINVAL), "signal")
        });
        add("invalid-signal-illegal-handle", |_, ops, kind| {
            same(kind.signal(ops, &[0xdead]), Err(ENOENT), "signal")
        });
        add("invalid-signal-one-illegal-handle", |_, ops, kind| {
            one_illegal(ops, kind, false, |ops, kind, handles| {
                kind.signal(ops, handles)
            })
        });
        add("invalid-signal-bad-pad", |_, ops, kind| {
            let [handle] = empty(ops)?;
            let answer = match kind {
                Kind::Binary => ops.signal(&[handle], 1),
                Kind::Timeline => ops.timeline_signal(&[handle], &[1], 1),
            };
            same(answer, Err(EINVAL), "signal")
        });
        add("signal", |target, ops, kind| {
            let [handle] = empty(ops)?;
            let source = target.fences()?;
            same(kind.wait(ops, &[handle], POLL, 0).0, Err(EINVAL), "before")?;
            same(
                kind.wait(ops, &[handle], POLL, WAIT_FOR_SUBMIT).0,
                Err(ETIME),
                "before",
            )?;
            ready(kind.signal(ops, &[handle]), "signal")?;
            same(kind.wait(ops, &[handle], POLL, 0).0, Ok(()), "after")?;
            same(
                kind.wait(ops, &[handle], POLL, WAIT_FOR_SUBMIT).0,
                Ok(()),
                "after",
            )?;
            ready(ops.reset(&[handle], 0), "reset")?;
            attach(&*source, ops, handle, kind.point())?;
            same(kind.wait(ops, &[handle], POLL, 0).0, Err(ETIME), "pending")?;
            ready(ops.signal(&[handle], 0), "signal over a pending fence")?;
            same(
                ops.wait(&[handle], POLL, 0).0,
                Ok(()),
                "after the second signal",
            )
        });
        add("reset-unsignaled", |_, ops, kind| {
            let [handle] = empty(ops)?;
            same(kind.wait(ops, &[handle], POLL, 0).0, Err(EINVAL), "before")?;
            ready(ops.reset(&[handle], 0), "reset")?;
            same(kind.wait(ops, &[handle], POLL, 0).0, Err(EINVAL), "after")
        });
        add("reset-signaled", |_, ops, kind| {
            let [handle] = empty(ops)?;
            ready(kind.signal(ops, &[handle]), "signal")?;
            same(kind.wait(ops, &[handle], POLL, 0).0, Ok(()), "before")?;
            ready(ops.reset(&[handle], 0), "reset")?;
            same(kind.wait(ops, &[handle], POLL, 0).0, Err(EINVAL), "after")
        });
        add("reset-multiple-signaled", |_, ops, kind| {
            let handles: [u32; 3] = empty(ops)?;
            ready(kind.signal(ops, &handles), "signal")?;
            same(kind.wait(ops, &handles, POLL, 0).0, Ok(()), "before")?;
            ready(ops.reset(&handles, 0), "reset")?;
            for handle in handles {
                same(kind.wait(ops, &[handle], POLL, 0).0, Err(EINVAL), "after")?;
            }
            Ok(())
        });
        add("reset-during-wait-for-submit", reset_during_wait);
        add("wait-delayed-signal", |target, ops, kind| {
            delayed(target, ops, kind, 0, true)
        });
        add("wait-all-delayed-signal", |target, ops, kind| {
            delayed(target, ops, kind, WAIT_ALL, true)
        });
        add("wait-for-submit-delayed-submit", |target, ops, kind| {
            delayed(target, ops, kind, WAIT_FOR_SUBMIT, false)
        });
        add("wait-all-for-submit-delayed-submit", |target, ops, kind| {
            delayed(target, ops, kind, WAIT_FOR_SUBMIT | WAIT_ALL, false)
        });
        for (leaf, flags) in FLAGS {
            rule(rules, name(&format!("{leaf}-snapshot")), move |target| {
                let client = target.open()?;
                snapshot(target, Ops(&*client), kind, flags)
            });
            rule(rules, name(&format!("{leaf}-complex")), move |target| {
                let client = target.open()?;
                complex(target, Ops(&*client), kind, flags)
            });
        }
        for (leaf, flags) in [
            ("wait-any-interrupted", 0),
            ("wait-all-interrupted", WAIT_ALL),
        ] {
            rule(rules, name(leaf), move |target| {
                let client = target.open()?;
                interrupted(target, Ops(&*client), kind, flags)
            });
        }
    }
}

const FLAGS: [(&str, u32); 4] = [
    ("wait-any", 0),
    ("wait-all", WAIT_ALL),
    ("wait-for-submit", WAIT_FOR_SUBMIT),
    ("wait-all-for-submit", WAIT_ALL | WAIT_FOR_SUBMIT),
];

fn attach(source: &dyn crate::Fences, ops: Ops<'_>, handle: u32, point: u64) -> Outcome {
    let file = source.sync_file(1)?;
    ready(ops.attach(handle, point, file.as_fd()), "attach")
}

/// One unknown handle between two good ones: nothing is done to those.
fn one_illegal(
    ops: Ops<'_>,
    kind: Kind,
    start_signaled: bool,
    act: impl Fn(Ops<'_>, Kind, &[u32]) -> Result<(), i32>,
) -> Outcome {
    let [first, second] = empty(ops)?;
    if start_signaled {
        ready(kind.signal(ops, &[first, second]), "signal")?;
    }
    same(
        act(ops, kind, &[first, 0xdead, second]),
        Err(ENOENT),
        "the call",
    )?;
    let want = if start_signaled { Ok(()) } else { Err(EINVAL) };
    same(kind.wait(ops, &[first], POLL, 0).0, want, "the first")?;
    same(kind.wait(ops, &[second], POLL, 0).0, want, "the second")
}

/// A thread makes ready what the wait is for, a little later.
fn delayed(target: &dyn Target, ops: Ops<'_>, kind: Kind, flags: u32, submitted: bool) -> Outcome {
    let [first, second] = empty(ops)?;
    let source = target.fences()?;
    if submitted {
        attach(&*source, ops, first, kind.point())?;
        attach(&*source, ops, second, kind.point())?;
    }
    let client = ops.0;
    thread::scope(|scope| {
        let later = scope.spawn(|| -> Outcome {
            thread::sleep(SHORT);
            if !submitted {
                attach(&*source, Ops(client), first, kind.point())?;
                attach(&*source, Ops(client), second, kind.point())?;
                thread::sleep(SHORT);
            }
            source.increase(1)
        });
        let answer = kind
            .wait(ops, &[first, second], in_ms(PATIENCE_MS), flags)
            .0;
        later
            .join()
            .map_err(|_panic| "the other thread panicked".to_owned())??;
        same(answer, Ok(()), "wait")
    })
}

fn reset_during_wait(target: &dyn Target, ops: Ops<'_>, kind: Kind) -> Outcome {
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    let client = ops.0;
    thread::scope(|scope| {
        let later = scope.spawn(|| -> Outcome {
            let ops = Ops(client);
            thread::sleep(SHORT);
            ready(ops.reset(&[handle], 0), "reset")?;
            thread::sleep(SHORT);
            attach(&*source, ops, handle, kind.point())?;
            source.increase(1)
        });
        let answer = kind
            .wait(ops, &[handle], in_ms(PATIENCE_MS), WAIT_FOR_SUBMIT)
            .0;
        later
            .join()
            .map_err(|_panic| "the other thread panicked".to_owned())??;
        same(answer, Ok(()), "wait")
    })
}

/// Reset and a never-ending fence put in after the wait began change nothing for it.
fn snapshot(target: &dyn Target, ops: Ops<'_>, kind: Kind, flags: u32) -> Outcome {
    let [first, second] = empty(ops)?;
    let (one, two, never) = (target.fences()?, target.fences()?, target.fences()?);
    let submit_later = flags & WAIT_FOR_SUBMIT != 0;
    if !submit_later {
        attach(&*one, ops, first, kind.point())?;
        attach(&*two, ops, second, kind.point())?;
    }
    let client = ops.0;
    let is_all = flags & WAIT_ALL != 0;
    thread::scope(|scope| {
        let later = scope.spawn(|| -> Outcome {
            let ops = Ops(client);
            thread::sleep(SHORT);
            if submit_later {
                attach(&*one, ops, first, kind.point())?;
                attach(&*two, ops, second, kind.point())?;
                thread::sleep(SHORT);
            }
            if is_all {
                one.increase(1)?;
                thread::sleep(SHORT);
            }
            ready(ops.reset(&[first], 0), "reset")?;
            attach(&*never, ops, first, kind.point())?;
            thread::sleep(SHORT);
            two.increase(1)
        });
        let (answer, index) = kind.wait(ops, &[first, second], in_ms(PATIENCE_MS), flags);
        later
            .join()
            .map_err(|_panic| "the other thread panicked".to_owned())??;
        same(answer, Ok(()), "wait")?;
        if is_all {
            Ok(())
        } else {
            same(index, 1, "first_signaled")
        }
    })
}

/// Eight objects walk through all states in mixed order while a thread waits on all of them.
fn complex(target: &dyn Target, ops: Ops<'_>, kind: Kind, flags: u32) -> Outcome {
    let handles: [u32; 8] = empty(ops)?;
    let sources = handles
        .iter()
        .map(|_| target.fences())
        .collect::<Result<Vec<_>, _>>()?;
    let submit_later = flags & WAIT_FOR_SUBMIT != 0;
    if !submit_later {
        for (handle, source) in handles.iter().zip(&sources) {
            attach(&**source, ops, *handle, kind.point())?;
        }
    }
    let client = ops.0;
    thread::scope(|scope| {
        let later = scope.spawn(|| -> Outcome {
            let ops = Ops(client);
            thread::sleep(SHORT);
            // Fixed mixed order: 3, 6, 1, 4, 7, 2, 5, 0.
            let order = (1..=8_usize).map(|step| step * 3 % 8);
            for at in order.clone() {
                if submit_later {
                    attach(&*sources[at], ops, handles[at], kind.point())?;
                }
                thread::sleep(Duration::from_millis(1));
            }
            for at in order {
                sources[at].increase(1)?;
                thread::sleep(Duration::from_millis(2));
                ready(ops.reset(&[handles[at]], 0), "reset")?;
                let again = target.fences()?;
                attach(&*again, ops, handles[at], kind.point())?;
            }
            Ok(())
        });
        let answer = kind.wait(ops, &handles, in_ms(PATIENCE_MS), flags).0;
        later
            .join()
            .map_err(|_panic| "the other thread panicked".to_owned())??;
        same(answer, Ok(()), "wait")
    })
}

/// A storm of signals does not end a wait early.
fn interrupted(target: &dyn Target, ops: Ops<'_>, kind: Kind, flags: u32) -> Outcome {
    let [first, second] = empty(ops)?;
    let source = target.fences()?;
    attach(&*source, ops, first, kind.point())?;
    attach(&*source, ops, second, kind.point())?;
    let answer =
        crate::target::in_signal_storm(|| kind.wait(ops, &[first, second], in_ms(60), flags).0)?;
    same(answer, Err(ETIME), "wait")
}
