//! What the store knows: segments, the index over them, and the segment that this process writes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::segment::{NotOurs, Segment, nonce_of};
use super::{Blob, Options};
use crate::bytes::array_at;
use crate::error::{Error, Operation, Result};
use crate::format::{ContentId, Kind, Record};
use crate::storage::Disk;

/// Kind and key of an entry.
pub(super) type Key = (Kind, Box<[u8]>);

/// Where an entry's newest record is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) segment: u32,
    pub(super) offset: u64,
    pub(super) payload_len: u64,
    pub(super) whole_len: u64,
    pub(super) order: u64,
    pub(super) id: ContentId,
    pub(super) day: u32,
}

/// The segment that this process writes.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) segment: u32,
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) records: Vec<Record>,
    pub(super) is_name_synced: bool,
    pub(super) synced_len: u64,
    pub(super) pid: u32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) segments: BTreeMap<u32, Segment>,
    pub(super) index: HashMap<Key, Slot>,
    pub(super) removed: HashMap<Key, u64>,
    pub(super) uses: HashMap<ContentId, u32>,
    pub(super) used_now: HashSet<ContentId>,
    pub(super) order: u64,
    pub(super) day: u32,
    pub(super) own: Option<Own>,
    pub(super) ticket: u64,
    pub(super) acknowledged: u64,
    /// Tickets that a failed sync lost: first and last of each run.
    pub(super) lost: Vec<(u64, u64)>,
    /// Segments of others that an append relied on, to be synced before it is acknowledged.
    pub(super) relied: BTreeSet<u32>,
    /// Records found damaged when they were asked for.
    pub(super) bad: HashSet<(u32, u64)>,
    pub(super) skipped: Vec<(String, NotOurs)>,
    next_segment: u32,
}

