//! Appending, acknowledging, sealing.

use super::segment::{Segment, name_of};
use super::state::{Key, Own, State};
use super::{Store, Ticket};
use crate::bytes::len64;
use crate::error::{Error, Operation, Result};
use crate::format::{
    ContentId, KEY_LEN_MAX, Kind, PAYLOAD_LEN_MAX, Record, Salt, SegmentHeader, VERSION,
    encode_footer, encode_index,
};
use crate::storage::{Bytes, Disk, SyncTarget};

impl Store {
    /// Appends an entry to this process's segment; nothing is written if the store has the same bytes
    /// under this key, verified. Durable only once [`flush`](Self::flush) returned.
    ///
    /// # Cost
    ///
    /// One hash over the payload and one append; the disk may sleep to keep its pace, so call this
    /// off the program's threads.
    ///
    /// # Errors
    ///
    /// - [`Error::TooLarge`]: key or payload.
    /// - [`Error::ReadOnly`].
    /// - [`Error::File`]: the disk is full or failed. What was appended before is synced if it can be,
    ///   and the next append starts a new segment.
    pub fn append(&self, kind: Kind, key: &[u8], payload: &[u8]) -> Result<Ticket> {
        let limits = [
            ("key", len64(key.len()), len64(KEY_LEN_MAX)),
            ("payload", len64(payload.len()), PAYLOAD_LEN_MAX),
        ];
        for (what, given, limit) in limits {
            if given > limit {
                return Err(Error::TooLarge { what, given, limit });
            }
        }
        let id = ContentId::of(payload);
        let key: Key = (kind, key.into());
        let mut state = self.lock();
        if let Some(ticket) = self.known(&mut state, &key, id) {
            return Ok(ticket);
        }
        self.put(&mut state, kind, &key.1, payload, id)
    }

