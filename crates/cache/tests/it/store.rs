//! Behaviour of the store on sound disks: what is written, by whom, and what goes first.

use std::sync::Arc;

use crate::common::{append, has, key, open, options};
use towpath_cache::{Error, Kind, Limits, Options, Store};
use towpath_failing_disk::{FailingDisk, Remains};

fn open_on(disk: &FailingDisk, day: u32) -> Store {
    let options = Options { day, ..options() };
    Store::open(Arc::new(disk.clone()), options).unwrap()
}

#[test]
fn a_start_with_nothing_new_writes_nothing() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    for n in 0..20 {
        append(&store, n).unwrap();
    }
    store.seal().unwrap();
    let before = disk.counts();
    for day in [20_000, 20_006] {
        let store = open_on(&disk, day);
        for n in 0..20 {
            assert!(has(&store, n));
            append(&store, n).unwrap();
        }
        store.seal().unwrap();
    }
    assert_eq!(disk.counts().bytes_written, before.bytes_written);
}

/// Checksums guard against accidents only: with them made to fit, a generation and an order at the end of
/// their range must not overflow when something is written after them.
#[test]
fn numbers_at_the_end_of_their_range_do_no_harm() {
    let disk = FailingDisk::new();
    for n in 0..2 {
        let store = open(disk.clone());
        append(&store, n).unwrap();
        store.flush().unwrap();
    }
    let mut files = disk.files();
    for bytes in files.values_mut() {
        let (head, record) = bytes.split_at_mut(64);
        head[12..16].fill(0xff);
        let crc = crc32c::crc32c(&head[..60]);
        head[60..].copy_from_slice(&crc.to_le_bytes());
        record[32..40].fill(0xff);
        record[8..12].fill(0);
        let key_end = 64 + usize::from(record[14]);
        let salt = crc32c::crc32c(&head[16..40]);
        let crc = crc32c::crc32c_append(salt, &record[..key_end]);
        record[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    let disk = FailingDisk::with_files(files);
    let store = open(disk.clone());
    assert!(has(&store, 0) && has(&store, 1));
    append(&store, 2).unwrap();
    store.compact_all().unwrap();
    store.seal().unwrap();
    let store = open(disk);
    assert!((0..3).all(|n| has(&store, n)));
}

#[test]
fn a_use_is_noted_once_a_week_and_not_oftener() {
    let disk = FailingDisk::new();
    let store = open_on(&disk, 20_000);
    append(&store, 1).unwrap();
    store.seal().unwrap();
    let written = disk.counts().bytes_written;
    for day in 20_001..20_021 {
        let store = open_on(&disk, day);
        assert!(has(&store, 1));
        store.seal().unwrap();
    }
    // Two notes of one entry: segment header, note, index, footer.
    let notes = disk.counts().bytes_written - written;
    assert!((600..800).contains(&notes), "{notes}");
    let entry = open_on(&disk, 20_021).entries(None).remove(0);
    assert_eq!(entry.last_use_day, 20_014);
}

#[test]
fn a_clock_set_back_changes_nothing() {
    let disk = FailingDisk::new();
    let store = open_on(&disk, 20_100);
    append(&store, 1).unwrap();
    store.seal().unwrap();
    let store = open_on(&disk, 3);
    append(&store, 2).unwrap();
    store.seal().unwrap();
    let store = open_on(&disk, 3);
    assert!(
        store
            .entries(None)
            .iter()
            .all(|entry| entry.last_use_day == 20_100)
    );
    store
        .prune(&Limits {
            unused_days_max: Some(30),
            bytes_max: None,
        })
        .unwrap();
    assert!(has(&store, 1) && has(&store, 2));
}

#[test]
fn twelve_saves_write_five_percent_more_than_what_is_new() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    let mut new = 0;
    let mut random = fastrand::Rng::with_seed(3);
    for save in 0_u32..12 {
        for n in 0_u32..32 {
            let len = random.usize(4 << 10..20 << 10);
            let blob: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
            new += len as u64;
            store
                .append(Kind::BINARY, &(save * 32 + n).to_le_bytes(), &blob)
                .unwrap();
        }
        store.flush().unwrap();
    }
    store.seal().unwrap();
    let ratio = disk.counts().bytes_written as f64 / new as f64;
    assert!(ratio <= 1.05, "{ratio}");
    // One sync per save, one for the name, one for the index.
    assert_eq!(disk.counts().syncs, 12 + 1 + 1);
}

/// Sessions of three entries of 2 to 10 KB each; compacted after each if `compacts`. Gives the bytes written.
fn sessions(disk: &FailingDisk, count: u32, compacts: bool) -> u64 {
    let mut random = fastrand::Rng::with_seed(5);
    for session in 0..count {
        let store = open(disk.clone());
        for n in 0..3 {
            let len = random.usize(2_000..10_000);
            let blob: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
            store
                .append(Kind::OVERLAY, &key(session * 3 + n), &blob)
                .unwrap();
        }
        store.seal().unwrap();
        if compacts {
            store.compact().unwrap();
        }
    }
    disk.counts().bytes_written
}

#[test]
fn compaction_writes_each_saved_byte_at_most_once_more() {
    for count in [64, 100, 400] {
        let saves_alone = sessions(&FailingDisk::new(), count, false);
        let disk = FailingDisk::new();
        let with_compaction = sessions(&disk, count, true);
        assert!(
            with_compaction <= 2 * saves_alone,
            "{count} sessions: {with_compaction} bytes for {saves_alone}"
        );
        assert!(with_compaction > saves_alone, "nothing was compacted");
        let store = open(disk);
        assert_eq!(store.entries(None).len(), 3 * count as usize);
        assert!(
            store
                .entries(None)
                .iter()
                .all(|entry| store.lookup(entry.kind, &entry.key).is_some())
        );
        assert!(store.stats().segments < 64 + u64::from(count) / 64 + 1);
    }
}

#[test]
fn a_peer_with_three_percent_more_gives_these_and_little_else() {
    let (ours, theirs) = (FailingDisk::new(), FailingDisk::new());
    let mut new = 0;
    for (disk, count) in [(&ours, 1000_u32), (&theirs, 1030)] {
        let store = open(disk.clone());
        for n in 0..count {
            let mut random = fastrand::Rng::with_seed(n.into());
            let len = random.usize(1_000..3_000);
            let blob: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
            new += if n >= 1000 { len as u64 } else { 0 };
            store.append(Kind::BINARY, &key(n), &blob).unwrap();
        }
        store.seal().unwrap();
    }
    let before = ours.counts().bytes_written;
    let store = open(ours.clone());
    let done = store.absorb(&open(theirs)).unwrap();
    assert_eq!((done.copied, done.known, done.bytes), (30, 1000, new));
    let written = ours.counts().bytes_written - before;
    assert!(written * 10 <= new * 11, "{written} for {new}");
    let again = open(ours.clone()).absorb(&open(ours)).unwrap();
    assert_eq!((again.copied, again.known), (0, 1030));
}

#[test]
fn pruning_drops_the_least_recently_used_and_holds_the_cap() {
    let disk = FailingDisk::new();
    let store = open_on(&disk, 20_000);
    for n in 0..40 {
        append(&store, n).unwrap();
    }
    store.seal().unwrap();
    let store = open_on(&disk, 20_010);
    for n in 30..40 {
        assert!(has(&store, n));
    }
    store.seal().unwrap();
    let cap = 6_000;
    let done = store
        .prune(&Limits {
            bytes_max: Some(cap),
            unused_days_max: None,
        })
        .unwrap();
    assert!(done.bytes_after <= cap, "{done:?}");
    let on_disk: usize = disk.files().values().map(Vec::len).sum();
    assert!(on_disk as u64 <= cap);
    let store = open_on(&disk, 20_010);
    assert!((30..40).all(|n| has(&store, n)), "used ones stay");
    assert!((0..10).all(|n| !has(&store, n)), "oldest ones go");
    store
        .prune(&Limits {
            bytes_max: None,
            unused_days_max: Some(5),
        })
        .unwrap();
    assert_eq!(store.entries(Some(Kind::OVERLAY)).len(), 10);
}

#[test]
fn a_writer_at_work_is_left_alone_by_compaction_and_sees_what_came_of_it() {
    let disk = FailingDisk::new();
    let writer = open(disk.clone());
    for n in 0..5 {
        append(&writer, n).unwrap();
    }
    let other = Store::open(Arc::new(disk.other_process()), options()).unwrap();
    append(&other, 10).unwrap();
    other.seal().unwrap();
    let done = other.compact_all().unwrap();
    assert_eq!(done.segments_in_use, 1);
    append(&writer, 5).unwrap();
    writer.flush().unwrap();
    writer.refresh().unwrap();
    assert!((0..6).all(|n| has(&writer, n)) && has(&writer, 10));
    other.refresh().unwrap();
    assert!((0..6).all(|n| has(&other, n)) && has(&other, 10));
}

#[test]
fn two_compactions_at_once_are_one_and_a_refusal() {
    let disk = FailingDisk::new();
    let other = disk.other_process();
    assert!(towpath_cache::Disk::claim(&other, "tidy.lock").unwrap());
    let error = open(disk).compact().unwrap_err();
    assert!(matches!(error, Error::Busy { .. }));
}

#[test]
fn segments_of_another_identity_or_a_newer_version_yield_nothing_and_stay() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    append(&store, 1).unwrap();
    store.seal().unwrap();
    let other = Options {
        identity: [8; 16],
        ..options()
    };
    let other = Store::open(Arc::new(disk.clone()), other).unwrap();
    assert!(!has(&other, 1));
    assert_eq!(other.stats().segments_skipped, 1);
    other.compact_all().unwrap();
    assert!(has(&open(disk), 1));
}

