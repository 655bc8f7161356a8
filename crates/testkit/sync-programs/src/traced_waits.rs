//! Waits between marks, for a tracer that counts system calls: each mark is a `getppid`.
//!
//! Mark, 1000 waits and checks of reached objects, mark, one wait on 64 objects that sleeps until its
//! time is over, mark, 64 signals without waiters, mark.

use std::hint::black_box;
use std::time::Duration;

use towpath_sync::local::{self, Object};
use towpath_sync::{Deadline, Entry, WaitFor};

fn main() {
    let objects: Vec<Object> = (0..64).map(|_| Object::new(false)).collect();
    for object in &objects {
        object.signal_point(1);
    }
    let reached: Vec<_> = objects
        .iter()
        .map(|object| Entry { object, point: 1 })
        .collect();
    let later: Vec<_> = objects
        .iter()
        .map(|object| Entry { object, point: 2 })
        .collect();
    // The first clock read looks for the kernel's page of functions.
    black_box(Deadline::after(Duration::ZERO));
    mark();
    for _ in 0..1000 {
        black_box(local::wait(&reached, WaitFor::ALL, Deadline::NEVER).is_ok());
        black_box(objects.iter().all(|object| object.is_reached(1)));
    }
    mark();
    let until = Deadline::after(Duration::from_millis(2));
    black_box(local::wait(&later, WaitFor::ANY.for_submit(), until).is_ok());
    mark();
    for object in &objects {
        object.signal_point(2);
    }
    mark();
}

fn mark() {
    black_box(rustix::process::getppid());
}
