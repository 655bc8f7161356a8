//! Random schedules of larger programs than loom can explore: mixed waits of several threads.
//!
//! The engine's own files are compiled here beside shuttle's primitives.

#![expect(
    dead_code,
    unreachable_pub,
    clippy::pedantic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "files of the library, of which a model uses a part"
)]

#[path = "../src/error.rs"]
mod error;
#[path = "../src/local/mod.rs"]
mod local;
#[path = "../src/payload.rs"]
mod payload;
#[path = "../src/prim/shuttle.rs"]
mod prim;
#[path = "../src/provider.rs"]
mod provider;
#[path = "../src/time.rs"]
mod time;

use local::{Local, Object};
use provider::{Entry, Provider as _, WaitFor};
use shuttle::rand::Rng as _;
use time::Deadline;

/// Four objects, two threads that signal or submit and end points in random order, two that wait for
/// any and all of them, one that resets an object nobody waits for the second time.
fn mixed_waits() {
    let objects: Vec<Object> = (0..4).map(|_| Object::new(false)).collect();
    let mut threads = Vec::new();
    for part in 0..2_usize {
        let objects = objects.clone();
        threads.push(shuttle::thread::spawn(move || {
            for point in 1..=2 {
                for object in objects.iter().skip(part * 2).take(2) {
                    if shuttle::rand::thread_rng().gen_bool(0.5) {
                        object.signal_point(point);
                    } else {
                        let (signaller, fence) = Local.fence().unwrap();
                        Local.attach(object, point, &fence).unwrap();
                        shuttle::thread::yield_now();
                        signaller.signal();
                    }
                }
            }
        }));
    }
    for all in [false, true] {
        let objects = objects.clone();
        threads.push(shuttle::thread::spawn(move || {
            for point in 1..=2 {
                let entries: Vec<_> = objects
                    .iter()
                    .map(|object| Entry { object, point })
                    .collect();
                let what = WaitFor {
                    all,
                    ..WaitFor::ANY.for_submit()
                };
                let waited = local::wait(&entries, what, Deadline::NEVER).unwrap();
                if all {
                    assert!(objects.iter().all(|object| object.is_reached(point)));
                } else {
                    assert!(objects[waited.first.unwrap()].is_reached(point));
                }
            }
        }));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(objects.iter().all(|object| object.is_reached(2)));
}

#[test]
fn mixed_waits_end_under_random_schedules() {
    shuttle::check_random(mixed_waits, 500);
}

#[test]
#[ignore = "takes minutes; run by `cargo xtask deep`"]
fn mixed_waits_end_under_many_random_schedules() {
    shuttle::check_random(mixed_waits, 500_000);
    shuttle::check_pct(mixed_waits, 250_000, 4);
}
