//! Uses the kernel's objects through `towpath_sync::drm`: on a real render node in the guest, and under
//! the shim, which counts the waits that reach it.
//!
//! `drm-provider NODE`
#![expect(clippy::print_stdout, reason = "a test program reports on its output")]

use std::error::Error;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use towpath_sync::drm::Drm;
use towpath_sync::local;
use towpath_sync::mixed::{self, AnyObject, Doorbell};
use towpath_sync::shared::Shared;
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let node = std::env::args().nth(1).unwrap_or_default();
    let outcome = passed_points(&node)
        .and_then(|()| remembered_point(&node))
        .and_then(|()| given_away(&node))
        .and_then(|()| fences(&node))
        .and_then(|()| kinds(&node));
    match outcome {
        Ok(()) => {
            println!("drm-provider: ok");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("drm-provider: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ensure(condition: bool, what: &str) -> Outcome {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Waits of which none reaches the kernel before the export: the object has a twin here.
fn passed_points(node: &str) -> Outcome {
    let drm = Drm::open(Path::new(node))?;
    let object = drm.create(false)?;
    let wait = |point| {
        let entries = [Entry {
            object: &object,
            point,
        }];
        drm.wait(&entries, WaitFor::ALL, Deadline::POLL)
    };
    drm.signal_point(&object, 5)?;
    for _ in 0..100 {
        wait(5)?;
        wait(4)?;
    }
    drm.reset(&object)?;
    ensure(wait(5).is_err(), "a point that was reset is remembered")?;
    drm.signal_point(&object, 7)?;
    let ticket = drm.export(&object)?.ok_or("no descriptor")?;
    let other = drm
        .import(ticket.as_fd())?
        .ok_or("no object behind the descriptor")?;
    wait(7)?;
    wait(7)?;
    drm.reset(&other)?;
    ensure(wait(7).is_err(), "an object that others have is remembered")
}

/// A private object with a fence from elsewhere: of 101 waits the first reaches the kernel.
fn remembered_point(node: &str) -> Outcome {
    let drm = Drm::open(Path::new(node))?;
    let (from, object) = (drm.create(true)?, drm.create(false)?);
    drm.attach(&object, 5, &drm.fence_of(&from, 0)?)?;
    let wait = |point| {
        let entries = [Entry {
            object: &object,
            point,
        }];
        drm.wait(&entries, WaitFor::ALL, Deadline::POLL)
    };
    for _ in 0..100 {
        wait(5)?;
    }
    drm.reset(&object)?;
    ensure(wait(5).is_err(), "a point that was reset is remembered")
}

/// Sleepers on objects that only this process has, when somebody else gets them.
fn given_away(node: &str) -> Outcome {
    let drm = Drm::open(Path::new(node))?;
    let object = drm.create(false)?;
    let until = Deadline::after(Duration::from_secs(20));
    std::thread::scope(|scope| {
        let sleepers: Vec<_> = (1..=3)
            .map(|point| {
                let (drm, object) = (&drm, &object);
                scope.spawn(move || {
                    let entries = [Entry { object, point }];
                    drm.wait(&entries, WaitFor::ALL.for_submit(), until)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(30));
        let ticket = drm.export(&object)?.ok_or("no descriptor")?;
        let other = drm.import(ticket.as_fd())?.ok_or("no object")?;
        std::thread::sleep(Duration::from_millis(30));
        ensure(
            sleepers.iter().all(|sleeper| !sleeper.is_finished()),
            "an export ended a wait",
        )?;
        drm.signal_point(&other, 3)?;
        for sleeper in sleepers {
            sleeper.join().map_err(|_panic| "a sleeper panicked")??;
        }
        ensure(drm.query(&object)?.reached == 3, "the point of the other")
    })
}

fn fences(node: &str) -> Outcome {
    let drm = Drm::open(Path::new(node))?;
    let (from, to) = (drm.create(true)?, drm.create(false)?);
    let fence = drm.fence_of(&from, 0)?;
    ensure(
        drm.status(&fence) == 1,
        "the fence of a signaled object is done",
    )?;
    let both = drm.join(&fence, &fence.clone())?;
    drm.attach(&to, 3, &both)?;
    ensure(drm.query(&to)?.reached == 3, "a fence attached at a point")?;
    ensure(drm.fence_of(&to, 4).is_err(), "a point that is not there")?;
    let at_two = drm.fence_of(&to, 2)?;
    ensure(drm.status(&at_two) == 1, "the fence of a passed point")?;
    let entry = |object| Entry { object, point: 0 };
    drm.transfer(
        Entry {
            object: &from,
            point: 9,
        },
        entry(&to),
        false,
    )?;
    ensure(drm.query(&from)?.submitted == 9, "a transfer")
}

/// A wait over objects of all three kinds, and a doorbell with all of them.
fn kinds(node: &str) -> Outcome {
    let drm = Drm::open(Path::new(node))?;
    let (kernel, own) = (drm.create(false)?, local::Object::new(false));
    let shared = Shared::new();
    let across = shared.create(false)?;
    let any = [
        AnyObject::Drm(drm.clone(), kernel.clone()),
        AnyObject::Local(own.clone()),
        AnyObject::Shared(shared.clone(), across.clone()),
    ];
    let entries: Vec<_> = any
        .iter()
        .map(|object| Entry { object, point: 1 })
        .collect();
    let until = || Deadline::after(Duration::from_secs(20));
    let (signaller, object) = (drm.clone(), kernel.clone());
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        signaller.signal_point(&object, 1)
    });
    let waited = mixed::wait(&entries, WaitFor::ANY.for_submit(), until())?;
    ensure(
        waited.first == Some(0),
        "the kernel's object ended the wait",
    )?;
    later
        .join()
        .map_err(|_panic| "the other thread panicked")??;
    let (late, shared_too, across_too) = (own.clone(), shared.clone(), across.clone());
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        late.signal_point(1);
        std::thread::sleep(Duration::from_millis(20));
        shared_too.signal_point(&across_too, 1)
    });
    mixed::wait(&entries, WaitFor::ALL.for_submit(), until())?;
    later
        .join()
        .map_err(|_panic| "the other thread panicked")??;

    let bell = Doorbell::new()?;
    let mut watches = Vec::new();
    for (token, object) in (0..).zip(&any) {
        watches.push(bell.watch(object, 2, false, token)?);
    }
    ensure(bell.drain()?.is_empty(), "nothing is ready")?;
    drm.signal_point(&kernel, 2)?;
    own.signal_point(2);
    shared.signal_point(&across, 2)?;
    let mut tokens = bell.drain()?;
    tokens.sort_unstable();
    ensure(tokens == [0, 1, 2], "all three rang")
}
