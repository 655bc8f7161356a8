//! The power is cut after every operation of every scenario, every byte is cut and every bit flipped.
//!
//! What must hold: no acknowledged entry is lost, no byte is handed out that was not appended.

use std::collections::BTreeSet;

use crate::common::{append, has, open};
use towpath_cache::{Kind, Limits, Store};
use towpath_failing_disk::{FailingDisk, Remains};

/// What a scenario knows to be durable; it stops at its first error.
type Acknowledged = BTreeSet<u32>;

fn batches(store: &Store, sure: &mut Acknowledged) -> towpath_cache::Result<()> {
    for batch in 0..3 {
        let first = batch * 4;
        let mut tickets = Vec::new();
        for n in first..first + 4 {
            tickets.push((n, append(store, n)?));
        }
        store.flush()?;
        sure.extend(
            tickets
                .iter()
                .filter(|(_, t)| store.is_durable(*t))
                .map(|(n, _)| *n),
        );
    }
    Ok(())
}

fn sessions(disk: &FailingDisk, sure: &mut Acknowledged) -> towpath_cache::Result<()> {
    for session in 0..3 {
        let store = Store::open(std::sync::Arc::new(disk.clone()), crate::common::options())?;
        // The first two entries overlap with the session before: known ones are acknowledged too.
        let mut tickets = Vec::new();
        for n in session * 3..session * 3 + 5 {
            tickets.push((n, append(&store, n)?));
        }
        store.seal()?;
        sure.extend(
            tickets
                .iter()
                .filter(|(_, t)| store.is_durable(*t))
                .map(|(n, _)| *n),
        );
    }
    Ok(())
}

fn compaction(disk: &FailingDisk, sure: &mut Acknowledged) -> towpath_cache::Result<()> {
    sessions(disk, sure)?;
    let store = Store::open(std::sync::Arc::new(disk.clone()), crate::common::options())?;
    store.compact_all()?;
    for n in 20..23 {
        append(&store, n)?;
    }
    store.flush()?;
    sure.extend(20..23);
    store.prune(&Limits {
        unused_days_max: Some(30),
        ..Limits::default()
    })?;
    store.seal()?;
    Ok(())
}

fn every_cut(
    name: &str,
    scenario: impl Fn(&FailingDisk, &mut Acknowledged) -> towpath_cache::Result<()>,
) {
    let mut operations = 0;
    loop {
        operations += 1;
        let disk = FailingDisk::new();
        disk.cut_after(operations);
        let mut sure = Acknowledged::new();
        let finished = scenario(&disk, &mut sure).is_ok();
        assert!(finished || disk.is_cut());
        let mut kinds = vec![Remains::Nothing, Remains::Everything, Remains::Zeros];
        kinds.extend((0..8).map(|seed| Remains::Mixture(operations * 100 + seed)));
        for remains in kinds {
            let store = open(disk.after_crash(remains));
            for n in 0..30 {
                let there = has(&store, n);
                assert!(
                    there || !sure.contains(&n),
                    "{name}: {n} lost at {operations}, {remains:?}"
                );
            }
            // And the store goes on working.
            append(&store, 99).unwrap();
            store.seal().unwrap();
            assert!(has(&store, 99));
        }
        if finished && !disk.is_cut() {
            assert!(operations > 10, "{name} did too little");
            return;
        }
    }
}

#[test]
fn a_power_cut_after_any_operation_of_appending_loses_nothing_acknowledged() {
    every_cut("batches", |disk, sure| {
        let store = Store::open(std::sync::Arc::new(disk.clone()), crate::common::options())?;
        batches(&store, sure)?;
        store.seal()?;
        Ok(())
    });
}

#[test]
fn a_power_cut_after_any_operation_of_several_sessions_loses_nothing_acknowledged() {
    every_cut("sessions", sessions);
}

#[test]
fn a_power_cut_after_any_operation_of_compaction_loses_nothing_acknowledged() {
    every_cut("compaction", compaction);
}

/// Files of a small store: one sealed segment and one that was never sealed.
fn small_store() -> std::collections::BTreeMap<String, Vec<u8>> {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    for n in 0..6 {
        append(&store, n).unwrap();
    }
    store.seal().unwrap();
    for n in 6..10 {
        append(&store, n).unwrap();
    }
    store.flush().unwrap();
    disk.files()
}

/// Flips every bit of the given number in every byte of a small store.
fn flip(bit_of_byte: usize) {
    let files = small_store();
    for (name, bytes) in &files {
        for at in 0..bytes.len() {
            let mut damaged = files.clone();
            damaged.get_mut(name).unwrap()[at] ^= 1 << bit_of_byte;
            let store = open(FailingDisk::with_files(damaged));
            let found = (0..10).filter(|n| has(&store, *n)).count();
            assert!(
                found >= 9,
                "{found} of 10 left after bit {bit_of_byte} of byte {at} of {name}"
            );
        }
    }
}