impl State {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            day: options.day,
            ..Self::default()
        }
    }

    /// Brings segments and index up to the folder's state.
    pub(super) fn refresh(&mut self, disk: &dyn Disk, identity: [u8; 16]) -> Result<()> {
        let place = disk.place();
        let names = disk.names().map_err(Error::file(Operation::List, &place))?;
        let there: HashSet<&str> = names.iter().map(String::as_str).collect();
        let own = self.own.as_ref().map(|own| own.segment);
        self.segments
            .retain(|id, s| Some(*id) == own || there.contains(s.name.as_str()));
        self.skipped.clear();
        let known: HashMap<String, u32> = self
            .segments
            .iter()
            .map(|(id, segment)| (segment.name.clone(), *id))
            .collect();
        let mut fresh = Vec::new();
        for name in &names {
            let Some(nonce) = nonce_of(name) else {
                continue;
            };
            if let Some(id) = known.get(name) {
                if Some(*id) != own {
                    self.read_on(disk, *id);
                }
            } else if let Ok(data) = disk.read(name) {
                // A file that went away meanwhile was compacted into one that is listed or will be.
                fresh.push((name, nonce, data));
            }
        }
        // Parsed after all are mapped: the disk fetches their ends side by side.
        for (name, nonce, data) in fresh {
            match Segment::open(name, nonce, data, identity) {
                Ok((segment, records)) => {
                    self.add(segment, records);
                }
                Err(why) => self.skipped.push((name.clone(), why)),
            }
        }
        let segments = &self.segments;
        self.index
            .retain(|_, slot| segments.contains_key(&slot.segment));
        Ok(())
    }

    fn read_on(&mut self, disk: &dyn Disk, id: u32) {
        let Some(segment) = self.segments.get_mut(&id).filter(|s| !s.is_sealed) else {
            return;
        };
        let Ok(data) = disk.read(&segment.name) else {
            return;
        };
        if data.len() > segment.data.len() {
            for record in segment.grow(data) {
                self.take(id, &record);
            }
        }
    }

    /// Adds a segment and its records, and returns the segment's number.
    pub(super) fn add(&mut self, segment: Segment, records: Vec<Record>) -> u32 {
        let id = self.next_segment;
        self.next_segment += 1;
        self.segments.insert(id, segment);
        for record in records {
            self.take(id, &record);
        }
        id
    }

    /// Takes one record into the index; the newest by (order, content) wins.
    pub(super) fn take(&mut self, segment: u32, record: &Record) {
        self.order = self.order.max(record.order);
        self.day = self.day.max(record.day);
        let limit = self.segments.get(&segment).map_or(u64::MAX, |s| s.limit);
        if record.offset >= limit || self.bad.contains(&(segment, record.offset)) {
            return;
        }
        match record.kind {
            Kind::USES => self.take_uses(segment, record),
            Kind::REMOVED => self.take_removed(record),
            kind if kind.is_internal() => {}
            kind => self.take_entry((kind, record.key.clone()), slot_of(segment, record)),
        }
    }

    fn take_entry(&mut self, key: Key, slot: Slot) {
        if self
            .removed
            .get(&key)
            .is_some_and(|order| *order > slot.order)
        {
            return;
        }
        let is_newest = self.index.get(&key).is_none_or(|old| {
            !self.segments.contains_key(&old.segment)
                || (slot.order, slot.id) >= (old.order, old.id)
        });
        if is_newest {
            self.index.insert(key, slot);
        }
    }

    fn take_removed(&mut self, record: &Record) {
        let Some((kind, key)) = record.key.split_first() else {
            return;
        };
        let key = (Kind(*kind), Box::from(key));
        if self
            .index
            .get(&key)
            .is_some_and(|slot| slot.order < record.order)
        {
            self.index.remove(&key);
        }
        let order = self.removed.entry(key).or_insert(0);
        *order = record.order.max(*order);
    }

    fn take_uses(&mut self, segment: u32, record: &Record) {
        let data = self.segments.get(&segment).map(|s| s.data.clone());
        let payload = data.as_deref().and_then(|data| record.payload(data));
        for id in payload.unwrap_or_default().chunks_exact(16) {
            let id = ContentId(array_at(id, 0).unwrap_or_default());
            let day = self.uses.entry(id).or_insert(0);
            *day = record.day.max(*day);
        }
    }

    /// Reads all segments again; the slow way out after damage or a lost sync.
    ///
    /// Files are mapped again: of the own segment an old map holds the beginning only, and entries that
    /// fell out of the index here would be dropped by the next compaction.
    pub(super) fn rebuild(&mut self, disk: &dyn Disk) {
        self.index.clear();
        self.removed.clear();
        self.uses.clear();
        let ids: Vec<u32> = self.segments.keys().copied().collect();
        for id in ids {
            let Some(segment) = self.segments.get_mut(&id) else {
                continue;
            };
            if let Ok(data) = disk.read(&segment.name)
                && data.len() > segment.data.len()
            {
                segment.data = data;
            }
            segment.next = crate::bytes::len64(crate::format::SEGMENT_HEADER_LEN);
            segment.damaged_bytes = 0;
            for record in segment.scan() {
                self.take(id, &record);
            }
        }
    }

    /// The verified payload of an entry. Damage found here costs this record only: an older version
    /// of the entry, if there is one, is given instead.
    pub(super) fn fetch(&mut self, disk: &dyn Disk, key: &Key) -> Option<Blob> {
        loop {
            let slot = *self.index.get(key)?;
            let segment = self.segments.get_mut(&slot.segment)?;
            let end = slot.offset.checked_add(slot.whole_len)?;
            if crate::bytes::len64(segment.data.len()) < end
                && let Ok(data) = disk.read(&segment.name)
            {
                segment.data = data;
            }
            let record = Record::decode(&segment.data, slot.offset, segment.salt)
                .filter(|r| r.kind == key.0 && r.key == key.1 && r.id == slot.id);
            if let Some(record) = record
                && record.payload(&segment.data).is_some()
            {
                return Blob::new(segment.data.clone(), &record);
            }
            self.bad.insert((slot.segment, slot.offset));
            self.rebuild(disk);
        }
    }

    /// The day of an entry's last use.
    pub(super) fn last_use(&self, slot: &Slot) -> u32 {
        let used = self.uses.get(&slot.id).copied().unwrap_or(0);
        used.max(slot.day)
    }
}

fn slot_of(segment: u32, record: &Record) -> Slot {
    Slot {
        segment,
        offset: record.offset,
        payload_len: record.payload_len,
        whole_len: record.whole_len(),
        order: record.order,
        id: record.id,
        day: record.day,
    }
}
