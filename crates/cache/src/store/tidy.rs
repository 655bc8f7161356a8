//! Compaction and pruning, under a lock that writers never take.
//!
//! A group of segments that nobody appends to is written again as one, without what is superseded,
//! removed or damaged. The new segment is synced before the old ones go, so that a power cut at any
//! moment leaves each entry at least once.
//!
//! Size-tiered: [`FANOUT`] segments of one generation become one of the next, so that the bytes of a
//! save are written once more in the first `FANOUT`^2 sessions that saved anything: amplification at
//! most 2 up to 4,096 such sessions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::Store;
use super::segment::Segment;
use super::state::{Key, Slot, State};
use super::write::index_and_footer;
use crate::bytes::{array_at, len64};
use crate::error::{Error, Operation, Result};
use crate::format::{ContentId, Kind, Record, SEGMENT_HEADER_LEN, Salt};
use crate::storage::{Bytes, SyncTarget};

const LOCK: &str = "tidy.lock";
/// Segments of one generation before they are merged: 64 maps open in a few milliseconds.
const FANOUT: usize = 64;
/// A segment of this size is never merged for its count, only for what is dead in it.
const LARGE_BYTES: u64 = 256 << 20;
/// What an entry costs beside its record: its place in the index.
const INDEX_ENTRY_BYTES: u64 = 48;

/// What pruning holds a store to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// Most bytes on the disk; the least recently used entries go first.
    pub bytes_max: Option<u64>,
    /// Entries whose last noted use is more days ago go.
    pub unused_days_max: Option<u32>,
}

/// What compaction or pruning did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tidied {
    /// Segments before.
    pub segments_before: u64,
    /// Segments after.
    pub segments_after: u64,
    /// Bytes of all segments before.
    pub bytes_before: u64,
    /// Bytes of all segments after.
    pub bytes_after: u64,
    /// Bytes written for it.
    pub bytes_written: u64,
    /// Entries that were dropped to meet the limits.
    pub entries_dropped: u64,
    /// Damaged records met and left behind.
    pub records_damaged: u64,
    /// Segments left alone because a process appends to them.
    pub segments_in_use: u64,
}

/// What to write again and what to leave out.
#[derive(Debug, Default)]
struct Plan {
    groups: Vec<Vec<u32>>,
    drop: HashSet<Key>,
}

/// A record to copy: from which bytes, and under which header.
struct Copy {
    from: Bytes,
    record: Record,
}

impl Store {
    /// Merges what is due: generations with 64 segments, and segments that are more than half dead.
    ///
    /// # Errors
    ///
    /// - [`Error::Busy`]: another process does it now.
    /// - [`Error::ReadOnly`], [`Error::File`]: everything is as before.
    pub fn compact(&self) -> Result<Tidied> {
        self.tidy(|state, free| Plan {
            groups: due_groups(state, free),
            drop: HashSet::new(),
        })
    }

    /// Writes everything that nobody appends to into one segment.
    ///
    /// # Errors
    ///
    /// As [`compact`](Self::compact).
    pub fn compact_all(&self) -> Result<Tidied> {
        self.tidy(|_, free| Plan {
            groups: vec![free.iter().copied().collect()],
            drop: HashSet::new(),
        })
    }

    /// Drops entries until the limits hold, the least recently used first. Quarantine stays.
    ///
    /// # Errors
    ///
    /// As [`compact`](Self::compact).
    pub fn prune(&self, limits: &Limits) -> Result<Tidied> {
        self.tidy(|state, free| prune_plan(state, free, limits))
    }

    fn tidy(&self, plan: impl FnOnce(&State, &BTreeSet<u32>) -> Plan) -> Result<Tidied> {
        if self.options.is_read_only {
            return Err(Error::ReadOnly {
                name: self.disk.place(),
                reason: "opened read-only".to_owned(),
            });
        }
        if !self
            .disk
            .claim(LOCK)
            .map_err(Error::file(Operation::Claim, LOCK))?
        {
            let name = self.disk.place();
            return Err(Error::Busy { name });
        }
        let mut claimed = Vec::new();
        let result = self.tidy_locked(plan, &mut claimed);
        for name in &claimed {
            self.disk.release(name);
        }
        self.disk.release(LOCK);
        result
    }

    fn tidy_locked(
        &self,
        plan: impl FnOnce(&State, &BTreeSet<u32>) -> Plan,
        claimed: &mut Vec<String>,
    ) -> Result<Tidied> {
        let mut state = self.lock();
        let mut done = Tidied::default();
        // Claim first, then read: what a writer appended before it let go is then seen.
        let names: Vec<(u32, String)> = state
            .segments
            .iter()
            .map(|(id, segment)| (*id, segment.name.clone()))
            .collect();
        let mut free = BTreeSet::new();
        for (id, name) in names {
            match self.disk.claim(&name) {
                Ok(true) => {
                    free.insert(id);
                    claimed.push(name);
                }
                Ok(false) => done.segments_in_use += 1,
                // Gone, or not ours: the refresh below leaves it out.
                Err(_) => {}
            }
        }
        state.refresh(&*self.disk, self.options.identity)?;
        free.retain(|id| state.segments.contains_key(id));
        (done.segments_before, done.bytes_before) = extent(&state);
        let plan = plan(&state, &free);
        done.entries_dropped = len64(plan.drop.len());
        let all: Vec<String> = state.segments.values().map(|s| s.name.clone()).collect();
        drop(state);
        if !plan.groups.is_empty() {
            self.sync_segments(&all)?;
        }
        for group in &plan.groups {
            self.rewrite(group, &plan.drop, &mut done)?;
        }
        let mut state = self.lock();
        state.refresh(&*self.disk, self.options.identity)?;
        (done.segments_after, done.bytes_after) = extent(&state);
        Ok(done)
    }

