//! A disk whose power can be cut after any operation.
//!
//! [`FailingDisk`] keeps everything in memory and knows for each file what is durable and what is only
//! with the kernel. [`after_crash`](FailingDisk::after_crash) gives the disk that a machine finds when
//! it starts again: what was synced, and of the rest whatever [`Remains`] says.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use towpath_cache::Disk;
use towpath_cache::storage::{Bytes, SyncTarget};

/// What a power cut leaves of what was not synced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Remains {
    /// Nothing: files and names as of the last sync.
    Nothing,
    /// Everything, as after SIGKILL.
    Everything,
    /// Names as now, lengths as now, but unsynced bytes are zero.
    Zeros,
    /// A random mixture of sectors, lengths and names, by seed.
    Mixture(u64),
}

/// What a disk was asked to do.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Calls that change the disk.
    pub operations: u64,
    /// Bytes appended.
    pub bytes_written: u64,
    /// Bytes of files handed out by `read`.
    pub bytes_read: u64,
    /// Syncs of files and of names.
    pub syncs: u64,
}

/// A folder in memory. Clones are other processes with the same folder.
#[derive(Clone, Debug)]
pub struct FailingDisk {
    shared: Arc<Mutex<Shared>>,
    process: u64,
}

#[derive(Debug, Default)]
struct Shared {
    files: BTreeMap<String, File>,
    /// Names that survive, and which file they name.
    durable_names: BTreeMap<String, Arc<Mutex<Content>>>,
    held: BTreeMap<String, u64>,
    counts: Counts,
    cut_after: Option<u64>,
    is_cut: bool,
    space: Option<u64>,
    fail_next_sync: bool,
    processes: u64,
}

#[derive(Clone, Debug)]
struct File {
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// How many leading bytes the disk surely has.
    durable: usize,
}

