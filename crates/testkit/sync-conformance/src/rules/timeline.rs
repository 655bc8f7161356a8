//! The named rules of `syncobj_timeline` alone.

use std::os::fd::AsFd;
use std::thread;

use libc::{EINVAL, ENOENT, ETIME};
use towpath_sys::drm::{SyncobjTransfer, WAIT_ALL, WAIT_FOR_SUBMIT};

use super::{empty, ops_rule, ready, rule, same};
use crate::ops::{Ops, POLL};
use crate::{Outcome, Rule, Target};

fn name(leaf: &str) -> String {
    format!("syncobj_timeline/{leaf}")
}

pub(super) fn add(rules: &mut Vec<Rule>) {
    ops_rule(rules, name("invalid-query-zero-handles"), |ops| {
        same(ops.query_into(&[], &mut [], 0), Err(EINVAL), "query")
    });
    ops_rule(rules, name("invalid-query-illegal-handle"), |ops| {
        same(ops.query(0xdead), Err(ENOENT), "query")
    });
    ops_rule(rules, name("invalid-query-one-illegal-handle"), |ops| {
        let [first, second] = empty(ops)?;
        let mut points = [7; 3];
        same(
            ops.query_into(&[first, 0xdead, second], &mut points, 0),
            Err(ENOENT),
            "query",
        )?;
        same(points, [7; 3], "points")
    });
    ops_rule(rules, name("invalid-query-bad-pad"), |ops| {
        let [handle] = empty(ops)?;
        same(
            ops.query_into(&[handle], &mut [0], 0xdead_0000),
            Err(EINVAL),
            "query",
        )
    });
    ops_rule(rules, name("invalid-signal-illegal-point"), |ops| {
        same(ops.timeline_signal(&[1], &[0], 0), Err(ENOENT), "signal")
    });
    ops_rule(rules, name("invalid-transfer-illegal-handle"), |ops| {
        let [handle] = empty(ops)?;
        same(
            ops.transfer((handle, 1), (0xdead, 0), 0),
            Err(ENOENT),
            "unknown source",
        )?;
        same(
            ops.transfer((0xdead, 1), (handle, 0), 0),
            Err(ENOENT),
            "unknown target",
        )
    });
    ops_rule(rules, name("invalid-transfer-bad-pad"), |ops| {
        let [first, second] = empty(ops)?;
        let argument = SyncobjTransfer {
            src_handle: first,
            dst_handle: second,
            pad: 1,
            ..SyncobjTransfer::default()
        };
        same(
            ops.raw_transfer(argument).map(drop),
            Err(EINVAL),
            "transfer",
        )
    });
    ops_rule(rules, name("invalid-transfer-non-existent-point"), |ops| {
        // Despite its name the suite expects success: 63 is below 74, which is done.
        let [from, to] = empty(ops)?;
        ready(ops.timeline_signal(&[from], &[74], 0), "signal")?;
        same(ops.transfer((to, 1), (from, 63), 0), Ok(()), "transfer")
    });
    ops_rule(rules, name("towpath-transfer-of-nothing"), |ops| {
        let [from, to] = empty(ops)?;
        same(ops.transfer((to, 1), (from, 0), 0), Err(EINVAL), "no fence")?;
        ready(ops.timeline_signal(&[from], &[4], 0), "signal")?;
        same(
            ops.transfer((to, 1), (from, 5), 0),
            Err(EINVAL),
            "a point not there",
        )?;
        same(
            ops.transfer((to, 1), (from, 4), 0x8000),
            Err(EINVAL),
            "unknown flags (6.12 on)",
        )
    });
    ops_rule(rules, name("signal-array"), |ops| {
        let handles: [u32; 4] = empty(ops)?;
        ready(ops.timeline_signal(&handles, &[1, 1, 1, 0], 0), "signal")?;
        let points = [1, 1, 1, 0];
        same(
            ops.timeline_wait(&handles, Some(&points), POLL, WAIT_ALL).0,
            Ok(()),
            "wait",
        )
    });
    ops_rule(rules, name("signal-point-0"), |ops| {
        let [handle] = empty(ops)?;
        ready(ops.timeline_signal(&[handle], &[0], 0), "signal")?;
        same(
            ops.timeline_wait(&[handle], Some(&[0]), POLL, 0).0,
            Ok(()),
            "timeline wait",
        )?;
        same(ops.wait(&[handle], POLL, 0).0, Ok(()), "legacy wait")
    });
    ops_rule(rules, name("host-signal-points"), host_signal_points);
    rule(rules, name("transfer-timeline-point"), |target| {
        with(target, transfer_timeline_point)
    });
    rule(rules, name("device-signal-unordered"), |target| {
        with(target, device_signal_unordered)
    });
    rule(rules, name("device-submit-unordered"), |target| {
        with(target, device_submit_unordered)
    });
    rule(rules, name("host-signal-ordered"), |target| {
        with(target, host_signal_ordered)
    });
    ops_rule(rules, name("32bits-limit"), limit_of_32_bits);
    rule(rules, name("towpath-node-needs-all-before"), |target| {
        with(target, needs_all_before)
    });
    ops_rule(rules, name("towpath-out-of-order-add"), |ops| {
        let [handle] = empty(ops)?;
        ready(ops.timeline_signal(&[handle], &[5], 0), "signal 5")?;
        ready(ops.timeline_signal(&[handle], &[3], 0), "signal 3")?;
        same(ops.query(handle), Ok(5), "query")?;
        same(ops.last_submitted(handle), Ok(5), "last submitted")?;
        ready(ops.timeline_signal(&[handle], &[0], 0), "signal 0")?;
        same(ops.query(handle), Ok(5), "query after point zero")
    });
    ops_rule(
        rules,
        name("towpath-binary-signal-drops-the-timeline"),
        |ops| {
            let [handle] = empty(ops)?;
            ready(ops.timeline_signal(&[handle], &[5], 0), "signal 5")?;
            ready(ops.signal(&[handle], 0), "binary signal")?;
            same(ops.query(handle), Ok(0), "query")?;
            same(
                ops.timeline_wait(&[handle], Some(&[1]), POLL, 0).0,
                Err(EINVAL),
                "wait 1",
            )?;
            same(
                ops.timeline_wait(&[handle], Some(&[0]), POLL, 0).0,
                Ok(()),
                "wait 0",
            )
        },
    );
}

