//! What the suites leave out.
#![expect(unsafe_code, reason = "addresses that are not mapped")]

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use libc::{EFAULT, EINVAL, ENOENT, ETIME};
use rustix::event::{PollFd, PollFlags};
use towpath_sys::drm::{
    FD_SYNC_FILE, FD_TIMELINE, SyncobjFdToHandle, SyncobjHandleToFd, SyncobjReset,
    SyncobjTimelineSignal, SyncobjTimelineWait, WAIT_ALL, WAIT_AVAILABLE, WAIT_DEADLINE,
    WAIT_FOR_SUBMIT,
};

use super::{Kind, empty, ops_rule, ready, rule, same};
use crate::ops::{Ops, POLL, UNTOUCHED, in_ms};
use crate::{Outcome, Rule, Target};

fn name(leaf: &str) -> String {
    format!("extra/{leaf}")
}

/// Never mapped: the first page.
const NOWHERE: u64 = 16;

pub(super) fn add(rules: &mut Vec<Rule>) {
    ops_rule(rules, name("fault-in-handles-does-nothing"), |ops| {
        let argument = SyncobjReset {
            handles: NOWHERE,
            count_handles: 2,
            pad: 0,
        };
        same(ops.raw_reset(argument), Err(EFAULT), "reset")?;
        let mut wait = SyncobjTimelineWait {
            handles: NOWHERE,
            count_handles: 1,
            first_signaled: UNTOUCHED,
            ..SyncobjTimelineWait::default()
        };
        same(ops.raw_timeline_wait(&mut wait), Err(EFAULT), "wait")
    });
    ops_rule(rules, name("fault-in-points-signals-nothing"), |ops| {
        // Linux 6.12: points are read before any effect.
        let handles: [u32; 2] = empty(ops)?;
        let argument = SyncobjTimelineSignal {
            handles: handles.as_ptr().expose_provenance() as u64,
            points: NOWHERE,
            count_handles: 2,
            flags: 0,
        };
        same(ops.raw_timeline_signal(argument), Err(EFAULT), "signal")?;
        same(ops.query(handles[0]), Ok(0), "the first object")
    });
    ops_rule(
        rules,
        name("fault-in-query-keeps-what-was-written"),
        |ops| {
            let handles: [u32; 2] = empty(ops)?;
            ready(ops.timeline_signal(&handles, &[5, 6], 0), "signal")?;
            let page = crate::target::Guarded::new()?;
            // SAFETY: one slot before the guard page is ours; what follows is not mapped.
            let answer = unsafe { ops.query_at(&handles, page.last_slot()) };
            same(answer, Err(EFAULT), "query")?;
            same(page.read_last_slot(), 5, "the first result")
        },
    );
    ops_rule(rules, name("null-points-are-zeros"), |ops| {
        let handles: [u32; 2] = empty(ops)?;
        ready(ops.signal(&handles, 0), "signal")?;
        same(
            ops.timeline_wait(&handles, None, POLL, WAIT_ALL).0,
            Ok(()),
            "wait",
        )
    });
    ops_rule(rules, name("first-signaled-is-kept-on-errors"), |ops| {
        let [handle] = empty(ops)?;
        let flags = WAIT_FOR_SUBMIT;
        same(
            ops.wait(&[handle], POLL, flags),
            (Err(ETIME), UNTOUCHED),
            "timed out",
        )?;
        same(
            ops.wait(&[handle], POLL, 0),
            (Err(EINVAL), UNTOUCHED),
            "not submitted",
        )?;
        same(
            ops.wait(&[0xdead], POLL, 0),
            (Err(ENOENT), UNTOUCHED),
            "unknown",
        )
    });
    ops_rule(rules, name("an-unsubmitted-object-fails-any"), |ops| {
        let [done, never] = empty(ops)?;
        ready(ops.signal(&[done], 0), "signal")?;
        same(
            ops.wait(&[done, never], POLL, 0),
            (Err(EINVAL), UNTOUCHED),
            "wait on any",
        )
    });
    ops_rule(rules, name("duplicate-handles"), |ops| {
        let [handle, other] = empty(ops)?;
        let wait = || {
            ops.wait(
                &[handle, other, handle],
                in_ms(2),
                WAIT_ALL | WAIT_FOR_SUBMIT,
            )
            .0
        };
        same(wait(), Err(ETIME), "before")?;
        ready(ops.signal(&[handle, other, handle], 0), "signal")?;
        same(wait(), Ok(()), "after")
    });
    ops_rule(
        rules,
        name("wait-flag-available-is-not-for-binary"),
        |ops| {
            let [handle] = empty(ops)?;
            same(
                ops.wait(&[handle], POLL, WAIT_AVAILABLE).0,
                Err(EINVAL),
                "wait",
            )
        },
    );
    ops_rule(rules, name("negative-and-past-times-poll"), |ops| {
        let [handle] = empty(ops)?;
        for timeout in [-1, i64::MIN, 1, in_ms(-5)] {
            same(
                ops.wait(&[handle], timeout, WAIT_FOR_SUBMIT).0,
                Err(ETIME),
                "wait",
            )?;
        }
        Ok(())
    });
    rule(rules, name("deadline-is-a-hint"), |target| {
        let client = target.open()?;
        let ops = Ops(&*client);
        let [handle] = empty(ops)?;
        ready(ops.signal(&[handle], 0), "signal")?;
        same(ops.wait(&[handle], POLL, WAIT_DEADLINE).0, Ok(()), "wait")
    });
    for count in [5, 65, 130] {
        rule(
            rules,
            name(&format!("wait-on-{count}-objects")),
            move |target| many(target, count),
        );
    }
    ops_rule(rules, name("a-handle-is-given-again-at-once"), |ops| {
        let [first, _second] = empty(ops)?;
        ready(ops.signal(&[first], 0), "signal")?;
        ready(ops.destroy(first), "destroy")?;
        same(ops.wait(&[first], POLL, 0).0, Err(ENOENT), "the old handle")?;
        let [again] = empty(ops)?;
        same(again, first, "the number")?;
        same(
            ops.wait(&[again], POLL, 0).0,
            Err(EINVAL),
            "a new object, not the old one",
        )
    });
    ops_rule(rules, name("an-objects-descriptor-polls-ready"), |ops| {
        let [handle] = empty(ops)?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        let mut polls = [PollFd::new(&fd, PollFlags::IN)];
        let now = rustix::time::Timespec::default();
        let seen =
            rustix::event::poll(&mut polls, Some(&now)).map_err(|error| error.to_string())?;
        same(seen, 1, "descriptors ready")
    });
    rule(
        rules,
        name("a-sync-file-polls-ready-when-done"),
        sync_file_polls,
    );
    ops_rule(rules, name("dirty-point-without-the-flag"), dirty_point);
    rule(rules, name("timeline-flag-of-descriptors"), timeline_flag);
    rule(rules, name("available-ends-at-submission"), available);
    rule(rules, name("handles-belong-to-one-opened-file"), |target| {
        let (first, second) = (target.open()?, target.open()?);
        let [handle] = empty(Ops(&*first))?;
        same(
            Ops(&*second).destroy(handle),
            Err(EINVAL),
            "destroy through another file",
        )
    });
    ops_rule(rules, name("short-structs-of-old-programs"), |ops| {
        let [handle] = empty(ops)?;
        let fd = ready(ops.export(handle, 0, 0), "export")?;
        let mut old = [0_u8; 16];
        #[expect(
            clippy::host_endian_bytes,
            reason = "a struct in this machine's memory"
        )]
        old[8..12].copy_from_slice(&fd.as_raw_fd().to_ne_bytes());
        // FD_TO_HANDLE of sixteen bytes, before the point field was added.
        // SAFETY: no address in it.
        let answer = unsafe { ops.0.request(0xc010_64c2, &mut old) };
        same(answer, Ok(()), "import")
    });
    ops_rule(rules, name("concurrent-signals-and-waits"), stress);
    rule(
        rules,
        name("transfer-for-submit-waits"),
        transfer_for_submit,
    );
    let mut slow = Vec::new();
    ops_rule(
        &mut slow,
        name("transfer-for-submit-gives-up-after-5-s"),
        |ops| {
            let [from, to] = empty(ops)?;
            same(
                ops.transfer((to, 1), (from, 1), WAIT_FOR_SUBMIT),
                Err(ETIME),
                "transfer",
            )
        },
    );
    rules.extend(slow.into_iter().map(|rule| Rule {
        is_slow: true,
        ..rule
    }));
}