#[test]
fn the_newest_of_two_versions_wins_across_segments() {
    let disk = FailingDisk::new();
    for version in [b"one", b"two", b"six"] {
        let store = open(disk.clone());
        store.append(Kind::BLOB, b"k", version).unwrap();
        store.seal().unwrap();
    }
    let store = open(disk.clone());
    assert_eq!(&store.lookup(Kind::BLOB, b"k").unwrap()[..], b"six");
    store.compact_all().unwrap();
    let store = open(disk);
    assert_eq!(&store.lookup(Kind::BLOB, b"k").unwrap()[..], b"six");
    assert_eq!(store.entries(None).len(), 1);
}

#[test]
fn what_the_format_cannot_hold_is_refused() {
    let store = open(FailingDisk::new());
    let error = store.append(Kind::BLOB, &[0; 1025], b"").unwrap_err();
    assert!(matches!(error, Error::TooLarge { given: 1025, .. }));
    store.append(Kind::BLOB, &[0; 1024], b"").unwrap();
    assert_eq!(store.lookup(Kind::BLOB, &[0; 1024]).unwrap().len(), 0);
}

#[test]
fn what_another_process_left_unsynced_is_synced_before_it_is_acknowledged() {
    let disk = FailingDisk::new();
    let killed = open(disk.clone());
    append(&killed, 1).unwrap();
    drop(killed);
    assert!(!has(&open(disk.after_crash(Remains::Nothing)), 1));
    let store = open(disk.other_process());
    // Known already, so nothing is written; but it must not be acknowledged on trust.
    let ticket = append(&store, 1).unwrap();
    assert!(!store.is_durable(ticket));
    store.flush().unwrap();
    assert!(store.is_durable(ticket));
    assert!(has(&open(disk.after_crash(Remains::Nothing)), 1));
}