    /// Makes an entry unfindable. Its bytes go at the next compaction.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn remove(&self, kind: Kind, key: &[u8]) -> Result<Ticket> {
        let mut state = self.lock();
        if !state.index.contains_key(&(kind, key.into())) {
            return Ok(Ticket(state.ticket));
        }
        let mut full = Vec::with_capacity(key.len() + 1);
        full.push(kind.0);
        full.extend_from_slice(key);
        self.put(&mut state, Kind::REMOVED, &full, &[], ContentId::of(&[]))
    }

    /// The ticket to wait for if the store has these very bytes under this key already.
    fn known(&self, state: &mut State, key: &Key, id: ContentId) -> Option<Ticket> {
        // Fetch verifies: a damaged record must not keep its replacement out.
        let blob = state.fetch(&*self.disk, key)?;
        if blob.id != id {
            return None;
        }
        let segment = state.index.get(key)?.segment;
        if state.own.as_ref().is_none_or(|own| own.segment != segment) {
            // Its writer may have died, or not have synced yet: our acknowledgement must not rest on that.
            state.relied.insert(segment);
            state.ticket += 1;
        }
        state.used_now.insert(id);
        Some(Ticket(state.ticket))
    }

    fn put(
        &self,
        state: &mut State,
        kind: Kind,
        key: &[u8],
        payload: &[u8],
        id: ContentId,
    ) -> Result<Ticket> {
        self.ensure_own(state)?;
        let segment_id = state.own.as_ref().map_or(0, |own| own.segment);
        let salt = state.segments.get(&segment_id).map(|s| s.salt);
        let (Some(own), Some(salt)) = (state.own.as_mut(), salt) else {
            return Err(self.refusal("no segment could be made"));
        };
        let record = Record {
            kind,
            key: key.into(),
            payload_len: len64(payload.len()),
            offset: own.len,
            order: state.order.saturating_add(1),
            id,
            day: state.day,
        };
        let head = record.encode(salt);
        let parts = [head.as_slice(), payload, record.padding()];
        if let Err(source) = self.disk.append(&own.name, &parts) {
            let name = own.name.clone();
            self.abandon(state);
            return Err(Error::file(Operation::Append, &name)(source));
        }
        own.len = record.end();
        own.records.push(record.clone());
        state.ticket += 1;
        state.used_now.insert(id);
        state.take(segment_id, &record);
        Ok(Ticket(state.ticket))
    }

    /// Makes this process's segment if there is none, or if this process is a fork of its maker.
    fn ensure_own(&self, state: &mut State) -> Result<()> {
        if self.options.is_read_only {
            return Err(self.refusal("opened read-only"));
        }
        let pid = std::process::id();
        if state.own.as_ref().is_some_and(|own| own.pid == pid) {
            return Ok(());
        }
        state.own = None;
        let (name, header) = self.new_segment(0)?;
        let data = Bytes::new(header.encode());
        let len = len64(data.len());
        let opened = Segment::open(&name, header.nonce, data, self.options.identity);
        let Ok((segment, records)) = opened else {
            return Err(self.refusal("a new segment does not read back"));
        };
        let segment = state.add(segment, records);
        state.own = Some(Own {
            segment,
            name,
            len,
            records: Vec::new(),
            is_name_synced: false,
            synced_len: 0,
            pid,
        });
        Ok(())
    }

    /// Creates a segment file with its header; the name is random, so that no process needs a lock.
    pub(super) fn new_segment(&self, generation: u32) -> Result<(String, SegmentHeader)> {
        let mut attempt = 0_u32;
        loop {
            let nonce = crate::identity::random();
            let name = name_of(nonce);
            match self.disk.create(&name) {
                Ok(()) => {}
                Err(error)
                    if attempt < 8
                        && matches!(
                            error.kind(),
                            std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::WouldBlock
                        ) =>
                {
                    attempt += 1;
                    continue;
                }
                Err(error) => return Err(Error::file(Operation::Create, &name)(error)),
            }
            let header = SegmentHeader {
                version: VERSION,
                generation,
                nonce,
                identity: self.options.identity,
            };
            if let Err(error) = self.disk.append(&name, &[&header.encode()]) {
                // An empty file would only be clutter; that it cannot be removed costs nothing more.
                let _clutter = self.disk.remove(&name);
                return Err(Error::file(Operation::Append, &name)(error));
            }
            return Ok((name, header));
        }
    }

    /// Gives up the own segment after a failed append: what it holds is synced if it can be.
    fn abandon(&self, state: &mut State) {
        let Some(own) = state.own.take() else {
            return;
        };
        let synced = own.len == own.synced_len
            || (!own.records.is_empty()
                && self.disk.sync(SyncTarget::File(&own.name)).is_ok()
                && self.disk.sync(SyncTarget::Names).is_ok());
        if own.records.is_empty() {
            let _clutter = self.disk.remove(&own.name);
            state.segments.remove(&own.segment);
        } else if synced {
            if state.relied.is_empty() {
                state.acknowledged = state.ticket;
            }
        } else {
            lose(state, &own, &*self.disk);
        }
        self.disk.release(&own.name);
    }

    /// Returns when everything appended so far is on the disk, and acknowledges it.
    ///
    /// # Cost
    ///
    /// One fdatasync if anything is new, one sync of the folder for a new segment; the store is not
    /// locked meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::File`]: what was not acknowledged before is lost for good (see
    /// [`is_durable`](Self::is_durable)); append it again.
    pub fn flush(&self) -> Result<Ticket> {
        let (own, relied, upto) = {
            let state = self.lock();
            let own = state.own.as_ref().filter(|own| own.len > own.synced_len);
            let own = own.map(|own| (own.name.clone(), own.len, own.is_name_synced));
            (own, relied_names(&state), state.ticket)
        };
        let result = self.sync_all(own.as_ref(), &relied);
        let mut state = self.lock();
        if let Err(error) = result {
            if let Some(own) = state.own.take() {
                lose(&mut state, &own, &*self.disk);
                self.disk.release(&own.name);
            }
            return Err(error);
        }
        if let (Some((name, len, _)), Some(current)) = (own, state.own.as_mut())
            && name == current.name
        {
            current.is_name_synced = true;
            current.synced_len = current.synced_len.max(len);
        }
        for (id, _) in relied {
            state.relied.remove(&id);
        }
        state.acknowledged = state.acknowledged.max(upto);
        Ok(Ticket(upto))
    }

    fn sync_all(&self, own: Option<&(String, u64, bool)>, relied: &[(u32, String)]) -> Result<()> {
        let mut names_synced = true;
        if let Some((name, _, is_name_synced)) = own {
            let failed = Error::file(Operation::Sync, name);
            self.disk.sync(SyncTarget::File(name)).map_err(failed)?;
            names_synced = *is_name_synced;
        }
        for (_, name) in relied {
            match self.disk.sync(SyncTarget::File(name)) {
                // Compacted meanwhile, and compaction syncs before it removes.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                other => other.map_err(Error::file(Operation::Sync, name))?,
            }
            names_synced = false;
        }
        if !names_synced {
            let place = self.disk.place();
            let failed = Error::file(Operation::Sync, &place);
            self.disk.sync(SyncTarget::Names).map_err(failed)?;
        }
        Ok(())
    }

    /// Everything up to this ticket is durable, but for what [`is_durable`](Self::is_durable) denies.
    pub fn acknowledged(&self) -> Ticket {
        Ticket(self.lock().acknowledged)
    }

    /// Whether what this ticket stands for survives a power cut.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        let state = self.lock();
        let lost = |(first, last): &(u64, u64)| (*first..=*last).contains(&ticket.0);
        ticket.0 <= state.acknowledged && !state.lost.iter().any(lost)
    }

    /// Notes uses that are due, writes the index of this process's segment, syncs and ends it.
    ///
    /// Writes nothing at all if nothing was appended and no use is due. The store stays usable; the
    /// next append starts a new segment.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn seal(&self) -> Result<Ticket> {
        let mut state = self.lock();
        let noted = self.note_uses(&mut state);
        let pid = std::process::id();
        // Taken out: an append meanwhile goes to a new segment, never behind the footer.
        let own = state.own.take().filter(|own| own.pid == pid);
        let Some(own) = own else {
            drop(state);
            noted?;
            return self.flush();
        };
        if let Some(salt) = state.segments.get(&own.segment).map(|s| s.salt) {
            // Without an index the segment is scanned: slower to open, nothing lost.
            let (_, parts) = index_and_footer(&own.records, own.len, state.order, salt);
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let _slower = self.disk.append(&own.name, &parts);
        }
        let upto = state.ticket;
        let relied = relied_names(&state);
        drop(state);
        let synced = (own.name.clone(), own.len, own.is_name_synced);
        let result = self.sync_all(Some(&synced), &relied);
        self.disk.release(&own.name);
        let mut state = self.lock();
        if let Err(error) = result {
            lose(&mut state, &own, &*self.disk);
            return Err(error);
        }
        for (id, _) in relied {
            state.relied.remove(&id);
        }
        state.acknowledged = state.acknowledged.max(upto);
        drop(state);
        noted?;
        Ok(Ticket(upto))
    }

    /// Appends one record of the entries used now whose last note is old.
    fn note_uses(&self, state: &mut State) -> Result<()> {
        if self.options.is_read_only {
            return Ok(());
        }
        let due: Vec<u8> = state
            .index
            .values()
            .filter(|slot| {
                let noted = state.last_use(slot);
                state.used_now.contains(&slot.id)
                    && state.day >= noted.saturating_add(self.options.use_note_days)
            })
            .flat_map(|slot| slot.id.0)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        self.put(state, Kind::USES, &[], &due, ContentId::of(&due))?;
        for id in due.chunks_exact(16) {
            let id = ContentId(crate::bytes::array_at(id, 0).unwrap_or_default());
            state.uses.insert(id, state.day);
        }
        Ok(())
    }

    fn refusal(&self, reason: &str) -> Error {
        Error::ReadOnly {
            name: self.disk.place(),
            reason: reason.to_owned(),
        }
    }
}