fn with(target: &dyn Target, check: fn(&dyn Target, Ops<'_>) -> Outcome) -> Outcome {
    let client = target.open()?;
    check(target, Ops(&*client))
}

fn host_signal_points(ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let mut value = 0_u64;
    for step in 0..100_u64 {
        value += 1 + step * 2_654_435_761 % 1000;
        ready(ops.timeline_signal(&[handle], &[value], 0), "signal")?;
        same(ops.query(handle), Ok(value), "query")?;
        same(
            ops.timeline_wait(&[handle], Some(&[value]), POLL, 0).0,
            Ok(()),
            "wait",
        )?;
        same(
            ops.timeline_wait(&[handle], Some(&[value - 1]), POLL, 0).0,
            Ok(()),
            "wait before",
        )?;
    }
    Ok(())
}

fn transfer_timeline_point(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    ready(ops.attach(handle, 1, file.as_fd()), "attach")?;
    same(ops.query(handle), Ok(0), "query")?;
    same(
        ops.timeline_wait(&[handle], Some(&[1]), POLL, 0).0,
        Err(ETIME),
        "wait",
    )?;
    source.increase(1)?;
    same(ops.query(handle), Ok(1), "query after")?;
    same(
        ops.timeline_wait(&[handle], Some(&[1]), POLL, 0).0,
        Ok(()),
        "wait after",
    )?;
    ready(ops.timeline_signal(&[handle], &[2], 0), "signal 2")?;
    ready(ops.transfer((handle, 3), (handle, 2), 0), "transfer")?;
    same(ops.query(handle), Ok(3), "query after the transfer")
}

fn device_signal_unordered(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let sources = (0..3)
        .map(|_| target.fences())
        .collect::<Result<Vec<_>, _>>()?;
    for (point, source) in (1..).zip(&sources) {
        let file = source.sync_file(1)?;
        ready(ops.attach(handle, point, file.as_fd()), "attach")?;
    }
    // The second ends first: nothing before it is done, so neither is it.
    for (source, want) in [(1, 0), (0, 2), (2, 3)] {
        sources[source].increase(1)?;
        same(ops.query(handle), Ok(want), "query")?;
        let second = ops.timeline_wait(&[handle], Some(&[2]), POLL, 0).0;
        same(
            second,
            if want >= 2 { Ok(()) } else { Err(ETIME) },
            "wait for two",
        )?;
    }
    Ok(())
}

fn device_submit_unordered(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    for (value, point) in (1..).zip([1, 5, 3, 6, 7]) {
        let file = source.sync_file(value)?;
        ready(ops.attach(handle, point, file.as_fd()), "attach")?;
    }
    source.increase(3)?;
    same(ops.query(handle), Ok(5), "query after three")?;
    source.increase(2)?;
    same(ops.query(handle), Ok(7), "query after all")
}

fn host_signal_ordered(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    for value in 1..=5_u32 {
        let file = source.sync_file(value)?;
        ready(ops.attach(handle, u64::from(value), file.as_fd()), "attach")?;
    }
    source.increase(3)?;
    same(ops.query(handle), Ok(3), "query")?;
    ready(ops.timeline_signal(&[handle], &[8], 0), "signal 8")?;
    same(ops.query(handle), Ok(3), "query after the host's 8")?;
    same(ops.last_submitted(handle), Ok(8), "last submitted")?;
    source.increase(2)?;
    same(ops.query(handle), Ok(8), "query at the end")
}

/// A 32-bit comparison once broke here (2018).
fn limit_of_32_bits(ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let client = ops.0;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> Outcome {
            let mut last = 0;
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                let now = ready(Ops(client).query(handle), "query")?;
                if now < last {
                    return Err(format!("{now} after {last}"));
                }
                last = now;
                // On a machine of one core the writer must get on.
                thread::yield_now();
            }
            Ok(())
        });
        let limits = [1_u64 << 31, 1 << 32, (1 << 32) + (1 << 31), 1 << 63];
        let mut outcome = Ok(());
        for limit in limits {
            for point in limit - 4..limit + 4 {
                outcome = outcome
                    .and_then(|()| ready(ops.timeline_signal(&[handle], &[point], 0), "signal"))
                    .and_then(|()| same(ops.query(handle), Ok(point), "query"));
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Release);
        reader
            .join()
            .map_err(|_panic| "the reader panicked".to_owned())??;
        outcome
    })
}

fn needs_all_before(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    ready(ops.attach(handle, 4, file.as_fd()), "attach 4")?;
    ready(ops.timeline_signal(&[handle], &[9], 0), "signal 9")?;
    same(ops.query(handle), Ok(0), "query")?;
    same(ops.last_submitted(handle), Ok(9), "last submitted")?;
    for point in [5, 9] {
        let answer = ops
            .timeline_wait(&[handle], Some(&[point]), POLL, WAIT_FOR_SUBMIT)
            .0;
        same(answer, Err(ETIME), "wait")?;
    }
    source.increase(1)?;
    same(ops.query(handle), Ok(9), "query after")?;
    same(
        ops.timeline_wait(&[handle], Some(&[5]), POLL, 0).0,
        Ok(()),
        "wait 5",
    )?;
    same(
        ops.timeline_wait(&[handle], Some(&[9]), POLL, 0).0,
        Ok(()),
        "wait 9",
    )
}
