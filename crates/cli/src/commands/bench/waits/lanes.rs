//! Ways by which one thread tells another of a value that grows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anyhow::Result;
use event_listener::{Event, Listener as _};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::thread::futex;
use towpath_sync::local::{self, Object};
use towpath_sync::shared::Shared;
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

use super::Arm;
use super::lavapipe::{self, Device, Semaphore};

/// A value that one side raises by one and another waits for.
pub(super) trait Lane: Send + Sync {
    /// Raises the value to `value`.
    fn raise(&self, value: u32);
    /// Waits until the value is `value` or more.
    fn await_value(&self, value: u32);
}

/// A bare futex: the floor.
#[derive(Debug, Default)]
pub(super) struct Futex(AtomicU32);

impl Futex {
    /// As [`Lane::raise`], for more than one waiter.
    pub(super) fn raise_for_all(&self, value: u32) {
        self.0.store(value, Ordering::SeqCst);
        let _woken = futex::wake(&self.0, futex::Flags::PRIVATE, ALL);
    }
}

/// As many waiters as there can be.
const ALL: u32 = i32::MAX.unsigned_abs();

impl Lane for Futex {
    fn raise(&self, value: u32) {
        self.0.store(value, Ordering::SeqCst);
        let _woken = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    fn await_value(&self, value: u32) {
        loop {
            let seen = self.0.load(Ordering::SeqCst);
            if seen >= value {
                return;
            }
            let _woken = futex::wait(&self.0, futex::Flags::PRIVATE, seen, None);
        }
    }
}

/// `futex_waitv` on one word.
#[derive(Debug, Default)]
pub(super) struct Waitv(AtomicU32);

impl Waitv {
    /// As [`Lane::raise`], for more than one waiter.
    pub(super) fn raise_for_all(&self, value: u32) {
        self.0.store(value, Ordering::SeqCst);
        let _woken = futex::wake(&self.0, futex::Flags::PRIVATE, ALL);
    }
}

impl Lane for Waitv {
    fn raise(&self, value: u32) {
        self.0.store(value, Ordering::SeqCst);
        let _woken = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    fn await_value(&self, value: u32) {
        loop {
            let seen = self.0.load(Ordering::SeqCst);
            if seen >= value {
                return;
            }
            let mut wait = futex::Wait::new();
            wait.val = u64::from(seen);
            wait.uaddr = futex::WaitPtr::new(self.0.as_ptr().cast());
            wait.flags = futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE;
            let flags = futex::WaitvFlags::empty();
            let _woken = futex::waitv(&[wait], flags, None, futex::ClockId::Monotonic);
        }
    }
}

/// A timeline of this process.
#[derive(Debug)]
pub(super) struct Local(Object);

impl Default for Local {
    fn default() -> Self {
        Self(Object::new(false))
    }
}

impl Lane for Local {
    fn raise(&self, value: u32) {
        self.0.signal_point(u64::from(value));
    }

    fn await_value(&self, value: u32) {
        let _done = self.0.wait(u64::from(value), Deadline::NEVER);
    }
}

/// A mutex and a condition variable.
#[derive(Debug, Default)]
pub(super) struct Condition {
    value: Mutex<u32>,
    changed: Condvar,
}

impl Lane for Condition {
    fn raise(&self, value: u32) {
        if let Ok(mut guard) = self.value.lock() {
            *guard = value;
        }
        self.changed.notify_all();
    }

    fn await_value(&self, value: u32) {
        if let Ok(guard) = self.value.lock() {
            drop(self.changed.wait_while(guard, |now| *now < value));
        }
    }
}

/// An eventfd and poll, as event loops do it.
#[derive(Debug)]
pub(super) struct Eventfd {
    value: AtomicU32,
    fd: std::os::fd::OwnedFd,
}

impl Eventfd {
    pub(super) fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            value: AtomicU32::new(0),
            fd: rustix::event::eventfd(0, flags)?,
        })
    }
}

impl Lane for Eventfd {
    fn raise(&self, value: u32) {
        self.value.store(value, Ordering::SeqCst);
        let _rung = rustix::io::write(&self.fd, &1_u64.to_le_bytes());
    }

