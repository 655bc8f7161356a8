//! Random operations on a store whose disk fails, against a plain map of what may be there.
//!
//! The same rules as `fuzz/fuzz_targets/cache_store.rs`, with seeds instead of a fuzzer.

use std::collections::HashMap;

use towpath_cache::{Kind, Store, Ticket};
use towpath_failing_disk::{FailingDisk, Remains};

use crate::common::open;

/// One life of a disk under random operations.
struct Model {
    /// Two processes on one folder; each has keys of its own.
    disks: [FailingDisk; 2],
    stores: [Store; 2],
    /// By key: the versions that may be found; an acknowledged one clears those before it.
    may: HashMap<u8, Vec<Option<u8>>>,
    waiting: [Vec<(u8, u8, Ticket)>; 2],
}

fn two(disk: FailingDisk) -> ([FailingDisk; 2], [Store; 2]) {
    let disks = [disk.other_process(), disk];
    let stores = [open(disks[0].clone()), open(disks[1].clone())];
    (disks, stores)
}

impl Model {
    fn new() -> Self {
        let (disks, stores) = two(FailingDisk::new());
        let waiting = [Vec::new(), Vec::new()];
        Self {
            disks,
            stores,
            may: HashMap::new(),
            waiting,
        }
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        let who = random.usize(0..2);
        let store = &self.stores[who];
        let (key, value) = (random.u8(0..6) * 2 + u8::from(who == 1), random.u8(..));
        match random.u8(0..12) {
            0..=3 => {
                if let Ok(ticket) = store.append(Kind::BLOB, &[key], &[value; 9]) {
                    self.waiting[who].push((key, value, ticket));
                }
                self.may
                    .entry(key)
                    .or_insert_with(|| vec![None])
                    .push(Some(value));
            }
            4 => {
                // A removal is not drained: what a failed sync lost may come back, which costs nothing.
                let _refused = store.remove(Kind::BLOB, &[key]);
                self.may.entry(key).or_insert_with(|| vec![None]).push(None);
            }
            5 | 6 => {
                let _failed = if random.bool() {
                    store.flush()
                } else {
                    store.seal()
                };
                self.acknowledge(who);
            }
            7 => {
                let _failed = store.compact_all();
            }
            8 => self.disks[0].cut_after(random.u64(1..8)),
            9 => self.kill(who),
            10 => store.refresh().unwrap(),
            _ => self.crash(random),
        }
    }

    fn acknowledge(&mut self, who: usize) {
        for (key, value, ticket) in std::mem::take(&mut self.waiting[who]) {
            let versions = self.may.entry(key).or_default();
            let at = versions.iter().rposition(|version| *version == Some(value));
            if let (true, Some(at)) = (self.stores[who].is_durable(ticket), at) {
                versions.drain(..at);
            }
        }
    }

    /// SIGKILL, and a new start of this process.
    fn kill(&mut self, who: usize) {
        self.disks[who].kill();
        self.stores[who] = open(self.disks[who].clone());
        self.waiting[who].clear();
    }

    fn crash(&mut self, random: &mut fastrand::Rng) {
        let remains = match random.u8(0..4) {
            0 => Remains::Nothing,
            1 => Remains::Everything,
            2 => Remains::Zeros,
            _ => Remains::Mixture(random.u64(..)),
        };
        (self.disks, self.stores) = two(self.disks[0].after_crash(remains));
        self.waiting = [Vec::new(), Vec::new()];
        for (key, versions) in &mut self.may {
            let found = self.stores[0]
                .lookup(Kind::BLOB, &[*key])
                .map(|blob| blob[0]);
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
        let mut model = Model::new();
        for _ in 0..60 {
            model.step(&mut random);
        }
        model.crash(&mut random);
    }
}
