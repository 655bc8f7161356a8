//! `syncobj_eventfd`: one-shot notices.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::{EBADF, EINVAL, ENOENT};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use towpath_sys::drm::{SyncobjEventfd, WAIT_AVAILABLE, WAIT_FOR_SUBMIT};

use super::{Kind, empty, ops_rule, ready, rule, same};
use crate::ops::Ops;
use crate::{Outcome, Rule, Target};

fn name(leaf: &str) -> String {
    format!("syncobj_eventfd/{leaf}")
}

pub(super) fn add(rules: &mut Vec<Rule>) {
    ops_rule(rules, name("invalid-bad-flags"), |ops| {
        let [handle] = empty(ops)?;
        let bell = bell()?;
        same(
            ops.eventfd(handle, 0, 0xdead_0000, bell.as_raw_fd()),
            Err(EINVAL),
            "eventfd",
        )?;
        let answer = ops.eventfd(handle, 0, WAIT_FOR_SUBMIT, bell.as_raw_fd());
        same(answer, Err(EINVAL), "FOR_SUBMIT is implied, not a flag")
    });
    ops_rule(rules, name("invalid-illegal-handle"), |ops| {
        let bell = bell()?;
        same(
            ops.eventfd(0xdead, 0, 0, bell.as_raw_fd()),
            Err(ENOENT),
            "eventfd",
        )
    });
    ops_rule(rules, name("invalid-illegal-eventfd"), |ops| {
        let [handle] = empty(ops)?;
        let file = std::fs::File::open("/dev/null").map_err(|error| error.to_string())?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let timer = timer.map_err(|error| error.to_string())?;
        let (_reader, writer) = rustix::pipe::pipe().map_err(|error| error.to_string())?;
        for (fd, what) in [
            (file.as_fd(), "a file"),
            (timer.as_fd(), "a timer"),
            (writer.as_fd(), "a pipe"),
        ] {
            same(ops.eventfd(handle, 0, 0, fd.as_raw_fd()), Err(EINVAL), what)?;
        }
        same(ops.eventfd(handle, 0, 0, -1), Err(EBADF), "no descriptor")
    });
    ops_rule(rules, name("towpath-full-counter-stops-nobody"), |ops| {
        let [handle] = empty(ops)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| error.to_string())?;
        ready(ops.eventfd(handle, 1, 0, bell.as_raw_fd()), "eventfd")?;
        add_to(&bell, u64::MAX - 1)?;
        ready(ops.timeline_signal(&[handle], &[1], 0), "signal")
    });
    ops_rule(rules, name("invalid-bad-pad"), |ops| {
        let [handle] = empty(ops)?;
        let bell = bell()?;
        let argument = SyncobjEventfd {
            handle,
            fd: bell.as_raw_fd(),
            pad: 1,
            ..SyncobjEventfd::default()
        };
        same(ops.raw_eventfd(argument).map(drop), Err(EINVAL), "eventfd")
    });
    for kind in Kind::BOTH {
        let word = if kind == Kind::Binary {
            "binary"
        } else {
            "timeline"
        };
        rule(rules, name(&format!("{word}-wait")), move |target| {
            pending(target, kind)
        });
        rule(
            rules,
            name(&format!("{word}-wait-before-signal")),
            move |target| before(target, kind),
        );
        rule(
            rules,
            name(&format!("{word}-wait-signaled")),
            move |target| {
                let client = target.open()?;
                let ops = Ops(&*client);
                let [handle] = empty(ops)?;
                ready(kind.signal(ops, &[handle]), "signal")?;
                let (available, done) = (
                    watch(ops, handle, kind, WAIT_AVAILABLE)?,
                    watch(ops, handle, kind, 0)?,
                );
                same(count(&available)?, 1, "available")?;
                same(count(&done)?, 1, "done")
            },
        );
    }
    ops_rule(rules, name("towpath-one-shot-adds-one"), |ops| {
        let [handle] = empty(ops)?;
        let bell = bell()?;
        for _ in 0..3 {
            ready(ops.eventfd(handle, 1, 0, bell.as_raw_fd()), "eventfd")?;
        }
        ready(ops.timeline_signal(&[handle], &[1], 0), "signal")?;
        same(count(&bell)?, 3, "three registrations")?;
        ready(ops.timeline_signal(&[handle], &[2], 0), "signal again")?;
        same(count(&bell)?, 0, "after that")
    });
    ops_rule(rules, name("towpath-reset-removes-none"), |ops| {
        let [handle] = empty(ops)?;
        let bell = watch(ops, handle, Kind::Timeline, 0)?;
        ready(ops.reset(&[handle], 0), "reset")?;
        ready(ops.timeline_signal(&[handle], &[1], 0), "signal")?;
        same(count(&bell)?, 1, "after the signal")
    });
    ops_rule(rules, name("towpath-last-destroy-forgets"), |ops| {
        let [handle] = empty(ops)?;
        let bell = watch(ops, handle, Kind::Timeline, 0)?;
        ready(ops.destroy(handle), "destroy")?;
        let [again] = empty(ops)?;
        same(again, handle, "the number is given again")?;
        ready(
            ops.timeline_signal(&[again], &[1], 0),
            "signal of the new object",
        )?;
        same(count(&bell)?, 0, "the old registration")
    });
    rule(
        rules,
        name("towpath-pending-fence-outlives-the-object"),
        |target| {
            let client = target.open()?;
            let ops = Ops(&*client);
            let [handle] = empty(ops)?;
            let source = target.fences()?;
            let file = source.sync_file(1)?;
            ready(ops.attach(handle, 1, file.as_fd()), "attach")?;
            let bell = watch(ops, handle, Kind::Timeline, 0)?;
            ready(ops.destroy(handle), "destroy")?;
            source.increase(1)?;
            same(count(&bell)?, 1, "after the fence")
        },
    );
}

