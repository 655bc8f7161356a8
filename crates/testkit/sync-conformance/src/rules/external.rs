//! Rules of the Vulkan conformance tests on objects that are handed on, on chains, and on orders of
//! signals. What is said of queues there is said of pending fences here.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use libc::{EINVAL, ETIME};
use towpath_sys::drm::{FD_SYNC_FILE, WAIT_ALL, WAIT_FOR_SUBMIT};

use super::{Kind, empty, ops_rule, ready, rule, same};
use crate::ops::{Ops, POLL, in_ms};
use crate::{Outcome, Rule, Target};

const PATIENCE_MS: i64 = 20_000;

pub(super) fn add(rules: &mut Vec<Rule>) {
    let mut add = |leaf: &str, check: fn(&dyn Target, Ops<'_>) -> Outcome| {
        rule(rules, format!("vulkan/{leaf}"), move |target| {
            let client = target.open()?;
            check(target, Ops(&*client))
        });
    };
    add(
        "timeline_semaphore.wait.one_signal_from_device",
        one_signal_from_device,
    );
    add(
        "timeline_semaphore.wait.poll_signal_from_device",
        poll_signal_from_device,
    );
    add("basic.timeline_semaphore.chain", timeline_chain);
    add("basic.binary_semaphore.chain", binary_chain);
    add("timeline_semaphore.one_to_n", one_to_n);
    add("external.sync_fd.import_twice", sync_file_twice);
    add("external.sync_fd.reimport", sync_file_again);
    add("external.sync_fd.export_multiple_times", many_sync_files);
    add(
        "external.sync_fd.export_import_signal_wait",
        |target, ops| {
            let [from, to] = empty(ops)?;
            let source = target.fences()?;
            let pending = source.sync_file(1)?;
            ready(ops.import_sync_file(from, pending.as_fd()), "import")?;
            let file = ready(ops.export(from, FD_SYNC_FILE, 0), "export")?;
            ready(ops.import_sync_file(to, file.as_fd()), "import")?;
            source.increase(1)?;
            same(ops.wait(&[to, from], POLL, WAIT_ALL).0, Ok(()), "wait")
        },
    );
    add("external.sync_fd.import_signaled", |_, ops| {
        // Vulkan takes -1 for a fence that is done; the kernel knows no such descriptor.
        let [handle] = empty(ops)?;
        let argument = towpath_sys::drm::SyncobjFdToHandle {
            handle,
            flags: FD_SYNC_FILE,
            fd: -1,
            ..Default::default()
        };
        let answer = ops.raw_fd_to_handle(argument).map(drop);
        same(answer, Err(EINVAL), "import of -1")
    });
    add_objects(rules);
}

fn add_objects(rules: &mut Vec<Rule>) {
    let mut add = |leaf: &str, check: fn(Ops<'_>) -> Outcome| {
        ops_rule(rules, format!("vulkan/{leaf}"), check);
    };
    add("timeline_semaphore.wait.poll_signal_from_host", |ops| {
        let [handle] = empty(ops)?;
        let client = ops.0;
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(5));
                Ops(client).timeline_signal(&[handle], &[1], 0)
            });
            poll_until_one(ops, handle)
        })
    });
    add("external.opaque_fd.signal_export_import_wait", |ops| {
        let [handle] = empty(ops)?;
        ready(ops.timeline_signal(&[handle], &[3], 0), "signal")?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        let other = ready(ops.import(fd.as_fd()), "import")?;
        same(ops.query(other), Ok(3), "query")
    });
    add("external.opaque_fd.export_import_signal_wait", |ops| {
        let [handle] = empty(ops)?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        let other = ready(ops.import(fd.as_fd()), "import")?;
        ready(ops.signal(&[other], 0), "signal")?;
        same(ops.wait(&[handle], POLL, 0).0, Ok(()), "wait")
    });
    add("external.opaque_fd.signal_wait_import", |ops| {
        let [handle] = empty(ops)?;
        ready(ops.signal(&[handle], 0), "signal")?;
        same(ops.wait(&[handle], POLL, 0).0, Ok(()), "wait here")?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        let other = ready(ops.import(fd.as_fd()), "import")?;
        same(ops.wait(&[other], POLL, 0).0, Ok(()), "wait there")
    });
    add("external.opaque_fd.reimport", |ops| {
        let [handle] = empty(ops)?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        for point in 1..=4 {
            let other = ready(ops.import(fd.as_fd()), "import")?;
            ready(ops.timeline_signal(&[other], &[point], 0), "signal")?;
            ready(ops.destroy(other), "destroy")?;
        }
        same(ops.query(handle), Ok(4), "query")
    });
    add("signal_order.opaque_fd", |ops| {
        // Two names of one object: whoever waits for the last has the first.
        let [first, last] = empty(ops)?;
        let fds = [first, last].map(|handle| ops.export(handle, 0, 0));
        let [Ok(first_fd), Ok(last_fd)] = fds else {
            return Err("export".to_owned());
        };
        let others = (
            ready(ops.import(first_fd.as_fd()), "import")?,
            ready(ops.import(last_fd.as_fd()), "import")?,
        );
        let client = ops.0;
        thread::scope(|scope| {
            scope.spawn(move || {
                for point in 1..=50 {
                    let ops = Ops(client);
                    let _first = ops.timeline_signal(&[first], &[point], 0);
                    let _last = ops.timeline_signal(&[last], &[point], 0);
                }
            });
            for point in 1..=50 {
                let until = in_ms(PATIENCE_MS);
                let wait = ops.timeline_wait(&[others.1], Some(&[point]), until, WAIT_FOR_SUBMIT);
                same(wait.0, Ok(()), "wait for the last")?;
                let first = ops.timeline_wait(&[others.0], Some(&[point]), POLL, 0);
                same(first.0, Ok(()), "the first")?;
            }
            Ok(())
        })
    });
}