/// The segments of others that the next acknowledgement rests on.
fn relied_names(state: &State) -> Vec<(u32, String)> {
    let name = |id: &u32| Some((*id, state.segments.get(id)?.name.clone()));
    state.relied.iter().filter_map(name).collect()
}

/// Marks as lost what the own segment held unsynced: the kernel may have dropped the pages.
fn lose(state: &mut State, own: &Own, disk: &dyn Disk) {
    if let Some(segment) = state.segments.get_mut(&own.segment) {
        segment.limit = own.synced_len;
        segment.is_sealed = false;
    }
    if state.ticket > state.acknowledged {
        let range = (state.acknowledged + 1, state.ticket);
        state.lost.push(range);
    }
    state.relied.clear();
    state.rebuild(disk);
}

/// The last parts of a sealed segment: index header and payload, padding, footer.
pub(super) fn index_and_footer(
    records: &[Record],
    offset: u64,
    order: u64,
    salt: Salt,
) -> (Record, [Vec<u8>; 4]) {
    let payload = encode_index(records);
    let index = Record {
        kind: Kind::INDEX,
        key: Box::default(),
        payload_len: len64(payload.len()),
        offset,
        order,
        id: ContentId::of(&payload),
        day: 0,
    };
    let head = index.encode(salt);
    let padding = index.padding().to_vec();
    let footer = encode_footer(&index, salt).to_vec();
    (index, [head, payload, padding, footer])
}

impl Drop for Store {
    /// Lets the segment go. Whoever wants the last appends acknowledged calls [`seal`](Self::seal).
    fn drop(&mut self) {
        let own = self.lock().own.take();
        if let Some(own) = own {
            self.disk.release(&own.name);
        }
    }
}