    fn await_value(&self, value: u32) {
        while self.value.load(Ordering::SeqCst) < value {
            let mut polls = [PollFd::new(&self.fd, PollFlags::IN)];
            let _ready = rustix::event::poll(&mut polls, None);
            let _drained = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }
}

/// The crate event-listener.
#[derive(Debug, Default)]
pub(super) struct Listened {
    value: AtomicU32,
    event: Event,
}

impl Lane for Listened {
    fn raise(&self, value: u32) {
        self.value.store(value, Ordering::SeqCst);
        self.event.notify(usize::MAX);
    }

    fn await_value(&self, value: u32) {
        while self.value.load(Ordering::SeqCst) < value {
            let listener = self.event.listen();
            if self.value.load(Ordering::SeqCst) < value {
                listener.wait();
            }
        }
    }
}

fn blocked_arm(name: &str, wait: impl Fn() + 'static) -> Arm<'static> {
    Arm {
        group: "blocked",
        name: name.to_owned(),
        unit: "us of CPU in 20 ms",
        sample: Box::new(move || {
            let before = cpu_ns();
            wait();
            Ok((cpu_ns() - before) / 1000.0)
        }),
    }
}

/// CPU time of one blocked wait.
pub(super) fn blocked(lavapipe: Option<&Arc<Device>>) -> Result<Vec<Arm<'static>>> {
    let arm = |name: &str, wait: fn()| blocked_arm(name, wait);
    let mut arms = blocked_here(arm);
    let shared = Shared::new();
    let across = [shared.create(false)?, shared.create(false)?];
    arms.push(blocked_arm("wait-any of 2, shared", move || {
        let entries = across.each_ref().map(|object| Entry { object, point: 1 });
        let until = Deadline::after(Duration::from_millis(20));
        let _late = shared.wait(&entries, WaitFor::ANY.for_submit(), until);
    }));
    if let Some(device) = lavapipe {
        let both = [Semaphore::new(device)?, Semaphore::new(device)?];
        arms.push(blocked_arm("wait-any of 2, Mesa lavapipe", move || {
            lavapipe::wait(&both, true, 20_000_000);
        }));
        let one = [Semaphore::new(device)?];
        arms.push(blocked_arm("wait on 1, Mesa lavapipe", move || {
            lavapipe::wait(&one, false, 20_000_000);
        }));
    }
    Ok(arms)
}

fn blocked_here(arm: impl Fn(&str, fn()) -> Arm<'static>) -> Vec<Arm<'static>> {
    vec![
        arm("wait-any of 2, local", || {
            let objects = [Object::new(false), Object::new(false)];
            let entries: Vec<_> = objects
                .iter()
                .map(|object| Entry { object, point: 1 })
                .collect();
            let until = Deadline::after(Duration::from_millis(20));
            let _late = local::wait(&entries, WaitFor::ANY.for_submit(), until);
        }),
        arm("futex_waitv of 2", || {
            let words = [AtomicU32::new(0), AtomicU32::new(0)];
            let waits = words.each_ref().map(|word| {
                let mut wait = futex::Wait::new();
                wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
                wait.flags = futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE;
                wait
            });
            let until = Deadline::after(Duration::from_millis(20)).as_nanoseconds();
            let until = rustix::thread::Timespec {
                tv_sec: until / 1_000_000_000,
                tv_nsec: until % 1_000_000_000,
            };
            let flags = futex::WaitvFlags::empty();
            let _late = futex::waitv(&waits, flags, Some(&until), futex::ClockId::Monotonic);
        }),
        arm("event-listener", || {
            let event = Event::new();
            event.listen().wait_timeout(Duration::from_millis(20));
        }),
        arm("condition variable", || {
            let (value, changed) = (Mutex::new(()), Condvar::new());
            if let Ok(guard) = value.lock() {
                drop(changed.wait_timeout(guard, Duration::from_millis(20)));
            }
        }),
        arm("poll of 2 eventfds", || {
            let make = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
            if let (Ok(first), Ok(second)) = (make(), make()) {
                let mut polls = [
                    PollFd::new(&first, PollFlags::IN),
                    PollFd::new(&second, PollFlags::IN),
                ];
                let span = rustix::time::Timespec {
                    tv_sec: 0,
                    tv_nsec: 20_000_000,
                };
                let _late = rustix::event::poll(&mut polls, Some(&span));
            }
        }),
    ]
}

fn cpu_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