fn one_signal_from_device(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let source = target.fences()?;
    let handles: [u32; 20] = empty(ops)?;
    for (index, handle) in (0..).zip(handles) {
        // Only one ends before the others, which may be long.
        let value = if index == 13 { 1 } else { 2 };
        let file = source.sync_file(value)?;
        ready(ops.attach(handle, 1, file.as_fd()), "attach")?;
    }
    let wait = |flags| Kind::Timeline.wait(ops, &handles, POLL, flags);
    same(wait(0).0, Err(ETIME), "any, before")?;
    source.increase(1)?;
    same(wait(0), (Ok(()), 13), "any, after")?;
    same(wait(WAIT_ALL).0, Err(ETIME), "all")?;
    source.increase(1)?;
    same(wait(WAIT_ALL).0, Ok(()), "all, after all")
}

fn poll_until_one(ops: Ops<'_>, handle: u32) -> Outcome {
    let until = in_ms(PATIENCE_MS);
    while ready(ops.query(handle), "query")? < 1 {
        if in_ms(0) > until {
            return Err("the value never came".to_owned());
        }
        thread::yield_now();
    }
    same(
        ops.timeline_wait(&[handle], Some(&[1]), POLL, 0).0,
        Ok(()),
        "wait for what was polled",
    )
}

fn poll_signal_from_device(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    ready(ops.attach(handle, 1, file.as_fd()), "attach")?;
    thread::scope(|scope| {
        let ended = scope.spawn(|| {
            thread::sleep(Duration::from_millis(5));
            source.increase(1)
        });
        poll_until_one(ops, handle)?;
        ended.join().map_err(|_panic| "a panic".to_owned())?
    })
}

/// Each point is what the next object's point waits for; the first is ended by the device.
fn timeline_chain(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let handles: [u32; 16] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    ready(ops.attach(handles[0], 5, file.as_fd()), "attach")?;
    for pair in handles.windows(2) {
        ready(ops.transfer((pair[1], 7), (pair[0], 0), 0), "transfer")?;
    }
    let last = handles[15];
    let wait = || ops.timeline_wait(&[last], Some(&[7]), POLL, 0).0;
    same(wait(), Err(ETIME), "before")?;
    source.increase(1)?;
    same(wait(), Ok(()), "after")?;
    same(ops.query(last), Ok(7), "query")
}

fn binary_chain(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let handles: [u32; 16] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    ready(ops.import_sync_file(handles[0], file.as_fd()), "import")?;
    for pair in handles.windows(2) {
        let file = ready(ops.export(pair[0], FD_SYNC_FILE, 0), "export")?;
        ready(ops.import_sync_file(pair[1], file.as_fd()), "import")?;
    }
    same(ops.wait(&handles, POLL, 0).0, Err(ETIME), "before")?;
    source.increase(1)?;
    same(ops.wait(&handles, POLL, WAIT_ALL).0, Ok(()), "after")
}

/// One signal ends the waits of many threads, each for a point of its own.
fn one_to_n(_: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let client = ops.0;
    thread::scope(|scope| {
        let waiters: Vec<_> = (1..=8)
            .map(|point| {
                scope.spawn(move || {
                    let until = in_ms(PATIENCE_MS);
                    let points = [point];
                    let wait = (&[handle], Some(&points[..]), until, WAIT_FOR_SUBMIT);
                    Ops(client).timeline_wait(wait.0, wait.1, wait.2, wait.3).0
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(10));
        ready(ops.timeline_signal(&[handle], &[8], 0), "signal")?;
        for waiter in waiters {
            let answer = waiter.join().map_err(|_panic| "a panic".to_owned())?;
            same(answer, Ok(()), "a waiter")?;
        }
        Ok(())
    })
}

/// One sync file in two objects.
fn sync_file_twice(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let handles: [u32; 2] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    for handle in handles {
        ready(ops.import_sync_file(handle, file.as_fd()), "import")?;
    }
    same(ops.wait(&handles, POLL, 0).0, Err(ETIME), "before")?;
    source.increase(1)?;
    same(ops.wait(&handles, POLL, WAIT_ALL).0, Ok(()), "after")
}

/// A later import replaces what an earlier one brought.
fn sync_file_again(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    let (never, soon) = (source.sync_file(1000)?, source.sync_file(1)?);
    ready(ops.import_sync_file(handle, never.as_fd()), "import")?;
    ready(ops.import_sync_file(handle, soon.as_fd()), "import again")?;
    source.increase(1)?;
    same(ops.wait(&[handle], POLL, 0).0, Ok(()), "wait")
}

fn many_sync_files(target: &dyn Target, ops: Ops<'_>) -> Outcome {
    let handles: [u32; 9] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    ready(ops.import_sync_file(handles[0], file.as_fd()), "import")?;
    for handle in &handles[1..] {
        let file = ready(ops.export(handles[0], FD_SYNC_FILE, 0), "export")?;
        ready(ops.import_sync_file(*handle, file.as_fd()), "import")?;
    }
    source.increase(1)?;
    same(ops.wait(&handles, POLL, WAIT_ALL).0, Ok(()), "all")
}
