//! Operations on a store whose disk fails, against a plain map of what was acknowledged.
#![no_main]

use std::collections::HashMap;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use towpath_cache::{Kind, Options, Store};
use towpath_failing_disk::{FailingDisk, Remains};

fn open(disk: &FailingDisk) -> Store {
    let options = Options { day: 20_000, ..Options::new([1; 16]) };
    Store::open(Arc::new(disk.clone()), options).unwrap()
}

fuzz_target!(|input: &[u8]| {
    let mut disk = FailingDisk::new();
    let mut store = open(&disk);
    // By key: versions that may be there, with the step that made them; an acknowledged one clears those
    // before it. The step tells apart equal values, between which the entry may have been removed.
    let mut may: HashMap<u8, Vec<(usize, Option<u8>)>> = HashMap::new();
    let mut waiting: Vec<(u8, usize, towpath_cache::Ticket)> = Vec::new();
    for (now, step) in input.chunks_exact(3).take(200).enumerate() {
        let (key, value) = (step[1] % 8, step[2]);
        match step[0] % 8 {
            0 | 1 => {
                if let Ok(ticket) = store.append(Kind::BLOB, &[key], &[value; 9]) {
                    waiting.push((key, now, ticket));
                }
                may.entry(key).or_insert_with(|| vec![(0, None)]).push((now, Some(value)));
            }
            2 => {
                // Not drained below: what a failed sync lost may come back, which costs nothing.
                let _refused = store.remove(Kind::BLOB, &[key]);
                may.entry(key).or_insert_with(|| vec![(0, None)]).push((now, None));
            }
            3 | 4 => {
                let _acknowledged = if step[0] & 8 == 0 { store.flush() } else { store.seal() };
                for (key, made, ticket) in std::mem::take(&mut waiting) {
                    if store.is_durable(ticket) {
                        may.entry(key).or_default().retain(|(at, _)| *at >= made);
                    }
                }
            }
            5 => {
                let _full_or_busy = store.compact_all();
            }
            6 => {
                disk.cut_after(u64::from(value % 6) + 1);
            }
            _ => {
                drop(store);
                let remains = match value % 4 {
                    0 => Remains::Nothing,
                    1 => Remains::Everything,
                    2 => Remains::Zeros,
                    _ => Remains::Mixture(u64::from(value)),
                };
                disk = disk.after_crash(remains);
                store = open(&disk);
                waiting.clear();
                for (key, versions) in &mut may {
                    let found = store.lookup(Kind::BLOB, &[*key]).map(|blob| blob[0]);
                    let is_known = versions.iter().any(|(_, version)| *version == found);
                    assert!(is_known, "{key}: {found:?} not in {versions:?}");
                    // What is there now may go again unless it was durable: keep all, but not others.
                    versions.push((now, found));
                }
            }
        }
    }
});
