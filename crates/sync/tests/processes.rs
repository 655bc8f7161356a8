//! Shared objects between processes: they meet, they are killed, they scribble.
//!
//! The other process is this test program again, told by its arguments to run `the_other_process`,
//! with the object's descriptor as descriptor 3.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
#![expect(unsafe_code, reason = "a descriptor that a parent passed by number")]

use std::os::fd::{AsFd as _, AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Entry, Error, Provider as _, WaitFor};

const ROLE: &str = "TOWPATH_TEST_ROLE";

/// Starts this program again with an object.
fn other(role: &str, shared: &Shared, object: &Object) -> Child {
    let ticket = shared.export(object).unwrap().unwrap();
    let number = ticket.as_raw_fd();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let to_three = move || {
        // SAFETY: safe between fork and exec. 3 may be the ticket itself, which dup2 would leave
        // close-on-exec: hence the copy.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD, 10) };
        // SAFETY: as above.
        if copy < 0 || unsafe { libc::dup2(copy, 3) } != 3 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(to_three) };
    command.spawn().unwrap()
}

#[test]
#[ignore = "the other side of the tests below"]
fn the_other_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let shared = Shared::new();
    // SAFETY: the parent put the descriptor there.
    let ticket = unsafe { OwnedFd::from_raw_fd(3) };
    let object = shared.import(ticket.as_fd()).unwrap().unwrap();
    match role.as_str() {
        "answer" => {
            for round in 0..200 {
                wait(&shared, &object, round * 2 + 1, Deadline::NEVER).unwrap();
                shared.signal_point(&object, round * 2 + 2).unwrap();
            }
        }
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
            for point in 1.. {
                shared.signal_point(&object, point).unwrap();
                let (signaller, fence) = shared.fence().unwrap();
                shared.attach(&object, point, &fence).unwrap();
                signaller.signal();
            }
        }
        _ => {}
    }
}

fn wait(shared: &Shared, object: &Object, point: u64, until: Deadline) -> Result<(), Error> {
    let entry = Entry { object, point };
    shared
        .wait(&[entry], WaitFor::ALL.for_submit(), until)
        .map(drop)
}

fn in_seconds(seconds: u64) -> Deadline {
    Deadline::after(Duration::from_secs(seconds))
}

#[test]
fn two_processes_hand_a_value_to_and_fro() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let mut child = other("answer", &shared, &object);
    for round in 0..200 {
        shared.signal_point(&object, round * 2 + 1).unwrap();
        wait(&shared, &object, round * 2 + 2, in_seconds(30)).unwrap();
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(shared.query(&object).unwrap().reached, 400);
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
        wait(&shared, &object, last + 1, in_seconds(30)).unwrap();
        // Microseconds to milliseconds into its work, at another place each time.
        std::thread::sleep(Duration::from_micros(round * round * 37 % 3000));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = shared.query(&object).unwrap();
        assert!(now.submitted > last, "{now:?} after {last}");
        last = now.submitted.max(last) + 1;
        shared.reset(&object).unwrap();
        shared.signal_point(&object, last).unwrap();
        assert_eq!(shared.query(&object).unwrap().reached, last);
    }
}

#[test]
fn a_peer_that_scribbles_gets_wrong_answers_and_no_more() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let ticket = std::fs::File::from(shared.export(&object).unwrap().unwrap());
    let length = ticket.metadata().unwrap().len();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..400 {
        for _ in 0..64 {
            // The header, this object's slot and fences most often; sometimes anywhere.
            let at = match random() % 4 {
                0 => 8 + random() % 64,
                1 => 4096 + random() % 1704,
                2 => 440_320 + random() % 396,
                _ => random() % (length - 8),
            };
            let value = if random() % 2 == 0 {
                random()
            } else {
                random() % 3
            };
            ticket.write_at(&value.to_le_bytes(), at & !3).unwrap();
        }
        let _signalled = shared.signal_point(&object, round);
        let _progress = shared.query(&object);
        let _fence = shared.fence().and_then(|(_signaller, fence)| {
            shared.attach(&object, round, &fence)?;
            shared.fence_of(&object, round)
        });
        let until = Deadline::after(Duration::from_micros(200));
        let _waited = wait(&shared, &object, round + 3, until);
        let _opened = Shared::new().import(ticket.as_fd());
    }
    // Other arenas are untouched.
    let other = Shared::new();
    let fine = other.create(true).unwrap();
    wait(&other, &fine, 0, Deadline::POLL).unwrap();
}

#[test]
fn descriptors_that_are_no_objects_are_refused() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(shared.import(null.as_fd()).unwrap().is_none());
    // A memory file of the right size without seals could shrink under the mapping.
    let size = std::fs::File::from(shared.export(&object).unwrap().unwrap())
        .metadata()
        .unwrap()
        .len();
    let plain = rustix::fs::memfd_create("plain", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&plain, size).unwrap();
    assert!(shared.import(plain.as_fd()).unwrap().is_none());
    // An object's place with another generation, or past the end.
    let ticket = shared.export(&object).unwrap().unwrap();
    for position in [0, 1 | (77 << 16), 0xffff, u64::from(u32::MAX) << 16] {
        rustix::fs::seek(&ticket, rustix::fs::SeekFrom::Start(position)).unwrap();
        assert!(
            shared.import(ticket.as_fd()).is_err(),
            "position {position:#x}"
        );
    }
}

#[test]
fn full_tables_are_errors_and_everything_given_back_is_used_again() {
    let shared = Shared::new();
    let object = shared.create(false).unwrap();
    let mut held = Vec::new();
    let full = loop {
        let (signaller, fence) = shared.fence().unwrap();
        held.push(signaller);
        if let Err(error) = shared.attach(&object, held.len() as u64, &fence) {
            break error;
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full:?}");
    // Refused, nothing is changed: the points before it are as they were.
    let before = held.len() as u64 - 1;
    assert_eq!(shared.query(&object).unwrap().submitted, before);
    drop(held);
    assert_eq!(shared.query(&object).unwrap().reached, before);
    for _ in 0..5000 {
        let (signaller, _fence) = shared.fence().unwrap();
        signaller.signal();
        drop(shared.create(false).unwrap());
    }
}
