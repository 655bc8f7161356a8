//! Rules of the Vulkan conformance tests, where they say something about the objects below.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use libc::ETIME;
use towpath_sys::drm::{FD_SYNC_FILE, WAIT_ALL, WAIT_FOR_SUBMIT};

use super::{Kind, empty, ops_rule, ready, rule, same};
use crate::ops::{Ops, POLL, in_ms};
use crate::{Outcome, Rule, Target};

fn name(leaf: &str) -> String {
    format!("vulkan/{leaf}")
}

pub(super) fn add(rules: &mut Vec<Rule>) {
    ops_rule(
        rules,
        name("timeline_semaphore.wait.one_signal_from_host"),
        |ops| {
            let handles: [u32; 100] = empty(ops)?;
            let points: Vec<u64> = (1..=100).collect();
            let wait = |flags| ops.timeline_wait(&handles, Some(&points), POLL, flags);
            same(wait(WAIT_FOR_SUBMIT).0, Err(ETIME), "any, before")?;
            ready(
                ops.timeline_signal(&handles[61..62], &points[61..62], 0),
                "signal",
            )?;
            same(wait(WAIT_FOR_SUBMIT), (Ok(()), 61), "any, after")?;
            same(wait(WAIT_FOR_SUBMIT | WAIT_ALL).0, Err(ETIME), "all")
        },
    );
    ops_rule(
        rules,
        name("timeline_semaphore.wait.all_signal_from_host"),
        |ops| {
            let handles: [u32; 100] = empty(ops)?;
            let points: Vec<u64> = (1..=100).collect();
            ready(ops.timeline_signal(&handles, &points, 0), "signal")?;
            same(
                ops.timeline_wait(&handles, Some(&points), POLL, WAIT_ALL).0,
                Ok(()),
                "all",
            )
        },
    );
    rule(
        rules,
        name("timeline_semaphore.wait.all_signal_from_device"),
        |target| {
            let client = target.open()?;
            let ops = Ops(&*client);
            let source = target.fences()?;
            let handles: [u32; 20] = empty(ops)?;
            for handle in handles {
                let file = source.sync_file(1)?;
                ready(ops.attach(handle, 1, file.as_fd()), "attach")?;
            }
            let wait = || Kind::Timeline.wait(ops, &handles, POLL, WAIT_ALL).0;
            same(wait(), Err(ETIME), "before")?;
            source.increase(1)?;
            same(wait(), Ok(()), "after")
        },
    );
    ops_rule(
        rules,
        name("timeline_semaphore.wait.host_wait_before_signal"),
        host_wait_before_signal,
    );
    for (leaf, flags, lesser) in [
        ("wait_for_any_current_value", 0, 0),
        ("wait_for_all_current_value", WAIT_ALL, 0),
        ("wait_for_any_lesser_value", 0, 1),
        ("wait_for_all_lesser_value", WAIT_ALL, 1),
    ] {
        ops_rule(
            rules,
            name(&format!("basic.timeline_semaphore.{leaf}")),
            move |ops| {
                let handles: [u32; 16] = empty(ops)?;
                let points: Vec<u64> = (10..26).collect();
                ready(ops.timeline_signal(&handles, &points, 0), "signal")?;
                let wanted: Vec<u64> = points.iter().map(|point| point - lesser).collect();
                same(
                    ops.timeline_wait(&handles, Some(&wanted), POLL, flags).0,
                    Ok(()),
                    "wait",
                )
            },
        );
    }
    ops_rule(
        rules,
        name("basic.timeline_semaphore.two_threads"),
        two_threads,
    );
    ops_rule(
        rules,
        name("timeline_semaphore.device_host.max_difference_value"),
        |ops| {
            let [handle] = empty(ops)?;
            let mut value = 0;
            for _ in 0..8 {
                value += (1 << 31) - 1;
                ready(ops.timeline_signal(&[handle], &[value], 0), "signal")?;
                same(ops.query(handle), Ok(value), "query")?;
            }
            Ok(())
        },
    );
    ops_rule(
        rules,
        name("timeline_semaphore.device_host.initial_value"),
        |ops| {
            for value in [0, 1, 77, 1 << 31, (1 << 32) + 5, u64::MAX - 1] {
                let [handle] = empty(ops)?;
                ready(ops.timeline_signal(&[handle], &[value], 0), "signal")?;
                same(ops.query(handle), Ok(value), "query")?;
            }
            Ok(())
        },
    );
    rule(
        rules,
        name("timeline_semaphore.device_host.wait_before_signal"),
        |target| {
            let client = target.open()?;
            before_signal(target, Ops(&*client))
        },
    );
    add_external(rules);
}

