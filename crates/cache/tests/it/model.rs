//! Random operations on a store whose disk fails, against a plain map of what may be there.
//!
//! The same rules as `fuzz/fuzz_targets/cache_store.rs`, with seeds instead of a fuzzer.

use std::collections::HashMap;

use towpath_cache::{Kind, Store, Ticket};
use towpath_failing_disk::{FailingDisk, Remains};

use crate::common::open;

/// One life of a disk under random operations.
struct Model {
    disk: FailingDisk,
    store: Store,
    /// By key: the versions that may be found; an acknowledged one clears those before it.
    may: HashMap<u8, Vec<Option<u8>>>,
    waiting: Vec<(u8, u8, Ticket)>,
}

impl Model {
    fn step(&mut self, random: &mut fastrand::Rng) {
        let (key, value) = (random.u8(0..6), random.u8(..));
        match random.u8(0..10) {
            0..=3 => {
                if let Ok(ticket) = self.store.append(Kind::BLOB, &[key], &[value; 9]) {
                    self.waiting.push((key, value, ticket));
                }
                self.may
                    .entry(key)
                    .or_insert_with(|| vec![None])
                    .push(Some(value));
            }
            4 => {
                // A removal is not drained: what a failed sync lost may come back, which costs nothing.
                let _refused = self.store.remove(Kind::BLOB, &[key]);
                self.may.entry(key).or_insert_with(|| vec![None]).push(None);
            }
            5 | 6 => {
                let _failed = if random.bool() {
                    self.store.flush()
                } else {
                    self.store.seal()
                };
                self.acknowledge();
            }
            7 => {
                let _failed = self.store.compact_all();
            }
            8 => self.disk.cut_after(random.u64(1..8)),
            _ => self.crash(random),
        }
    }

    fn acknowledge(&mut self) {
        for (key, value, ticket) in std::mem::take(&mut self.waiting) {
            let versions = self.may.entry(key).or_default();
            let at = versions.iter().rposition(|version| *version == Some(value));
            if let (true, Some(at)) = (self.store.is_durable(ticket), at) {
                versions.drain(..at);
            }
        }
    }

    fn crash(&mut self, random: &mut fastrand::Rng) {
        let remains = match random.u8(0..4) {
            0 => Remains::Nothing,
            1 => Remains::Everything,
            2 => Remains::Zeros,
            _ => Remains::Mixture(random.u64(..)),
        };
        self.disk = self.disk.after_crash(remains);
        self.store = open(self.disk.clone());
        self.waiting.clear();
        for (key, versions) in &mut self.may {
            let found = self.store.lookup(Kind::BLOB, &[*key]).map(|blob| blob[0]);
            assert!(
                versions.contains(&found),
                "{key}: {found:?} not in {versions:?}, {remains:?}"
            );
            versions.push(found);
        }
    }
}

#[test]
fn whatever_fails_and_when_an_acknowledged_version_is_never_older_than_what_is_found() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let disk = FailingDisk::new();
        let store = open(disk.clone());
        let mut model = Model {
            disk,
            store,
            may: HashMap::new(),
            waiting: Vec::new(),
        };
        for _ in 0..60 {
            model.step(&mut random);
        }
        model.crash(&mut random);
    }
}
