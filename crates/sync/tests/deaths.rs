//! Processes that die: whoever waits for what they were to bring is released at once.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::Child;
use std::time::{Duration, Instant};

use towpath_sync::local;
use towpath_sync::mixed::{self, AnyObject};
use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Entry, Error, Provider as _, WaitFor};

#[path = "common/other.rs"]
mod common;

use common::{in_seconds, other, role, wait};

#[test]
#[ignore = "the other side of the tests below"]
fn the_other_process() {
    let Some((role, shared, object)) = role() else {
        return;
    };
    match role.as_str() {
        "promise" => {
            object.promise().unwrap();
            shared.signal_point(&object, 1).unwrap();
            std::thread::sleep(Duration::from_mins(1));
        }
        "submit" => {
            let (_signaller, fence) = shared.fence().unwrap();
            shared.attach(&object, 5, &fence).unwrap();
            let (_another, fence) = shared.fence().unwrap();
            shared.attach(&object, 6, &fence).unwrap();
            std::thread::sleep(Duration::from_mins(1));
        }
        "hammer" => {
            object.promise().unwrap();
            for point in 1.. {
                shared.signal_point(&object, point).unwrap();
                let (signaller, fence) = shared.fence().unwrap();
                shared.attach(&object, point, &fence).unwrap();
                signaller.signal();
            }
        }
        "promise-later" => {
            shared.signal_point(&object, 1).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            object.promise().unwrap();
            // Told by a point of its own, out of order: the one waited for stays without a fence.
            shared.signal_point(&object, 2).unwrap();
            std::thread::sleep(Duration::from_mins(1));
        }
        "one-of-many" => {
            object.promise().unwrap();
            let before = shared.query(&object).unwrap().submitted;
            shared.signal_point(&object, before + 1).unwrap();
            std::thread::sleep(Duration::from_mins(1));
        }
        "wait-without-descriptors" => {
            // As many as are open: none for a process's descriptor, none for reading its start time.
            rustix::process::setrlimit(
                rustix::process::Resource::Nofile,
                rustix::process::Rlimit {
                    current: Some(3),
                    maximum: Some(3),
                },
            )
            .unwrap();
            shared.signal_point(&object, 2).unwrap();
            let error = wait(&shared, &object, 10, in_seconds(30)).unwrap_err();
            assert!(matches!(error, Error::SignallerDead { .. }), "{error:?}");
        }
        _ => {}
    }
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_process_that_promised_to_signal_releases_its_waiters() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let mut child = other("promise", &shared, &object);
    wait(&shared, &object, 1, in_seconds(30)).unwrap();
    let waits: Vec<_> = (0..3)
        .map(|_| {
            let (shared, object) = (shared.clone(), object.clone());
            std::thread::spawn(move || wait(&shared, &object, 2, Deadline::NEVER))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    child.kill().unwrap();
    for wait in waits {
        let error = wait.join().unwrap().unwrap_err();
        assert!(
            matches!(error, Error::SignallerDead { index: 0 }),
            "{error:?}"
        );
    }
    child.wait().unwrap();
    // What was reached stays reached, and others may signal on.
    wait(&shared, &object, 1, Deadline::POLL).unwrap();
    shared.signal_point(&object, 2).unwrap();
    wait(&shared, &object, 2, Deadline::POLL).unwrap();
}

/// Voluntary context switches of this thread: it slept that often.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Waits for point 10 in another thread; returns how the wait ended, when, and how often it slept.
fn waiter(
    shared: &Shared,
    object: &Object,
) -> std::thread::JoinHandle<(Result<(), Error>, Instant, u64)> {
    let (shared, object) = (shared.clone(), object.clone());
    std::thread::spawn(move || {
        let before = sleeps();
        let answer = wait(&shared, &object, 10, Deadline::NEVER);
        let at = Instant::now();
        (answer, at, sleeps() - before)
    })
}

#[test]
fn a_death_wakes_sleepers_at_once_and_nothing_wakes_them_before() {
    let mut late = Vec::new();
    for _ in 0..3 {
        let shared = Shared::new();
        let object = shared.create(false).unwrap();
        let mut child = other("promise", &shared, &object);
        wait(&shared, &object, 1, in_seconds(30)).unwrap();
        let waiter = waiter(&shared, &object);
        std::thread::sleep(Duration::from_millis(450));
        let killed = Instant::now();
        child.kill().unwrap();
        let (answer, at, sleeps) = waiter.join().unwrap();
        assert!(matches!(answer, Err(Error::SignallerDead { index: 0 })));
        // One sleep; a lock or a file that is read may be another. Looking every 100 ms would be five.
        assert!(sleeps <= 3, "{sleeps} sleeps");
        late.push(at.duration_since(killed));
        child.wait().unwrap();
    }
    late.sort();
    assert!(late[0] < Duration::from_millis(30), "{late:?}");
}

#[test]
fn a_promise_made_while_somebody_sleeps_counts_too() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let child = other("promise-later", &shared, &object);
    wait(&shared, &object, 1, in_seconds(30)).unwrap();
    let waiter = waiter(&shared, &object);
    wait(&shared, &object, 2, in_seconds(30)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(!waiter.is_finished());
    end(child);
    let (answer, ..) = waiter.join().unwrap();
    assert!(matches!(answer, Err(Error::SignallerDead { .. })));
}

#[test]
fn waiters_are_released_with_the_last_of_many_signallers() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let mut children: Vec<_> = (1..=8)
        .map(|point| {
            let child = other("one-of-many", &shared, &object);
            wait(&shared, &object, point, in_seconds(30)).unwrap();
            child
        })
        .collect();
    assert!(matches!(object.promise(), Err(Error::Full { .. })));
    let waiter = waiter(&shared, &object);
    let last = children.pop().unwrap();
    for child in children {
        end(child);
        std::thread::sleep(Duration::from_millis(5));
        assert!(!waiter.is_finished(), "one that promised is alive");
    }
    end(last);
    let (answer, ..) = waiter.join().unwrap();
    assert!(matches!(answer, Err(Error::SignallerDead { .. })));
    // Places of the dead are given away.
    object.promise().unwrap();
    let later = Deadline::after(Duration::from_millis(5));
    let answer = wait(&shared, &object, 10, later).unwrap_err();
    assert!(matches!(answer, Error::TimedOut { .. }), "{answer:?}");
}

#[test]
fn a_wait_over_kinds_ends_with_its_signaller() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let child = other("promise", &shared, &object);
    wait(&shared, &object, 1, in_seconds(30)).unwrap();
    let any = [
        AnyObject::Local(local::Object::new(false)),
        AnyObject::Shared(shared.clone(), object.clone()),
    ];
    let sleeper = std::thread::spawn(move || {
        let entries: Vec<_> = any
            .iter()
            .map(|object| Entry { object, point: 10 })
            .collect();
        mixed::wait(&entries, WaitFor::ANY.for_submit(), in_seconds(30))
    });
    std::thread::sleep(Duration::from_millis(50));
    end(child);
    let error = sleeper.join().unwrap().unwrap_err();
    assert!(
        matches!(error, Error::SignallerDead { index: 1 }),
        "{error:?}"
    );
}

