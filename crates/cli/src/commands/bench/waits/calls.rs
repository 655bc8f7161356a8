//! Calls that nobody sleeps in.

use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::thread::futex;
use towpath_sync::local::{self, Object};
use towpath_sync::shared::Shared;
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

use super::Arm;
use super::lavapipe::{self, Device, Semaphore};

const LOOPS: u32 = 20_000;

/// Nanoseconds of one call in a loop.
fn timed(loops: u32, mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..loops {
        body();
    }
    start.elapsed().as_nanos() as f64 / f64::from(loops)
}

fn arm<'a>(name: &str, sample: impl FnMut() -> f64 + 'a) -> Arm<'a> {
    let mut sample = sample;
    Arm {
        group: "calls",
        name: name.to_owned(),
        unit: "ns",
        sample: Box::new(move || Ok(sample())),
    }
}

/// # Errors
///
/// If an object cannot be had.
pub(super) fn arms(lavapipe: Option<&Arc<Device>>) -> Result<Vec<Arm<'static>>> {
    let mut arms = vec![
        arm("empty loop", || {
            timed(LOOPS, || {
                black_box(());
            })
        }),
        arm("check, mutex", || {
            let value = Mutex::new(7_u64);
            timed(LOOPS, || {
                black_box(value.lock().is_ok_and(|value| *value >= 7));
            })
        }),
    ];
    for count in [1_usize, 64] {
        let objects = reached(count);
        arms.push(arm(
            &format!("check of {count} reached, local"),
            move || {
                timed(LOOPS, || {
                    let all = objects.iter().all(|object| black_box(object).is_reached(1));
                    black_box(all);
                })
            },
        ));
    }
    for count in [1_usize, 2, 4, 5, 16, 64, 256] {
        arms.push(waits(count));
        arms.push(armed(count));
    }
    arms.extend(signals());
    arms.extend(queries()?);
    arms.extend(peers());
    if let Some(device) = lavapipe {
        arms.extend(mesa(device)?);
    }
    Ok(arms)
}

/// Reads of how far a timeline is, and waits on any.
fn queries() -> Result<Vec<Arm<'static>>> {
    let object = Object::new(false);
    object.signal_point(7);
    let shared = Shared::new();
    let across = shared.create(false)?;
    shared.signal_point(&across, 7)?;
    let (shared_too, across_too) = (shared.clone(), across.clone());
    let objects = reached(64);
    Ok(vec![
        arm("query, local", move || {
            timed(LOOPS, || {
                black_box(local::Local.query(&object).is_ok());
            })
        }),
        arm("query, shared", move || {
            timed(LOOPS / 10, || {
                black_box(shared.query(&across).is_ok());
            })
        }),
        arm("wait-all on 1 reached, shared", move || {
            let entries = [Entry {
                object: &across_too,
                point: 1,
            }];
            timed(LOOPS / 10, || {
                let waited = shared_too.wait(&entries, WaitFor::ALL, Deadline::NEVER);
                black_box(waited.is_ok());
            })
        }),
        arm("wait-any on 64 reached, local", move || {
            let entries: Vec<_> = objects
                .iter()
                .map(|object| Entry { object, point: 1 })
                .collect();
            timed(LOOPS / 10, || {
                let waited = local::wait(black_box(&entries), WaitFor::ANY, Deadline::NEVER);
                black_box(waited.is_ok());
            })
        }),
    ])
}

/// Mesa's software Vulkan.
fn mesa(device: &Arc<Device>) -> Result<Vec<Arm<'static>>> {
    let mut arms = Vec::new();
    for count in [1_usize, 64, 256] {
        let make = || {
            let semaphore = Semaphore::new(device)?;
            semaphore.signal(1);
            anyhow::Ok(semaphore)
        };
        let semaphores = (0..count).map(|_| make()).collect::<Result<Vec<_>>>()?;
        arms.push(arm(
            &format!("wait-all on {count} reached, Mesa lavapipe"),
            move || {
                timed(LOOPS / 100, || {
                    black_box(lavapipe::wait(&semaphores, false, 0));
                })
            },
        ));
    }
    let (read, raised) = (Semaphore::new(device)?, Semaphore::new(device)?);
    let mut value = 0;
    arms.push(arm("query, Mesa lavapipe", move || {
        timed(LOOPS / 10, || {
            black_box(read.value());
        })
    }));
    arms.push(arm("signal without waiter, Mesa lavapipe", move || {
        timed(LOOPS / 10, || {
            value += 1;
            raised.signal(value);
        })
    }));
    Ok(arms)
}

