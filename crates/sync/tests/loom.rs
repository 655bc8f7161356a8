//! Models of the in-process engine under loom: no lost wake-up in any interleaving.
//!
//! The engine's own files are compiled here beside loom's primitives. The ordinary suite bounds
//! preemptions to two; `cargo test -p towpath-sync --release --test loom -- --ignored` looks further.

#![expect(
    dead_code,
    unreachable_pub,
    clippy::pedantic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::clone_on_ref_ptr,
    reason = "files of the library, of which a model uses a part"
)]

#[path = "../src/error.rs"]
mod error;
#[path = "../src/local/mod.rs"]
mod local;
#[path = "../src/payload.rs"]
mod payload;
#[path = "../src/prim/loom.rs"]
mod prim;
#[path = "../src/provider.rs"]
mod provider;
#[path = "../src/time.rs"]
mod time;

use local::fence::{Fence, Signaller};
use local::object::Armed;
use local::wait::{FIRED, Node, Waiter};
use local::{Local, Object};
use provider::{Entry, Provider as _, WaitFor};
use time::Deadline;

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Waits for `points` of two objects for ever: a lost wake-up is a deadlock, which loom reports.
fn wait_two(first: &Object, second: &Object, what: WaitFor) -> Option<usize> {
    let entries = [
        Entry {
            object: first,
            point: 1,
        },
        Entry {
            object: second,
            point: 1,
        },
    ];
    local::wait(&entries, what, Deadline::NEVER).unwrap().first
}

fn signal_meets_wait() {
    let object = Object::new(false);
    let other = object.clone();
    let signaller = loom::thread::spawn(move || other.signal_point(1));
    object.wait(1, Deadline::NEVER).unwrap();
    assert!(object.is_reached(1));
    signaller.join().unwrap();
}

fn submission_then_end_meets_wait() {
    let object = Object::new(false);
    let other = object.clone();
    let worker = loom::thread::spawn(move || {
        let fence = Fence::raw();
        let signaller = Signaller::new(fence.clone());
        let fence = local::Fence(Some(fence));
        Local.attach(&other, 1, &fence).unwrap();
        signaller.signal();
    });
    object.wait(1, Deadline::NEVER).unwrap();
    assert!(object.is_reached(1));
    worker.join().unwrap();
}

fn any_of_two_has_two_signallers() {
    let (first, second) = (Object::new(false), Object::new(false));
    let (one, two) = (first.clone(), second.clone());
    let workers = [
        loom::thread::spawn(move || one.signal_point(1)),
        loom::thread::spawn(move || two.signal_point(1)),
    ];
    let index = wait_two(&first, &second, WaitFor::ANY.for_submit()).unwrap();
    assert!([&first, &second][index].is_reached(1));
    for worker in workers {
        worker.join().unwrap();
    }
}

fn all_of_two_has_two_signallers() {
    let (first, second) = (Object::new(false), Object::new(false));
    let (one, two) = (first.clone(), second.clone());
    let workers = [
        loom::thread::spawn(move || one.signal_point(1)),
        loom::thread::spawn(move || two.signal_point(1)),
    ];
    wait_two(&first, &second, WaitFor::ALL.for_submit());
    assert!(first.is_reached(1) && second.is_reached(1));
    for worker in workers {
        worker.join().unwrap();
    }
}

fn cancel_meets_signal() {
    let object = local::object::Object::new(false);
    let other = object.clone();
    let signaller = loom::thread::spawn(move || other.add(1, None));
    {
        let waiter = Waiter::new(1);
        let node = Node::new(&waiter, 1, false);
        let armed = object.arm(&node, true);
        // The time is over: the node is taken back. From here nobody may touch it or the waiter.
        object.disarm(&node);
        if armed == Armed::Waiting {
            assert_eq!(waiter.is_done(), node.state() == FIRED);
        }
    }
    signaller.join().unwrap();
}

fn cancel_meets_submission_and_end() {
    let object = local::object::Object::new(false);
    let other = object.clone();
    let worker = loom::thread::spawn(move || {
        let fence = Fence::raw();
        let signaller = Signaller::new(fence.clone());
        other.add(1, Some(&fence));
        signaller.signal();
    });
    {
        let waiter = Waiter::new(1);
        let node = Node::new(&waiter, 1, false);
        let _armed = object.arm(&node, true);
        object.disarm(&node);
    }
    worker.join().unwrap();
}

fn reset_meets_wait() {
    let object = Object::new(false);
    let other = object.clone();
    let worker = loom::thread::spawn(move || {
        let fence = Fence::raw();
        let signaller = Signaller::new(fence.clone());
        let fence = local::Fence(Some(fence));
        Local.attach(&other, 1, &fence).unwrap();
        Local.reset(&other).unwrap();
        signaller.signal();
        // The waiter came before the reset and has the fence, or it waits for this one.
        other.signal_point(1);
    });
    object.wait(1, Deadline::NEVER).unwrap();
    worker.join().unwrap();
}

fn joined_fence_meets_both_ends() {
    let (first, second) = (Fence::raw(), Fence::raw());
    let ends = [
        Signaller::new(first.clone()),
        Signaller::new(second.clone()),
    ];
    let workers = ends.map(|end| loom::thread::spawn(move || end.signal()));
    let joined = Fence::join(&first, &second);
    let object = Object::new(false);
    Local
        .attach(&object, 3, &local::Fence(Some(joined)))
        .unwrap();
    object.wait(3, Deadline::NEVER).unwrap();
    assert!(first.is_done() && second.is_done());
    for worker in workers {
        worker.join().unwrap();
    }
}

const MODELS: [(&str, fn()); 8] = [
    ("signal_meets_wait", signal_meets_wait),
    (
        "submission_then_end_meets_wait",
        submission_then_end_meets_wait,
    ),
    (
        "any_of_two_has_two_signallers",
        any_of_two_has_two_signallers,
    ),
    (
        "all_of_two_has_two_signallers",
        all_of_two_has_two_signallers,
    ),
    ("cancel_meets_signal", cancel_meets_signal),
    (
        "cancel_meets_submission_and_end",
        cancel_meets_submission_and_end,
    ),
    ("reset_meets_wait", reset_meets_wait),
    ("joined_fence_meets_both_ends", joined_fence_meets_both_ends),
];

#[test]
fn no_wake_up_is_lost() {
    for (_name, model) in MODELS {
        check(2, model);
    }
}

#[test]
#[ignore = "takes minutes; run by `cargo xtask deep`"]
fn no_wake_up_is_lost_with_more_preemptions() {
    for (_name, model) in MODELS {
        check(6, model);
    }
}
