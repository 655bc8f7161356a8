//! What cannot be hidden by a fast machine: allocations and system calls of one call, wake-ups of one
//! waiter.
//!
//! System calls are counted by tracing: this program again makes the calls between two marks.
//! Allocations are those of Rust code: what a C library allocates is not seen.

use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use serde::Serialize;
use towpath_sync::local::{self, Object};
use towpath_sync::shared::Shared;
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

use super::lanes::{Condition, Futex, Lane, Listened, Local, Waitv};
use super::{allocations, lavapipe, tracer};

/// Calls between the marks.
const CALLS: u32 = 50;
/// How long a call sleeps that finds nothing. At 0.2 ms a process that was kept from running right after it
/// had taken the time found its deadline passed and did not sleep at all: 0.94 system calls in place of 1.
const SLEEP: Duration = Duration::from_millis(10);

/// What one call costs.
#[derive(Debug, Serialize)]
pub(super) struct Count {
    what: String,
    /// Heap allocations of Rust code for one call; `None` where they are a C library's.
    allocations: Option<f64>,
    /// System calls for one call.
    syscalls: f64,
}

/// What one satisfied waiter costs.
#[derive(Debug, Serialize)]
pub(super) struct Wakeups {
    what: &'static str,
    waiters: u32,
    /// Times that a waiter slept until its point was reached, mean.
    sleeps_per_waiter: f64,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Counts {
    calls: Vec<Count>,
    wakeups: Vec<Wakeups>,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "counts of one call: allocations, system calls")?;
        for count in &self.calls {
            let allocations = count
                .allocations
                .map_or("?".to_owned(), |count| format!("{count:.2}"));
            writeln!(
                formatter,
                "  {:<44} {allocations:>6} {:>6.2}",
                count.what, count.syscalls
            )?;
        }
        writeln!(formatter, "sleeps of one satisfied waiter")?;
        for wakeups in &self.wakeups {
            writeln!(
                formatter,
                "  {:<44} {:>6.2}",
                format!("{} waiters, {}", wakeups.waiters, wakeups.what),
                wakeups.sleeps_per_waiter
            )?;
        }
        Ok(())
    }
}

/// Names of what is counted.
const NAMES: [&str; 16] = [
    "wait on 1 reached, local",
    "wait on 64 reached, local",
    "wait on 1 that sleeps, local",
    "wait-any of 64 that sleeps, local",
    "wait-all of 64 that sleeps, local",
    "signal without waiter, local",
    "query, local",
    "wait on 1 reached, shared",
    "wait-any of 64 that sleeps, shared",
    "signal without waiter, shared",
    "wait on 1 reached, eventfd and poll",
    "wait-any of 64 that sleeps, eventfd and poll",
    "signal without waiter, eventfd",
    "wait that sleeps, event-listener",
    "wait on 1 reached, Mesa lavapipe",
    "wait-any of 64 that sleeps, Mesa lavapipe",
];

/// Counts all.
///
/// # Errors
///
/// If this program cannot be traced.
pub(super) fn measure(has_lavapipe: bool) -> Result<Counts> {
    let mut calls = Vec::new();
    for name in NAMES {
        if name.ends_with("lavapipe") && !has_lavapipe {
            continue;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "waits", "--counted", name]);
        let traced = tracer::trace(command).with_context(|| format!("counting {name}"))?;
        let allocations: f64 = traced.output.trim().parse().context("no count came back")?;
        calls.push(Count {
            what: name.to_owned(),
            allocations: (!name.ends_with("lavapipe")).then_some(allocations),
            syscalls: traced.between_marks as f64 / f64::from(CALLS),
        });
    }
    let wakeups = vec![
        herd("timeline, local", &Local::default())?,
        herd("bare futex, all woken", &Herd::default())?,
        herd("futex_waitv, all woken", &WaitvHerd::default())?,
        herd("mutex and condition variable", &Condition::default())?,
        herd("event-listener", &Listened::default())?,
    ];
    Ok(Counts { calls, wakeups })
}

/// The traced side: makes the calls of that name, and prints the allocations of one.
///
/// # Errors
///
/// If there is no such name, or a descriptor cannot be had.
pub(super) fn be_counted(name: &str) -> Result<()> {
    let mut call = call(name)?;
    // What is made at first use is no cost of a call.
    call();
    let before = allocations::so_far();
    tracer::mark();
    for _ in 0..CALLS {
        call();
    }
    tracer::mark();
    let allocations = allocations::so_far().wrapping_sub(before);
    say!("{}", allocations as f64 / f64::from(CALLS));
    Ok(())
}

fn soon() -> Deadline {
    Deadline::after(SLEEP)
}

type Call = Box<dyn FnMut()>;

fn call(name: &str) -> Result<Call> {
    let (what, kind) = name.rsplit_once(", ").context("no kind")?;
    let count = if what.contains("64") { 64 } else { 1 };
    let all = what.starts_with("wait-all");
    Ok(match kind {
        "local" => local_call(what, count, all)?,
        "shared" => shared_call(what, count)?,
        "eventfd and poll" | "eventfd" => eventfd_call(what, count)?,
        "event-listener" => {
            let event = event_listener::Event::new();
            Box::new(move || {
                use event_listener::Listener as _;
                let listener = event.listen();
                black_box(listener.wait_timeout(SLEEP));
            })
        }
        "Mesa lavapipe" => lavapipe_call(what, count)?,
        _ => return Err(anyhow!("nothing is counted under {name:?}")),
    })
}