/// Twelve points of twelve objects, each done when the one before is: one signal frees the last.
fn host_wait_before_signal(ops: Ops<'_>) -> Outcome {
    let handles: [u32; 12] = empty(ops)?;
    let last = handles[11];
    let wait = |timeout| {
        ops.timeline_wait(&[last], Some(&[1]), timeout, WAIT_FOR_SUBMIT)
            .0
    };
    same(wait(in_ms(2)), Err(ETIME), "before")?;
    let client = ops.0;
    thread::scope(|scope| {
        for pair in handles.windows(2) {
            scope.spawn(move || {
                let ops = Ops(client);
                let wait =
                    ops.timeline_wait(&[pair[0]], Some(&[1]), in_ms(20_000), WAIT_FOR_SUBMIT);
                wait.0
                    .and_then(|()| ops.timeline_signal(&[pair[1]], &[1], 0))
            });
        }
        ready(ops.timeline_signal(&handles[..1], &[1], 0), "signal")?;
        same(wait(in_ms(20_000)), Ok(()), "after")
    })
}

/// Two threads hand a value to and fro.
fn two_threads(ops: Ops<'_>) -> Outcome {
    let [here, there] = empty(ops)?;
    let client = ops.0;
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            let ops = Ops(client);
            for round in 1..=200 {
                ops.timeline_wait(&[here], Some(&[round]), in_ms(20_000), WAIT_FOR_SUBMIT)
                    .0?;
                ops.timeline_signal(&[there], &[round], 0)?;
            }
            Ok(())
        });
        for round in 1..=200 {
            ready(ops.timeline_signal(&[here], &[round], 0), "signal")?;
            let wait = ops.timeline_wait(&[there], Some(&[round]), in_ms(20_000), WAIT_FOR_SUBMIT);
            ready(wait.0, "wait")?;
        }
        let other = other
            .join()
            .map_err(|_panic| "the other thread panicked".to_owned())?;
        ready(other, "the other thread")
    })
}

fn before_signal(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [first, second] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    let client = ops.0;
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let flags = WAIT_FOR_SUBMIT | WAIT_ALL;
            Ops(client)
                .timeline_wait(&[first, second], Some(&[3, 5]), in_ms(20_000), flags)
                .0
        });
        thread::sleep(Duration::from_millis(5));
        ready(ops.attach(first, 3, file.as_fd()), "attach")?;
        ready(
            ops.timeline_signal(&[second], &[6], 0),
            "signal past the point",
        )?;
        source.increase(1)?;
        let answer = waiter
            .join()
            .map_err(|_panic| "the waiter panicked".to_owned())?;
        same(answer, Ok(()), "wait")
    })
}