    /// Makes durable what the plan rests on: an older version may only go once the newer one that
    /// replaced it is sure to stay, and that may be in a segment which is being written.
    fn sync_segments(&self, names: &[String]) -> Result<()> {
        for name in names {
            self.disk
                .sync(SyncTarget::File(name))
                .map_err(Error::file(Operation::Sync, name))?;
        }
        let place = self.disk.place();
        let failed = Error::file(Operation::Sync, &place);
        self.disk.sync(SyncTarget::Names).map_err(failed)
    }

    /// Writes one group again as one segment, then removes the group.
    fn rewrite(&self, group: &[u32], drop: &HashSet<Key>, done: &mut Tidied) -> Result<()> {
        let (copies, names, generation) = {
            let state = self.lock();
            let names: Vec<String> = group
                .iter()
                .filter_map(|id| Some(state.segments.get(id)?.name.clone()))
                .collect();
            let copies = copies(&state, group, drop);
            (copies, names, generation_of(&state, group))
        };
        if !copies.is_empty() {
            let (output, header) = self.new_segment(generation)?;
            let salt = Salt::new(header.nonce, header.identity);
            let written = self.copy_all(&output, salt, copies, done);
            self.disk.release(&output);
            if let Err(error) = written {
                let _clutter = self.disk.remove(&output);
                return Err(error);
            }
        }
        for name in &names {
            self.disk
                .remove(name)
                .map_err(Error::file(Operation::Remove, name))?;
        }
        let place = self.disk.place();
        self.disk
            .sync(SyncTarget::Names)
            .map_err(Error::file(Operation::Sync, &place))?;
        self.lock().refresh(&*self.disk, self.options.identity)
    }

    fn copy_all(
        &self,
        output: &str,
        salt: Salt,
        copies: Vec<Copy>,
        done: &mut Tidied,
    ) -> Result<()> {
        let mut at = len64(SEGMENT_HEADER_LEN);
        let mut records = Vec::with_capacity(copies.len());
        let append = |parts: &[&[u8]]| {
            self.disk
                .append(output, parts)
                .map_err(Error::file(Operation::Append, output))
        };
        let mut order = 0;
        for Copy { from, mut record } in copies {
            let Some(payload) = record.payload(&from) else {
                done.records_damaged += 1;
                continue;
            };
            record.offset = at;
            append(&[&record.encode(salt), payload, record.padding()])?;
            at = record.end();
            order = order.max(record.order);
            records.push(record);
        }
        let (index, parts) = index_and_footer(&records, at, order, salt);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        append(&parts)?;
        done.bytes_written += index.end() + len64(crate::format::FOOTER_LEN);
        self.disk
            .sync(SyncTarget::File(output))
            .map_err(Error::file(Operation::Sync, output))?;
        self.disk
            .sync(SyncTarget::Names)
            .map_err(Error::file(Operation::Sync, output))
    }
}

/// Number and bytes of all segments.
fn extent(state: &State) -> (u64, u64) {
    let bytes = state.segments.values().map(|s| len64(s.data.len())).sum();
    (len64(state.segments.len()), bytes)
}

/// One generation up for a merge, the same for a segment written again by itself.
fn generation_of(state: &State, group: &[u32]) -> u32 {
    let highest = group
        .iter()
        .filter_map(|id| state.segments.get(id))
        .map(|segment| segment.generation)
        .max();
    highest
        .unwrap_or(0)
        .saturating_add(u32::from(group.len() > 1))
}

/// Bytes of live records by segment.
fn live_bytes(state: &State) -> HashMap<u32, u64> {
    let mut live = HashMap::new();
    for slot in state.index.values() {
        *live.entry(slot.segment).or_insert(0) += slot.whole_len + INDEX_ENTRY_BYTES;
    }
    live
}

fn due_groups(state: &State, free: &BTreeSet<u32>) -> Vec<Vec<u32>> {
    let live = live_bytes(state);
    let mut tiers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut groups = Vec::new();
    for id in free {
        let Some(segment) = state.segments.get(id) else {
            continue;
        };
        let bytes = len64(segment.data.len());
        let alive = live.get(id).copied().unwrap_or(0);
        if bytes > (1 << 20) && alive < bytes / 2 {
            groups.push(vec![*id]);
        } else if bytes < LARGE_BYTES {
            tiers.entry(segment.generation).or_default().push(*id);
        }
    }
    groups.extend(tiers.into_values().filter(|tier| tier.len() >= FANOUT));
    groups
}