fn local_call(what: &str, count: usize, all: bool) -> Result<Call> {
    let objects: Vec<Object> = (0..count).map(|_| Object::new(false)).collect();
    let mut point = 1;
    if what.ends_with("reached") {
        for object in &objects {
            object.signal_point(1);
        }
    }
    let what_for = WaitFor {
        all,
        ..WaitFor::ANY.for_submit()
    };
    let first = objects.first().cloned().context("no object")?;
    Ok(match what {
        "signal without waiter" => Box::new(move || {
            first.signal_point(point);
            point += 1;
        }),
        "query" => Box::new(move || {
            black_box(local::Local.query(&first).is_ok());
        }),
        _ => Box::new(move || {
            with_entries(&objects, |entries| {
                black_box(local::wait(entries, what_for, soon()).is_ok());
            });
        }),
    })
}

/// The entries of up to 64 objects, without an allocation.
fn with_entries<O>(objects: &[O], body: impl FnOnce(&[Entry<'_, O>])) {
    let Some(object) = objects.first() else {
        return;
    };
    let mut entries = [Entry { object, point: 1 }; 64];
    for (entry, object) in entries.iter_mut().zip(objects) {
        entry.object = object;
    }
    body(entries.get(..objects.len()).unwrap_or_default());
}

fn shared_call(what: &str, count: usize) -> Result<Call> {
    let shared = Shared::new();
    let make = || shared.create(false);
    let objects = (0..count).map(|_| make()).collect::<Result<Vec<_>, _>>()?;
    if what.ends_with("reached") {
        for object in &objects {
            shared.signal_point(object, 1)?;
        }
    }
    let mut point = 1;
    let first = objects.first().cloned().context("no object")?;
    Ok(if what.starts_with("signal") {
        Box::new(move || {
            black_box(shared.signal_point(&first, point).is_ok());
            point += 1;
        })
    } else {
        Box::new(move || {
            with_entries(&objects, |entries| {
                let what = WaitFor::ANY.for_submit();
                black_box(shared.wait(entries, what, soon()).is_ok());
            });
        })
    })
}

fn eventfd_call(what: &str, count: usize) -> Result<Call> {
    let start = u32::from(what.ends_with("reached"));
    let make = || rustix::event::eventfd(start, EventfdFlags::CLOEXEC);
    let fds = (0..count).map(|_| make()).collect::<Result<Vec<_>, _>>()?;
    let is_signal = what.starts_with("signal");
    Ok(Box::new(move || {
        let Some(fd) = fds.first() else { return };
        if is_signal {
            black_box(rustix::io::write(fd, &1_u64.to_le_bytes()).is_ok());
            return;
        }
        let mut polls: [PollFd<'_>; 64] = std::array::from_fn(|_| PollFd::new(fd, PollFlags::IN));
        for (poll, fd) in polls.iter_mut().zip(&fds) {
            *poll = PollFd::new(fd, PollFlags::IN);
        }
        let span = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(SLEEP.subsec_nanos()),
        };
        let polls = polls.get_mut(..fds.len()).unwrap_or_default();
        black_box(rustix::event::poll(polls, Some(&span)).is_ok());
    }))
}

fn lavapipe_call(what: &str, count: usize) -> Result<Call> {
    let device = lavapipe::Device::open()?;
    let semaphores = (0..count)
        .map(|_| lavapipe::Semaphore::new(&device))
        .collect::<Result<Vec<_>>>()?;
    if what.ends_with("reached") {
        for semaphore in &semaphores {
            semaphore.signal(1);
        }
    }
    Ok(Box::new(move || {
        black_box(lavapipe::wait(
            &semaphores,
            true,
            u64::from(SLEEP.subsec_nanos()),
        ));
    }))
}

/// A futex of which every raise wakes all: as many waiters wait for different values.
#[derive(Default)]
struct Herd(Futex);

impl Lane for Herd {
    fn raise(&self, value: u32) {
        self.0.raise_for_all(value);
    }

    fn await_value(&self, value: u32) {
        self.0.await_value(value);
    }
}

/// The same, its waiters in `futex_waitv`.
#[derive(Default)]
struct WaitvHerd(Waitv);

impl Lane for WaitvHerd {
    fn raise(&self, value: u32) {
        self.0.raise_for_all(value);
    }

    fn await_value(&self, value: u32) {
        self.0.await_value(value);
    }
}

/// 32 waiters for the values 1 to 32, which are raised one by one.
fn herd(what: &'static str, lane: &impl Lane) -> Result<Wakeups> {
    const WAITERS: u32 = 32;
    let ready = AtomicU32::new(0);
    let ready = &ready;
    let sleeps = std::thread::scope(|scope| {
        let waiters: Vec<_> = (1..=WAITERS)
            .map(|value| {
                scope.spawn(move || {
                    ready.fetch_add(1, Ordering::SeqCst);
                    let before = tracer::sleeps();
                    lane.await_value(value);
                    tracer::sleeps().wrapping_sub(before)
                })
            })
            .collect();
        while ready.load(Ordering::SeqCst) < WAITERS {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(30));
        for value in 1..=WAITERS {
            lane.raise(value);
            std::thread::sleep(Duration::from_millis(2));
        }
        let sleeps = waiters.into_iter().map(std::thread::ScopedJoinHandle::join);
        sleeps.sum::<std::thread::Result<u64>>()
    });
    let sleeps = sleeps.map_err(|_panic| anyhow!("a waiter panicked"))?;
    Ok(Wakeups {
        what,
        waiters: WAITERS,
        sleeps_per_waiter: sleeps as f64 / f64::from(WAITERS),
    })
}