type Way = (&'static str, fn(OwnedFd) -> Result<OwnedFd, String>);

/// How a descriptor comes to its importer.
const WAYS: [Way; 5] = [
    ("transference", Ok),
    ("dup", |fd| {
        rustix::io::dup(&fd).map_err(|error| error.to_string())
    }),
    ("dup2", |fd| {
        let mut place = OwnedFd::from(std::fs::File::open("/dev/null").map_err(|e| e.to_string())?);
        rustix::io::dup2(&fd, &mut place).map_err(|error| error.to_string())?;
        Ok(place)
    }),
    ("dup3", |fd| {
        fd.try_clone().map_err(|error| error.to_string())
    }),
    ("send_over_socket", crate::target::send_over_socket),
];

fn add_external(rules: &mut Vec<Rule>) {
    for (leaf, way) in WAYS {
        ops_rule(
            rules,
            name(&format!("external.opaque_fd.{leaf}")),
            move |ops| {
                let [handle] = empty(ops)?;
                let fd = way(ready(ops.export(handle, 0, 0), "export")?)?;
                let other = ready(ops.import(fd.as_fd()), "import")?;
                ready(ops.timeline_signal(&[handle], &[4], 0), "signal here")?;
                same(ops.query(other), Ok(4), "query there")
            },
        );
        rule(
            rules,
            name(&format!("external.sync_fd.{leaf}")),
            move |target| {
                let client = target.open()?;
                let ops = Ops(&*client);
                let [from, to] = empty(ops)?;
                let source = target.fences()?;
                let pending = source.sync_file(1)?;
                ready(ops.import_sync_file(from, pending.as_fd()), "import")?;
                let file = way(ready(ops.export(from, FD_SYNC_FILE, 0), "export")?)?;
                ready(ops.import_sync_file(to, file.as_fd()), "import")?;
                same(ops.wait(&[to], POLL, 0).0, Err(ETIME), "before")?;
                source.increase(1)?;
                same(ops.wait(&[to], POLL, 0).0, Ok(()), "after")
            },
        );
    }
    ops_rule(rules, name("external.opaque_fd.import_twice"), |ops| {
        let [handle] = empty(ops)?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        let (first, second) = (
            ready(ops.import(fd.as_fd()), "import")?,
            ready(ops.import(fd.as_fd()), "import")?,
        );
        same(first == second, false, "a handle for each import")?;
        ready(ops.signal(&[first], 0), "signal")?;
        same(
            ops.wait(&[handle, second], POLL, WAIT_ALL).0,
            Ok(()),
            "the others",
        )?;
        ready(ops.destroy(first), "destroy")?;
        same(
            ops.wait(&[second], POLL, 0).0,
            Ok(()),
            "after one is destroyed",
        )
    });
    ops_rule(
        rules,
        name("external.opaque_fd.export_multiple_times"),
        |ops| {
            let [handle] = empty(ops)?;
            let mut others = Vec::new();
            for _ in 0..8 {
                let fd = ready(ops.export(handle, 0, 0), "export")?;
                others.push(ready(ops.import(fd.as_fd()), "import")?);
            }
            ready(ops.signal(&[handle], 0), "signal")?;
            same(ops.wait(&others, POLL, WAIT_ALL).0, Ok(()), "all others")
        },
    );
    ops_rule(
        rules,
        name("external.opaque_fd.export_signal_import_wait"),
        |ops| {
            let [handle] = empty(ops)?;
            let fd = ready(ops.export(handle, 0, 0), "export")?;
            ready(ops.signal(&[handle], 0), "signal")?;
            ready(ops.destroy(handle), "destroy")?;
            let other = ready(ops.import(fd.as_fd()), "import")?;
            same(
                ops.wait(&[other], POLL, 0).0,
                Ok(()),
                "the object lived in the descriptor",
            )
        },
    );
    ops_rule(
        rules,
        name("external.sync_fd.export_is_a_snapshot"),
        |ops| {
            let [handle, other] = empty(ops)?;
            ready(ops.signal(&[handle], 0), "signal")?;
            let file = ready(ops.export(handle, FD_SYNC_FILE, 0), "export")?;
            ready(ops.reset(&[handle], 0), "reset")?;
            ready(ops.import_sync_file(other, file.as_fd()), "import")?;
            same(ops.wait(&[other], POLL, 0).0, Ok(()), "wait")?;
            same(
                ops.wait(&[handle], POLL, 0).0,
                Err(libc::EINVAL),
                "the source stays reset",
            )
        },
    );
}