#[test]
fn without_descriptors_the_living_are_alive_and_the_dead_are_found() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let promised = other("promise", &shared, &object);
    wait(&shared, &object, 1, in_seconds(30)).unwrap();
    let mut blind = other("wait-without-descriptors", &shared, &object);
    wait(&shared, &object, 2, in_seconds(30)).unwrap();
    std::thread::sleep(Duration::from_millis(250));
    assert!(
        blind.try_wait().unwrap().is_none(),
        "it took a living process for dead"
    );
    end(promised);
    assert!(blind.wait().unwrap().success());
}

#[test]
fn the_fences_of_a_killed_process_end_as_failed() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let mut child = other("submit", &shared, &object);
    let available = WaitFor::ALL.available();
    shared
        .wait(
            &[Entry {
                object: &object,
                point: 6,
            }],
            available,
            in_seconds(30),
        )
        .unwrap();
    let fence = shared.fence_of(&object, 6).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let error = wait(&shared, &object, 6, Deadline::NEVER).unwrap_err();
    assert!(matches!(error, Error::SignallerDead { .. }), "{error:?}");
    assert_eq!(shared.status(&fence), -libc::EOWNERDEAD);
}

#[test]
fn processes_killed_at_random_leave_objects_that_work() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let mut last = 0;
    for round in 0..24_u64 {
        let mut child = other("hammer", &shared, &object);
        // Until it has promised, all that did are dead.
        let until = in_seconds(30);
        while let Err(error) = wait(&shared, &object, last + 1, until) {
            assert!(matches!(error, Error::SignallerDead { .. }), "{error:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (shared_too, object_too) = (shared.clone(), object.clone());
        let sleeper =
            std::thread::spawn(move || wait(&shared_too, &object_too, u64::MAX, Deadline::NEVER));
        // Microseconds to milliseconds into its work, at another place each time.
        std::thread::sleep(Duration::from_micros(round * round * 37 % 3000));
        child.kill().unwrap();
        child.wait().unwrap();
        let answer = sleeper.join().unwrap();
        assert!(matches!(answer, Err(Error::SignallerDead { .. })));
        let now = shared.query(&object).unwrap();
        assert!(now.submitted > last, "{now:?} after {last}");
        last = now.submitted.max(last) + 1;
        shared.reset(&object).unwrap();
        shared.signal_point(&object, last).unwrap();
        assert_eq!(shared.query(&object).unwrap().reached, last);
    }
}