fn reached(count: usize) -> Vec<Object> {
    let objects: Vec<Object> = (0..count).map(|_| Object::new(false)).collect();
    for object in &objects {
        object.signal_point(1);
    }
    objects
}

/// A wait on all of some reached objects: no system call.
fn waits(count: usize) -> Arm<'static> {
    let objects = reached(count);
    arm(&format!("wait-all on {count} reached, local"), move || {
        let entries: Vec<_> = objects
            .iter()
            .map(|object| Entry { object, point: 1 })
            .collect();
        timed(LOOPS / 10, || {
            let waited = local::wait(black_box(&entries), WaitFor::ALL, Deadline::NEVER);
            black_box(waited.is_ok());
        })
    })
}

/// Arming and disarming, per object.
fn armed(count: usize) -> Arm<'static> {
    let objects: Vec<Object> = (0..count).map(|_| Object::new(false)).collect();
    arm(
        &format!("arm and disarm, of {count}, per object"),
        move || {
            let entries: Vec<_> = objects
                .iter()
                .map(|object| Entry { object, point: 1 })
                .collect();
            let loops = LOOPS / 10;
            timed(loops, || {
                local::blocking::arm_and_disarm(black_box(&entries));
            }) / count as f64
        },
    )
}

fn signals() -> Vec<Arm<'static>> {
    let object = Object::new(false);
    let mut point = 0;
    let shared = Shared::new();
    let across = shared.create(false);
    let mut across_point = 0;
    let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
    vec![
        arm("signal without waiter, local", move || {
            timed(LOOPS, || {
                point += 1;
                object.signal_point(point);
            })
        }),
        arm("signal without waiter, shared", move || {
            timed(LOOPS / 10, || {
                across_point += 1;
                if let Ok(object) = &across {
                    black_box(shared.signal_point(object, across_point).is_ok());
                }
            })
        }),
        arm("eventfd write and read", move || {
            timed(LOOPS / 10, || {
                if let Ok(fd) = &eventfd {
                    let mut bytes = 1_u64.to_le_bytes();
                    black_box(rustix::io::write(fd, &bytes).is_ok());
                    black_box(rustix::io::read(fd, &mut bytes).is_ok());
                }
            })
        }),
    ]
}

/// What programs call today when nothing is to be waited for.
fn peers() -> Vec<Arm<'static>> {
    let mut arms = Vec::new();
    for count in [1_usize, 16, 64] {
        arms.push(arm(
            &format!("futex_waitv of {count}, value passed"),
            move || {
                let words: Vec<_> = (0..count)
                    .map(|_| std::sync::atomic::AtomicU32::new(1))
                    .collect();
                let waits: Vec<futex::Wait> = words
                    .iter()
                    .map(|word| {
                        let mut wait = futex::Wait::new();
                        wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
                        wait.flags = futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE;
                        wait
                    })
                    .collect();
                timed(LOOPS / 20, || {
                    let flags = futex::WaitvFlags::empty();
                    let answer = futex::waitv(&waits, flags, None, futex::ClockId::Monotonic);
                    black_box(answer.is_err());
                })
            },
        ));
        arms.push(arm(&format!("poll of {count} ready eventfds"), move || {
            poll_ready(count)
        }));
    }
    arms.push(arm(
        "condition variable, wait that times out at once",
        || {
            let (value, condition) = (Mutex::new(0), Condvar::new());
            timed(LOOPS / 100, || {
                if let Ok(guard) = value.lock() {
                    black_box(condition.wait_timeout(guard, Duration::ZERO).is_ok());
                }
            })
        },
    ));
    arms
}

fn poll_ready(count: usize) -> f64 {
    let make = || rustix::event::eventfd(1, EventfdFlags::CLOEXEC);
    let Ok(fds) = (0..count).map(|_| make()).collect::<Result<Vec<_>, _>>() else {
        return f64::NAN;
    };
    let mut polls: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    timed(LOOPS / 20, || {
        black_box(rustix::event::poll(&mut polls, None).is_ok());
    })
}