fn prune_plan(state: &State, free: &BTreeSet<u32>, limits: &Limits) -> Plan {
    let cost = |key: &Key, slot: &Slot| slot.whole_len + INDEX_ENTRY_BYTES + len64(key.1.len());
    let mut entries: Vec<(&Key, &Slot)> = state
        .index
        .iter()
        .filter(|(key, slot)| key.0 != Kind::QUARANTINE && free.contains(&slot.segment))
        .collect();
    entries.sort_by_key(|(key, slot)| (state.last_use(slot), slot.order, *key));
    // What cannot be dropped counts too: fixed parts, and segments that are being written.
    let fixed: u64 = state
        .segments
        .iter()
        .map(|(id, s)| {
            if free.contains(id) {
                256
            } else {
                len64(s.data.len())
            }
        })
        .sum();
    let mut total: u64 = fixed
        + entries
            .iter()
            .map(|(key, slot)| cost(key, slot))
            .sum::<u64>();
    let mut plan = Plan::default();
    let mut touched = BTreeSet::new();
    for (key, slot) in entries {
        let age = state.day.saturating_sub(state.last_use(slot));
        let is_old = limits.unused_days_max.is_some_and(|days| age > days);
        let is_too_much = limits.bytes_max.is_some_and(|bytes| total > bytes);
        if is_old || is_too_much {
            total = total.saturating_sub(cost(key, slot));
            touched.insert(slot.segment);
            plan.drop.insert(key.clone());
        }
    }
    let live = live_bytes(state);
    for id in free {
        let bytes = state.segments.get(id).map_or(0, |s| len64(s.data.len()));
        let dead = bytes.saturating_sub(live.get(id).copied().unwrap_or(0));
        let is_wasteful = limits.bytes_max.is_some() && dead > bytes / 8 && dead > 4096;
        if touched.contains(id) || is_wasteful {
            plan.groups.push(vec![*id]);
        }
    }
    plan
}

/// What of a group goes on living, in the order of the files.
fn copies(state: &State, group: &[u32], drop: &HashSet<Key>) -> Vec<Copy> {
    let mut live: Vec<(&Key, &Slot)> = state
        .index
        .iter()
        .filter(|(key, slot)| group.contains(&slot.segment) && !drop.contains(*key))
        .collect();
    live.sort_by_key(|(_, slot)| (slot.segment, slot.offset));
    let mut out = Vec::with_capacity(live.len());
    for ((kind, key), slot) in live {
        let Some(segment) = state.segments.get(&slot.segment) else {
            continue;
        };
        let record = Record {
            kind: *kind,
            key: key.clone(),
            payload_len: slot.payload_len,
            offset: slot.offset,
            order: slot.order,
            id: slot.id,
            day: state.last_use(slot),
        };
        out.push(Copy {
            from: segment.data.clone(),
            record,
        });
    }
    out.extend(housekeeping(state, group));
    out
}

/// The tombstones of a group, and its notes of use for entries that live elsewhere.
fn housekeeping(state: &State, group: &[u32]) -> Vec<Copy> {
    let is_everything = group.len() == state.segments.len();
    let elsewhere: HashSet<ContentId> = state
        .index
        .values()
        .filter(|slot| !group.contains(&slot.segment))
        .map(|slot| slot.id)
        .collect();
    let mut out = Vec::new();
    let mut notes: BTreeMap<u32, BTreeSet<ContentId>> = BTreeMap::new();
    for segment in group.iter().filter_map(|id| state.segments.get(id)) {
        for record in internal_records(segment) {
            if record.kind == Kind::REMOVED && !is_everything {
                let from = segment.data.clone();
                out.push(Copy { from, record });
            } else if record.kind == Kind::USES {
                let ids = record.payload(&segment.data).unwrap_or_default();
                let ids = ids.chunks_exact(16);
                let ids = ids.map(|id| ContentId(array_at(id, 0).unwrap_or_default()));
                let kept = ids.filter(|id| elsewhere.contains(id));
                notes.entry(record.day).or_default().extend(kept);
            }
        }
    }
    for (day, ids) in notes.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let payload: Vec<u8> = ids.into_iter().flat_map(|id| id.0).collect();
        let record = Record {
            kind: Kind::USES,
            key: Box::default(),
            payload_len: len64(payload.len()),
            // The payload stands alone in its own bytes: see `payload_offset`.
            offset: 0,
            order: state.order,
            id: ContentId::of(&payload),
            day,
        };
        let mut from = vec![0; crate::format::RECORD_HEADER_LEN];
        from.extend_from_slice(&payload);
        let from = Bytes::new(from);
        out.push(Copy { from, record });
    }
    out
}

fn internal_records(segment: &Segment) -> Vec<Record> {
    let mut at = len64(SEGMENT_HEADER_LEN);
    let mut out = Vec::new();
    loop {
        if let Some(record) = Record::decode(&segment.data, at, segment.salt) {
            at = record.end();
            if record.kind.is_internal() {
                out.push(record);
            }
        } else if let Some(next) = crate::format::next_marker(&segment.data, at + 1) {
            at = next;
        } else {
            return out;
        }
    }
}