/// One test per bit of a byte, so that they run side by side.
macro_rules! every_flipped_bit_costs_one_entry_at_most {
    ($($name:ident = $bit:literal;)+) => {
        mod every_flipped_bit_costs_one_entry_at_most {
            $(#[test]
            fn $name() {
                super::flip($bit);
            })+
        }
    };
}

every_flipped_bit_costs_one_entry_at_most! {
    bit_0 = 0;
    bit_1 = 1;
    bit_2 = 2;
    bit_3 = 3;
    bit_4 = 4;
    bit_5 = 5;
    bit_6 = 6;
    bit_7 = 7;
}

#[test]
fn every_cut_of_a_file_keeps_all_entries_before_it() {
    let files = small_store();
    for (name, bytes) in &files {
        let mut before = 0;
        for len in 0..=bytes.len() {
            let mut short = files.clone();
            short.get_mut(name).unwrap().truncate(len);
            let store = open(FailingDisk::with_files(short));
            let found = (0..10).filter(|n| has(&store, *n)).count();
            assert!(found >= before, "a longer file gave less");
            before = found;
        }
        assert_eq!(before, 10);
    }
}

#[test]
fn a_block_of_zeros_in_the_middle_costs_what_lies_in_it() {
    let files = small_store();
    for (name, bytes) in &files {
        for start in (64..bytes.len()).step_by(40) {
            let mut damaged = files.clone();
            let end = (start + 64).min(bytes.len());
            damaged.get_mut(name).unwrap()[start..end].fill(0);
            let store = open(FailingDisk::with_files(damaged));
            let found = (0..10).filter(|n| has(&store, *n)).count();
            assert!(found >= 8, "{found} of 10 left after zeros at {start}");
        }
    }
}

#[test]
fn a_damaged_entry_is_replaced_when_it_is_saved_again() {
    let mut files = small_store();
    let bytes = files.values_mut().max_by_key(|bytes| bytes.len()).unwrap();
    // The payload of the first record.
    bytes[64 + 64 + 6] ^= 1;
    let disk = FailingDisk::with_files(files);
    let store = open(disk.clone());
    let missing: Vec<u32> = (0..10).filter(|n| !has(&store, *n)).collect();
    assert_eq!(missing.len(), 1);
    append(&store, missing[0]).unwrap();
    store.seal().unwrap();
    assert!(has(&open(disk), missing[0]));
}

#[test]
fn a_failed_sync_acknowledges_nothing_and_hides_what_it_lost() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    let first = append(&store, 1).unwrap();
    store.flush().unwrap();
    let second = append(&store, 2).unwrap();
    disk.fail_next_sync();
    store.flush().unwrap_err();
    assert!(store.is_durable(first));
    assert!(!store.is_durable(second));
    // Appending it again must write it again, not trust the page cache.
    let third = append(&store, 2).unwrap();
    store.flush().unwrap();
    assert!(store.is_durable(third) && !store.is_durable(second));
    let after = open(disk.after_crash(Remains::Nothing));
    assert!(has(&after, 1) && has(&after, 2));
}

#[test]
fn a_disk_that_fills_half_way_keeps_the_old_data_whole() {
    for space in 0..2500 {
        let disk = FailingDisk::new();
        let store = open(disk.clone());
        for n in 0..4 {
            append(&store, n).unwrap();
        }
        store.seal().unwrap();
        disk.set_space(Some(space));
        let store = open(disk.clone());
        let mut sure = vec![0, 1, 2, 3];
        for n in 4..8 {
            match append(&store, n) {
                Ok(ticket) => {
                    if store.flush().is_ok() && store.is_durable(ticket) {
                        sure.push(n);
                    }
                }
                Err(error) => assert!(error.one_line().contains("cannot"), "{error}"),
            }
        }
        let _full = store.seal();
        let after = open(disk.after_crash(Remains::Nothing));
        for n in sure {
            assert!(has(&after, n), "{n} lost with {space} bytes of space");
        }
        // Once there is room again, it goes on.
        disk.set_space(None);
        append(&store, 9).unwrap();
        store.seal().unwrap();
        assert!(has(&open(disk), 9));
    }
}

#[test]
fn a_removed_entry_stays_removed_through_compaction_and_damage_elsewhere() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    append(&store, 1).unwrap();
    append(&store, 2).unwrap();
    store.seal().unwrap();
    store.remove(Kind::OVERLAY, &crate::common::key(1)).unwrap();
    store.seal().unwrap();
    assert!(!has(&open(disk.clone()), 1));
    store.compact_all().unwrap();
    let after = open(disk.clone());
    assert!(!has(&after, 1) && has(&after, 2));
    append(&after, 1).unwrap();
    after.seal().unwrap();
    assert!(has(&open(disk), 1), "an entry can come back");
}
