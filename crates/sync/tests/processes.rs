//! Shared objects between processes: they meet, they scribble, tables are full.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use towpath_sync::shared::Shared;
use towpath_sync::{Deadline, Error, Provider as _};

#[path = "common/other.rs"]
mod common;

use common::{in_seconds, other, role, wait};

#[test]
#[ignore = "the other side of the tests below"]
fn the_other_process() {
    let Some((role, shared, object)) = role() else {
        return;
    };
    if role == "answer" {
        for round in 0..200 {
            wait(&shared, &object, round * 2 + 1, Deadline::NEVER).unwrap();
            shared.signal_point(&object, round * 2 + 2).unwrap();
        }
    }
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