fn bell() -> Result<OwnedFd, String> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| error.to_string())
}

fn watch(ops: Ops<'_>, handle: u32, kind: Kind, flags: u32) -> Result<OwnedFd, String> {
    let bell = bell()?;
    ready(
        ops.eventfd(handle, kind.point(), flags, bell.as_raw_fd()),
        "eventfd",
    )?;
    Ok(bell)
}

fn add_to(bell: &OwnedFd, count: u64) -> Result<(), String> {
    #[expect(
        clippy::host_endian_bytes,
        reason = "an eventfd counts in the machine's byte order"
    )]
    let written = rustix::io::write(bell, &count.to_ne_bytes());
    written.map(drop).map_err(|error| error.to_string())
}

/// What was added to the counter: given a moment to arrive if nothing is there yet.
fn count(bell: &OwnedFd) -> Result<u64, String> {
    let moment = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    let mut polls = [PollFd::new(bell, PollFlags::IN)];
    rustix::event::poll(&mut polls, Some(&moment)).map_err(|error| error.to_string())?;
    let mut bytes = [0; 8];
    #[expect(
        clippy::host_endian_bytes,
        reason = "an eventfd counts in the machine's byte order"
    )]
    match rustix::io::read(bell, &mut bytes) {
        Ok(_) => Ok(u64::from_ne_bytes(bytes)),
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        Err(error) => Err(error.to_string()),
    }
}

fn pending(target: &dyn Target, kind: Kind) -> Outcome {
    let client = target.open()?;
    let ops = Ops(&*client);
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    let file = source.sync_file(1)?;
    ready(ops.attach(handle, kind.point(), file.as_fd()), "attach")?;
    let available = watch(ops, handle, kind, WAIT_AVAILABLE)?;
    let done = watch(ops, handle, kind, 0)?;
    same(count(&available)?, 1, "available now")?;
    same(count(&done)?, 0, "done not yet")?;
    source.increase(1)?;
    same(count(&done)?, 1, "done later")
}

fn before(target: &dyn Target, kind: Kind) -> Outcome {
    let client = target.open()?;
    let ops = Ops(&*client);
    let [handle] = empty(ops)?;
    let source = target.fences()?;
    let available = watch(ops, handle, kind, WAIT_AVAILABLE)?;
    let done = watch(ops, handle, kind, 0)?;
    same(count(&available)?, 0, "nothing submitted")?;
    let file = source.sync_file(1)?;
    ready(ops.attach(handle, kind.point(), file.as_fd()), "attach")?;
    same(count(&available)?, 1, "available")?;
    same(count(&done)?, 0, "not done")?;
    source.increase(1)?;
    same(count(&done)?, 1, "done")
}