impl Default for FailingDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl FailingDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
            process: 0,
        }
    }

    /// The same folder seen by another process.
    #[must_use]
    pub fn other_process(&self) -> Self {
        let mut shared = self.lock();
        shared.processes += 1;
        Self {
            shared: Arc::clone(&self.shared),
            process: shared.processes,
        }
    }

    /// Ends this process by SIGKILL: its claims are gone, what it wrote is there.
    pub fn kill(&self) {
        let process = self.process;
        self.lock().held.retain(|_, holder| *holder != process);
    }

    /// Cuts the power when `operations` more changing calls have begun; the last of them fails half way.
    pub fn cut_after(&self, operations: u64) {
        let mut shared = self.lock();
        shared.cut_after = Some(shared.counts.operations + operations);
    }

    /// Whether the power was cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.lock().is_cut
    }

    /// Lets only `bytes` more be appended before the disk is full.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.lock().space = bytes;
    }

    /// Makes the next sync fail; as on Linux, what was unsynced is then lost though reads show it.
    pub fn fail_next_sync(&self) {
        self.lock().fail_next_sync = true;
    }

    /// What was asked of this folder so far, by all processes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// All files and their bytes as readers see them.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let shared = self.lock();
        let copy = |file: &File| content(&file.content).bytes.clone();
        shared
            .files
            .iter()
            .map(|(name, file)| (name.clone(), copy(file)))
            .collect()
    }

    /// A disk with these files, all durable.
    #[must_use]
    pub fn with_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        let disk = Self::new();
        for (name, bytes) in files {
            disk.insert(name, bytes);
        }
        disk
    }

    /// The disk that the machine finds after its power was cut now.
    #[must_use]
    pub fn after_crash(&self, remains: Remains) -> Self {
        let shared = self.lock();
        let seed = if let Remains::Mixture(seed) = remains {
            seed
        } else {
            0
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let disk = Self::new();
        let names: BTreeSet<&String> = shared
            .files
            .keys()
            .chain(shared.durable_names.keys())
            .collect();
        for name in names {
            let now = shared.files.get(name).map(|file| &file.content);
            let durable = shared.durable_names.get(name);
            let kept = match remains {
                Remains::Nothing => durable,
                Remains::Everything | Remains::Zeros => now,
                Remains::Mixture(_) => {
                    if random.bool() {
                        now
                    } else {
                        durable
                    }
                }
            };
            if let Some(kept) = kept {
                disk.insert(
                    name.clone(),
                    remaining(&content(kept), remains, &mut random),
                );
            }
        }
        disk
    }

    fn insert(&self, name: String, bytes: Vec<u8>) {
        let durable = bytes.len();
        let content = Arc::new(Mutex::new(Content { bytes, durable }));
        let mut shared = self.lock();
        shared
            .durable_names
            .insert(name.clone(), Arc::clone(&content));
        shared.files.insert(name, File { content });
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one changing call; `true` if it is the one that the power cut hits.
    fn begin(shared: &mut Shared) -> io::Result<bool> {
        if shared.is_cut {
            return Err(io::Error::other("the power is cut"));
        }
        shared.counts.operations += 1;
        shared.is_cut = shared
            .cut_after
            .is_some_and(|at| shared.counts.operations >= at);
        Ok(shared.is_cut)
    }
}

fn content(content: &Arc<Mutex<Content>>) -> MutexGuard<'_, Content> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a power cut leaves of one file.
fn remaining(content: &Content, remains: Remains, random: &mut fastrand::Rng) -> Vec<u8> {
    let (durable, unsynced) = content
        .bytes
        .split_at(content.durable.min(content.bytes.len()));
    let mut out = durable.to_vec();
    match remains {
        Remains::Nothing => {}
        Remains::Everything => out.extend_from_slice(unsynced),
        Remains::Zeros => out.resize(content.bytes.len(), 0),
        Remains::Mixture(_) => {
            let len = random.usize(0..=unsynced.len());
            let whole = unsynced.get(..len).unwrap_or_default();
            for sector in whole.chunks(512) {
                if random.bool() {
                    out.extend_from_slice(sector);
                } else {
                    out.resize(out.len() + sector.len(), 0);
                }
            }
        }
    }
    out
}

fn cut() -> io::Error {
    io::Error::other("the power was cut")
}

impl Disk for FailingDisk {
    fn create(&self, name: &str) -> io::Result<()> {
        let mut shared = self.lock();
        let is_last = Self::begin(&mut shared)?;
        if shared.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Arc::default();
        shared.files.insert(name.to_owned(), File { content });
        shared.held.insert(name.to_owned(), self.process);
        if is_last { Err(cut()) } else { Ok(()) }
    }

    fn append(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let mut shared = self.lock();
        let is_last = Self::begin(&mut shared)?;
        let bytes = parts.concat();
        let mut room = bytes.len();
        if let Some(space) = &mut shared.space {
            room = room.min(usize::try_from(*space).unwrap_or(usize::MAX));
            *space -= room as u64;
        }
        let is_full = room < bytes.len();
        if is_last {
            room /= 2;
        }
        shared.counts.bytes_written += room as u64;
        let file = shared.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let taken = bytes.get(..room).unwrap_or_default();
        content(&file.content).bytes.extend_from_slice(taken);
        match (is_last, is_full) {
            (true, _) => Err(cut()),
            (_, true) => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn sync(&self, what: SyncTarget<'_>) -> io::Result<()> {
        let mut shared = self.lock();
        let is_last = Self::begin(&mut shared)?;
        shared.counts.syncs += 1;
        if is_last {
            return Err(cut());
        }
        if std::mem::take(&mut shared.fail_next_sync) {
            return Err(io::Error::other("the disk failed to write"));
        }
        match what {
            SyncTarget::File(name) => {
                let file = shared.files.get(name).ok_or(io::ErrorKind::NotFound)?;
                let mut content = content(&file.content);
                content.durable = content.bytes.len();
            }
            SyncTarget::Names => {
                shared.durable_names = shared
                    .files
                    .iter()
                    .map(|(name, file)| (name.clone(), Arc::clone(&file.content)))
                    .collect();
            }
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut shared = self.lock();
        if Self::begin(&mut shared)? {
            return Err(cut());
        }
        let file = shared.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        shared.files.insert(to.to_owned(), file);
        if let Some(holder) = shared.held.remove(from) {
            shared.held.insert(to.to_owned(), holder);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut shared = self.lock();
        if Self::begin(&mut shared)? {
            return Err(cut());
        }
        shared.held.remove(name);
        shared.files.remove(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().files.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Bytes> {
        let mut shared = self.lock();
        let file = shared.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let bytes = content(&file.content).bytes.clone();
        shared.counts.bytes_read += bytes.len() as u64;
        Ok(Bytes::new(bytes))
    }

    fn claim(&self, name: &str) -> io::Result<bool> {
        let mut shared = self.lock();
        let is_lock = name.rsplit('.').next() == Some("lock");
        if !is_lock && !shared.files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if shared.held.contains_key(name) {
            return Ok(false);
        }
        shared.held.insert(name.to_owned(), self.process);
        Ok(true)
    }

    fn release(&self, name: &str) {
        let mut shared = self.lock();
        if shared.held.get(name) == Some(&self.process) {
            shared.held.remove(name);
        }
    }

    fn place(&self) -> String {
        "(failing disk)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsynced_bytes_and_names_are_lost_and_synced_ones_are_not() {
        let disk = FailingDisk::new();
        disk.create("a").unwrap();
        disk.append("a", &[b"one"]).unwrap();
        assert!(disk.after_crash(Remains::Nothing).files().is_empty());
        disk.sync(SyncTarget::File("a")).unwrap();
        assert!(
            disk.after_crash(Remains::Nothing).files().is_empty(),
            "its name is unsynced"
        );
        disk.sync(SyncTarget::Names).unwrap();
        disk.append("a", &[b"two"]).unwrap();
        assert_eq!(disk.after_crash(Remains::Nothing).files()["a"], b"one");
        assert_eq!(
            disk.after_crash(Remains::Everything).files()["a"],
            b"onetwo"
        );
        assert_eq!(disk.after_crash(Remains::Zeros).files()["a"], b"one\0\0\0");
        disk.remove("a").unwrap();
        assert!(disk.after_crash(Remains::Nothing).files().contains_key("a"));
    }

    #[test]
    fn after_the_cut_nothing_works() {
        let disk = FailingDisk::new();
        disk.create("a").unwrap();
        disk.cut_after(1);
        assert!(disk.append("a", &[b"12345678"]).is_err());
        assert!(disk.sync(SyncTarget::Names).is_err());
        assert_eq!(disk.files()["a"], b"1234");
    }
}