/// The last of many ends a wait on any, all of them one on all.
fn many(target: &dyn Target, count: usize) -> Outcome {
    let client = target.open()?;
    let ops = Ops(&*client);
    let handles = (0..count)
        .map(|_| ready(ops.create(0), "create"))
        .collect::<Result<Vec<u32>, _>>()?;
    let last = *handles.last().ok_or("no objects")?;
    let shared = ops.0;
    thread::scope(|scope| {
        let handles = &handles;
        let wait = |flags| {
            scope.spawn(move || Kind::Timeline.wait(Ops(shared), handles, in_ms(20_000), flags))
        };
        let (any, all) = (wait(WAIT_FOR_SUBMIT), wait(WAIT_FOR_SUBMIT | WAIT_ALL));
        thread::sleep(std::time::Duration::from_millis(5));
        ready(ops.timeline_signal(&[last], &[1], 0), "signal")?;
        let any = any
            .join()
            .map_err(|_panic| "the waiter panicked".to_owned())?;
        same(any, (Ok(()), u32::try_from(count - 1).unwrap_or(0)), "any")?;
        ready(Kind::Timeline.signal(ops, handles), "signal of all")?;
        let all = all
            .join()
            .map_err(|_panic| "the waiter panicked".to_owned())?;
        same(all.0, Ok(()), "all")
    })
}

fn sync_file_polls(target: &dyn Target) -> Outcome {
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    let now = rustix::time::Timespec::default();
    let poll = || {
        let mut polls = [PollFd::new(&file, PollFlags::IN)];
        rustix::event::poll(&mut polls, Some(&now)).map_err(|error| error.to_string())
    };
    same(poll()?, 0, "pending")?;
    source.increase(1)?;
    same(poll()?, 1, "done")
}

/// The first kernel with the point field refused it uninitialised; fixed in 6.18 and 6.19.
fn dirty_point(ops: Ops<'_>) -> Outcome {
    let handle = ready(ops.create(1), "create")?;
    let dirty = SyncobjHandleToFd {
        handle,
        flags: FD_SYNC_FILE,
        fd: -1,
        pad: 0,
        point: 0xdead,
    };
    let fd = ready(ops.raw_handle_to_fd(dirty), "export")?.fd;
    let [other] = empty(ops)?;
    let dirty = SyncobjFdToHandle {
        handle: other,
        flags: FD_SYNC_FILE,
        fd,
        pad: 0,
        point: 0xdead,
    };
    ready(ops.raw_fd_to_handle(dirty), "import")?;
    crate::target::close(fd);
    same(ops.wait(&[other], POLL, 0).0, Ok(()), "wait")
}

fn timeline_flag(target: &dyn Target) -> Outcome {
    let client = target.open()?;
    let ops = Ops(&*client);
    let [handle, other] = empty(ops)?;
    ready(ops.timeline_signal(&[handle], &[5], 0), "signal")?;
    let flags = FD_SYNC_FILE | FD_TIMELINE;
    let exported = ops.export(handle, flags, 3);
    if !target.has_fd_timeline() {
        return same(exported.map(drop), Err(EINVAL), "a kernel before 6.16");
    }
    let file = ready(exported, "export at a point")?;
    same(
        ops.export(handle, flags, 6).map(drop),
        Err(EINVAL),
        "export at a point not there",
    )?;
    let import = SyncobjFdToHandle {
        handle: other,
        flags,
        fd: file.as_raw_fd(),
        pad: 0,
        point: 7,
    };
    ready(ops.raw_fd_to_handle(import), "import at a point")?;
    same(ops.query(other), Ok(7), "query")
}

fn available(target: &dyn Target) -> Outcome {
    let client = target.open()?;
    let ops = Ops(&*client);
    let source = target.fences()?;
    let [handle] = empty(ops)?;
    let file = source.sync_file(1)?;
    let shared = ops.0;
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            Ops(shared)
                .timeline_wait(&[handle], Some(&[2]), in_ms(20_000), WAIT_AVAILABLE)
                .0
        });
        thread::sleep(std::time::Duration::from_millis(5));
        ready(ops.attach(handle, 2, file.as_fd()), "attach")?;
        let answer = waiter
            .join()
            .map_err(|_panic| "the waiter panicked".to_owned())?;
        same(answer, Ok(()), "available")?;
        same(
            ops.timeline_wait(&[handle], Some(&[2]), POLL, 0).0,
            Err(ETIME),
            "not done",
        )
    })
}

fn transfer_for_submit(target: &dyn Target) -> Outcome {
    let client = target.open()?;
    let ops = Ops(&*client);
    let [from, to] = empty(ops)?;
    let shared = ops.0;
    thread::scope(|scope| {
        let transfer =
            scope.spawn(move || Ops(shared).transfer((to, 9), (from, 2), WAIT_FOR_SUBMIT));
        thread::sleep(std::time::Duration::from_millis(5));
        ready(ops.timeline_signal(&[from], &[2], 0), "signal")?;
        let answer = transfer
            .join()
            .map_err(|_panic| "the other thread panicked".to_owned())?;
        same(answer, Ok(()), "transfer")?;
        same(ops.query(to), Ok(9), "query")
    })
}

/// Three threads signal growing points while two wait for each and one queries.
fn stress(ops: Ops<'_>) -> Outcome {
    let handles: [u32; 3] = empty(ops)?;
    let shared = ops.0;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..2)
            .map(|waiter| {
                scope.spawn(move || -> Outcome {
                    for point in 1..=150_u64 {
                        let flags = if waiter == 0 { WAIT_ALL } else { 0 } | WAIT_FOR_SUBMIT;
                        let points = [point; 3];
                        let wait = Ops(shared).timeline_wait(
                            &handles,
                            Some(&points),
                            in_ms(20_000),
                            flags,
                        );
                        ready(wait.0, "wait")?;
                    }
                    Ok(())
                })
            })
            .collect();
        let is_over = &is_over;
        let reader = scope.spawn(move || -> Outcome {
            let mut last = 0;
            while !is_over.load(Ordering::Acquire) {
                let now = ready(Ops(shared).query(handles[0]), "query")?;
                same(now >= last, true, "a value that goes back")?;
                last = now;
                thread::yield_now();
            }
            Ok(())
        });
        for handle in handles {
            scope.spawn(move || {
                for point in 1..=150 {
                    let _signalled = Ops(shared).timeline_signal(&[handle], &[point], 0);
                    if point % 16 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
        let outcomes: Vec<_> = waiters
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::Release);
        let reader = reader
            .join()
            .map_err(|_panic| "the reader panicked".to_owned())?;
        for outcome in outcomes {
            outcome.map_err(|_panic| "a waiter panicked".to_owned())??;
        }
        reader
    })
}
